"""Plots runs: learning curves, success rates with 95 % intervals, and the score of each seed.

Needs `pip install matplotlib`, no display and no dp_bench program. In a notebook, each function draws into axes:

    figure, axes = matplotlib.pyplot.subplots()
    plots.learning_curves(axes, [dp_bench.RunFolder("runs/mine")])

python python/examples/plots.py runs/baseline runs/candidate ... [--output plots.png]
"""

import argparse
import math
from typing import Any

import dp_bench


def label(run: dp_bench.RunFolder) -> str:
    """The last two parts of its path: runs of several seeds are named by the last one alone."""
    return "/".join(run.path.parts[-2:])


def learning_curves(axes: Any, runs: list[dp_bench.RunFolder]) -> None:
    """The mean loss of each epoch; runs without a log, such as evaluations, are left out."""
    for run in runs:
        if not (run.path / "logs.json.txt").exists():
            continue
        epochs: dict[int, list[float]] = {}
        for row in run.log:
            epochs.setdefault(row["epoch"], []).append(row["train_loss"])
        axes.plot(list(epochs), [sum(losses) / len(losses) for losses in epochs.values()], label=label(run))
    axes.set(xlabel="epoch", ylabel="training loss", yscale="log")
    if axes.lines:
        axes.legend()


def success_rates(axes: Any, runs: list[dp_bench.RunFolder]) -> None:
    """Success rates on the test seeds, one row per run."""
    for row, run in enumerate(runs):
        n_success, n = run.metrics["test/n_success"], run.metrics["test/n_episodes"]
        axes.plot(dp_bench.wilson_interval(n_success, n), [row, row], "|-", color="gray")
        axes.plot(n_success / n, row, "o", color="black")
    axes.set_yticks(range(len(runs)), [label(run) for run in runs])
    axes.set(xlim=(0, 1), xlabel="success rate, 95 % interval")
    axes.invert_yaxis()


def seed_grid(axes: Any, runs: list[dp_bench.RunFolder]) -> None:
    """The score of each test seed, one row per run; white: the run has no such seed."""
    scores = [{episode.seed: episode.score for episode in run.episodes.of("test")} for run in runs]
    seeds = sorted(set().union(*scores))
    table = [[row.get(seed, math.nan) for seed in seeds] for row in scores]
    grid = axes.imshow(table, aspect="auto", interpolation="nearest")
    axes.figure.colorbar(grid, ax=axes, label="score")
    axes.set_yticks(range(len(runs)), [label(run) for run in runs])
    axes.set(xlabel=f"test seeds {seeds[0]} to {seeds[-1]}", xticks=[])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders with an evaluation, also those of several seeds")
    parser.add_argument("--output", default="plots.png", help="a .png, .svg or .pdf file")
    args = parser.parse_args()
    try:
        from matplotlib.figure import Figure
    except ImportError:
        parser.exit(1, "plots.py needs matplotlib: pip install matplotlib\n")

    folders = [dp_bench.RunFolder(path) for path in args.runs]
    runs = [run for folder in folders for run in folder.seeds.values() or [folder]]
    figure = Figure(figsize=(7, 5 + 0.8 * len(runs)), layout="constrained")
    axes = figure.subplots(3, height_ratios=[4, 1 + 0.4 * len(runs), 1 + 0.4 * len(runs)])
    for draw, part in zip((learning_curves, success_rates, seed_grid), axes, strict=True):
        draw(part, runs)
    figure.savefig(args.output, dpi=150)
    print(args.output)


if __name__ == "__main__":
    main()
