"""Reference numbers for splits and sequences: numpy's choice, and windows by clipping step indices.

Writes tests/golden/data.json. Needs numpy >= 1.17 (choice without replacement is stable since then).
    python tests/golden/generate/data.py
"""

import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "data.json"

# both sides of the thresholds of choice: Floyd's set, and a shuffled tail beyond 10000 elements
CHOICE_SIZES = [
    (1, 1), (2, 1), (5, 0), (5, 5), (10, 3), (206, 4), (206, 90), (206, 206), (1000, 37), (1000, 999),
    (10000, 200), (10000, 201), (10000, 5000), (10001, 200), (10001, 201), (20000, 400), (20000, 401),
    (50000, 50000), (5_000_000_000, 7), (4294967296, 5), (4294967297, 5),
]
CHOICE_SEEDS = [0, 1, 42, 43, 100000, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1]


def checksum(values):
    """Depends on every value and on the order."""
    total = 0
    for value in values:
        total = (total * 1_000_003 + int(value) + 1) % (2**61 - 1)
    return total


def choices():
    for seed in CHOICE_SEEDS:
        for n, size in CHOICE_SIZES:
            chosen = np.random.default_rng(seed).choice(n, size=size, replace=False)
            yield {"seed": seed, "n": n, "size": size, "first": [int(v) for v in chosen[:4]],
                   "checksum": checksum(chosen)}


def val_masks():
    for n, ratio, seed in [(206, 0.02, 42), (206, 0.0, 42), (1, 0.5, 0), (2, 0.001, 0), (2, 1.0, 3),
                           (25, 0.1, 7), (5, 0.5, 1), (7, 0.5, 1), (100, 0.333, 9)]:
        mask = np.zeros(n, dtype=bool)
        if ratio > 0:
            n_val = min(max(1, round(n * ratio)), n - 1)
            mask[np.random.default_rng(seed).choice(n, size=n_val, replace=False)] = True
        yield {"n": n, "ratio": ratio, "seed": seed, "episodes": [int(i) for i in np.nonzero(mask)[0]]}


def train_masks():
    for n, ratio, max_train, seed in [(206, 0.02, 90, 42), (206, 0.02, 1, 42), (50, 0.1, 45, 0),
                                      (50, 0.1, 44, 0), (50, 0.0, 10, 5)]:
        val = np.zeros(n, dtype=bool)
        if ratio > 0:
            n_val = min(max(1, round(n * ratio)), n - 1)
            val[np.random.default_rng(seed).choice(n, size=n_val, replace=False)] = True
        train = np.nonzero(~val)[0]
        if len(train) > max_train:
            train = train[np.random.default_rng(seed).choice(len(train), size=max_train, replace=False)]
        yield {"n": n, "ratio": ratio, "max_train": max_train, "seed": seed,
               "episodes": sorted(int(i) for i in train)}


def windows():
    for lengths, horizon, before, after, mask in [
            ([20, 3, 16], 16, 1, 7, None), ([5, 1, 4], 4, 1, 2, None), ([5, 1, 4], 4, 3, 3, None),
            ([5, 1, 4], 4, 9, 9, None), ([5, 2, 4], 4, 0, 0, None), ([5, 2, 4, 6], 3, 1, 1, [1, 0, 0, 1]),
            ([3], 1, 0, 0, None), ([2, 2], 10, 1, 7, None)]:
        ends = np.cumsum(lengths)
        rows = []
        for episode, (length, end) in enumerate(zip(lengths, ends)):
            if mask is not None and not mask[episode]:
                continue
            first = -min(before, horizon - 1)
            last = length - horizon + min(after, horizon - 1)
            for start in range(first, last + 1):
                steps = np.clip(np.arange(start, start + horizon), 0, length - 1) + end - length
                rows.append([int(s) for s in steps])
        yield {"ends": [int(e) for e in ends], "horizon": horizon, "pad_before": before,
               "pad_after": after, "mask": mask or [], "rows": rows}


if __name__ == "__main__":
    golden = {"numpy": np.__version__, "choice": list(choices()), "val": list(val_masks()),
              "train": list(train_masks()), "windows": list(windows())}
    with OUT.open("w") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")
