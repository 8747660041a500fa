"""Compares runs with the first one and plots their success rates; needs `pip install matplotlib`.

python python/examples/compare.py runs/baseline runs/candidate ... [--output comparison.png]
"""

import argparse

import dp_bench


def plot(comparison: dp_bench.Comparison, file: str) -> None:
    """Success rates with 95 % intervals, one row per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 1.2 + 0.5 * len(comparison.runs)), layout="constrained")
    axes = figure.subplots()
    for row, run in enumerate(comparison.runs):
        rate = run.success_rate
        axes.plot([rate.low, rate.high], [row, row], "|-", color="gray")
        axes.plot(rate.rate, row, "o", color="black")
    axes.set_yticks(range(len(comparison.runs)), [f"{run.label}: {run.folder.name}" for run in comparison.runs])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("success rate, 95 % interval")
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", help="run folders; the others are compared with the first")
    parser.add_argument("--output", default="comparison.png")
    args = parser.parse_args()

    comparison = dp_bench.compare(*args.runs)
    for candidate in comparison.candidates:
        rate = candidate.success_rate
        print(
            f"{candidate.b} against {candidate.a}: success rate {rate.difference:+.3f} ({rate.low:+.3f} to "
            f"{rate.high:+.3f}), p = {candidate.p_holm:.4f}, only {candidate.b} solved {candidate.only_b} seeds, "
            f"only {candidate.a} {candidate.only_a}"
        )
    plot(comparison, args.output)
    print(args.output)


if __name__ == "__main__":
    main()
