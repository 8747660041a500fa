"""How many pairs dp_bench gate needs until FAIL, decided by success and by a score, from recorded episodes.

Usage: pairs_needed.py BASELINE EQUAL WORSE [WORSE ...]

Each is a run folder of the same task and seeds. BASELINE and EQUAL are equally good: an episode of either is the old or
the new one at random, so without a planted drop the mean change is exactly 0. A drop is planted in the new policy by
mixing: each new episode comes at random from the two runs (EQUAL and all WORSE, sorted by success rate) between whose
rates the wanted one lies, in the proportion that gives it. The old and the new episode are of seeds drawn
independently of each other with replacement if --unpaired is given, else of the same seed. Evidence and looks are
those of the gate (alpha 0.01, a look after every 10 pairs), without a limit on the pairs.
"""

import argparse
import json
import pathlib

import numpy as np

DROPS = (0.03, 0.05, 0.10, 0.20)
MAX_PAIRS = 20_000


def read(folder: pathlib.Path) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    return sorted((row for row in rows if row["split"] == "test"), key=lambda row: row["seed"])


def scores(rows: list[dict], horizon: int) -> dict[str, np.ndarray]:
    """As compare/graded_score.h; an env that ends an episode at its success wrote the step as n_steps."""
    success = np.array([row["success"] for row in rows], float)
    steps = np.array([row.get("success_steps", {}).get("first", row["n_steps"]) for row in rows])
    return {
        "success": success,
        "score": np.array([row["score"] for row in rows]),
        "time_to_success": success * (1.0 - 0.5 * np.minimum(steps, horizon) / horizon),
    }


def pairs_until_fail(changes, n_gates: int) -> np.ndarray:
    """`changes(n)` draws new minus old scores, [n_gates, n]."""
    nodes, weights = np.polynomial.legendre.leggauss(256)
    bets, weights = (nodes + 1.0) / 2.0, weights / 2.0
    log_wealth = np.zeros((n_gates, len(bets)))
    open_gates = np.arange(n_gates)
    pairs = np.full(n_gates, MAX_PAIRS)
    for n in range(10, MAX_PAIRS + 1, 10):
        block = changes(len(open_gates))
        factor = np.ones_like(log_wealth)
        for change in block.T:
            factor *= 1.0 - np.outer(change, bets)
        log_wealth += np.log(factor)
        largest = log_wealth.max(axis=1)
        evidence = largest + np.log(np.exp(log_wealth - largest[:, None]) @ weights)
        fails = evidence >= np.log(100.0)
        pairs[open_gates[fails]] = n
        open_gates, log_wealth = open_gates[~fails], log_wealth[~fails]
        if not len(open_gates):
            break
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baseline", type=pathlib.Path)
    parser.add_argument("equal", type=pathlib.Path)
    parser.add_argument("worse", type=pathlib.Path, nargs="+")
    parser.add_argument("--unpaired", action="store_true")
    parser.add_argument("--gates", type=int, default=500)
    args = parser.parse_args()
    runs = [read(folder) for folder in (args.baseline, args.equal, *args.worse)]
    horizon = max(row["n_steps"] for row in runs[0])
    table = [scores(rows, horizon) for rows in runs]
    equal = {name: np.stack([table[0][name], table[1][name]]) for name in table[0]}
    levels = sorted(
        [equal] + [{name: value[None] for name, value in run.items()} for run in table[2:]],
        key=lambda level: -level["success"].mean(),
    )
    rates = [level["success"].mean() for level in levels]
    print("success rates:", ", ".join(f"{rate:.3f}" for rate in rates))
    if levels[0] is not equal:
        raise SystemExit("a WORSE run has a higher success rate than BASELINE and EQUAL")
    print("drop | by success | by score | by time_to_success | fewer")
    for drop in DROPS:
        wanted = rates[0] - drop
        high = max(i for i, rate in enumerate(rates) if rate >= wanted)
        share = 0.0 if rates[high] == wanted else (rates[high] - wanted) / (rates[high] - rates[high + 1])
        mean = {}
        for name in equal:
            random = np.random.default_rng(0)

            def changes(n: int, name: str = name, random: np.random.Generator = random) -> np.ndarray:
                seed = random.integers(len(runs[0]), size=(n, 10))
                of_new = random.integers(len(runs[0]), size=(n, 10)) if args.unpaired else seed
                side = random.integers(2, size=(n, 10))  # which of the equal runs is the old one
                old = equal[name][side, seed]
                is_low = random.random((n, 10)) < share
                low = levels[min(high + 1, len(levels) - 1)][name][0, of_new]
                better = equal[name][1 - side, of_new] if high == 0 else levels[high][name][0, of_new]
                return np.where(is_low, low, better) - old

            mean[name] = pairs_until_fail(changes, args.gates).mean()
        fewer = 1.0 - mean["time_to_success"] / mean["success"]
        print(f"{100 * drop:.0f} points | " + " | ".join(f"{mean[name]:.0f}" for name in mean) + f" | {fewer:+.0%}", flush=True)


main()
