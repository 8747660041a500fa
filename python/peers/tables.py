"""Tables of measured peers, for the terminal and for a page."""

import statistics
import sys

BEGIN, END = "<!-- begin of `dp_bench bench peers` -->", "<!-- end of `dp_bench bench peers` -->"


def time_text(ms):
    if ms < 0.1:
        return f"{1e3 * ms:.3g} µs"
    return f"{ms:.3g} ms" if ms < 1e3 else f"{ms:.0f} ms"


def ratio_text(ratio):
    return f"{ratio:.1f}×" if ratio < 100 else f"{ratio:.0f}×"


def cells(row):
    """The medians of a row, those of the peer's fastest way, its ratios, and the share of the limit that ours reaches."""
    way = min(row["peer_ms"], key=lambda name: statistics.median(row["peer_ms"][name]))
    theirs = row["peer_ms"][way]
    ratios = [a / b for a, b in zip(theirs, row["ours_ms"])]
    shares = [limit / ours for limit, ours in zip(row["limit_ms"], row["ours_ms"]) if limit]
    peer, ours = time_text(statistics.median(theirs)), time_text(statistics.median(row["ours_ms"]))
    return [
        row["work"],
        f"{peer} ({way})" if len(row["peer_ms"]) > 1 else peer,
        f"{ours} ({row['ours']})" if row["ours"] else ours,
        ratio_text(statistics.median(ratios)),
        f"{ratio_text(min(ratios))} to {ratio_text(max(ratios))}",
        f"{100 * statistics.median(shares):.0f} %" if shares else "",
    ]


HEAD = ["", "peer", "dp_bench", "ratio", "in the rounds", "of the limit"]


def for_terminal(peer):
    lines = [HEAD, *(cells(row) for row in peer["rows"])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
    return f"\n{peer['title']}\npeer: {peer['peer']}\n{text}"


def for_page(results):
    text = ""
    for result in results:
        text += f"\n### On {result['machine']}\n\nMeasured on {result['date']}, medians of {result['rounds']} rounds.\n"
        for peer in result["peers"]:
            text += f"\n**{peer['title']}**; peer: {peer['peer']}\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n"
            for row in peer["rows"]:
                line = cells(row)
                line[3] = f"**{line[3]}**"
                text += f"| {' | '.join(line)} |\n"
    return text


def write_page(path, results, only_check):
    page = path.read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        sys.exit(f"{path}: expected one line '{BEGIN}' and one line '{END}' after it")
    before, rest = page.split(BEGIN)
    new = before + BEGIN + "\n" + for_page(results) + "\n" + END + rest.split(END)[1]
    if only_check and new != page:
        sys.exit(f"{path} differs from what was measured: python python/peers --page {path} RESULTS")
    if not only_check:
        path.write_text(new)
