"""How many pairs dp_bench gate needs until FAIL, decided by success and by a score, from recorded episodes.

Usage: pairs_needed.py BASELINE EQUAL WORSE [WORSE ...]

Each is a run folder of the same task and seeds. BASELINE and EQUAL are equally good: an episode of either is the old or
the new one at random, so without a planted drop the mean change is exactly 0. A drop is planted in the new policy by
mixing: each new episode comes at random from the two runs (EQUAL and all WORSE, sorted by success rate) between whose
rates the wanted one lies, in the proportion that gives it. The old and the new episode are of seeds drawn
independently of each other with replacement if --unpaired is given, else of the same seed. Evidence and looks are
those of the gate (alpha 0.01, a look after every 10 pairs), up to 20,000 pairs.
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


class Planted:
    """Draws changes of one score, with a drop of the success rate planted by mixing two neighbouring levels."""

    def __init__(self, levels: list[dict[str, np.ndarray]], name: str, drop: float, is_unpaired: bool) -> None:
        rates = [level["success"].mean() for level in levels]
        high = max(i for i, rate in enumerate(rates) if rate >= rates[0] - drop)
        self._is_unpaired = is_unpaired
        self._equal = levels[0][name]  # [2, seeds]
        self._high = None if high == 0 else levels[high][name][0]
        low = min(high + 1, len(levels) - 1)
        self._low = levels[low][name][0]
        gap = rates[high] - rates[low]
        self._share = (rates[high] - rates[0] + drop) / gap if gap > 0.0 else 0.0
        self._random = np.random.default_rng(0)

    def __call__(self, n: int) -> np.ndarray:
        """[n, 10] new minus old scores."""
        random, n_seeds, shape = self._random, self._equal.shape[1], (n, 10)
        seed = random.integers(n_seeds, size=shape)
        of_new = random.integers(n_seeds, size=shape) if self._is_unpaired else seed
        side = random.integers(2, size=shape)  # which of the equal runs is the old one
        is_low = random.random(shape) < self._share
        better = self._equal[1 - side, of_new] if self._high is None else self._high[of_new]
        return np.where(is_low, self._low[of_new], better) - self._equal[side, seed]


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
        mean = {
            name: pairs_until_fail(Planted(levels, name, drop, args.unpaired), args.gates).mean() for name in equal
        }
        fewer = 1.0 - mean["time_to_success"] / mean["success"]
        print(f"{100 * drop:.0f} points | " + " | ".join(f"{mean[name]:.0f}" for name in mean) + f" | {fewer:+.0%}", flush=True)


main()
