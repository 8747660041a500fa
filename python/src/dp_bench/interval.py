"""The interval of a success rate. scripts/models.py of the repository reads this file without the package."""

import math


def wilson_interval(n_success: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a success rate (Wilson 1927), as in `dp_bench compare`."""
    if not 0 <= n_success <= n or n < 1:
        raise ValueError(f"expected 0 to n successes of n >= 1 episodes, found {n_success} of {n}")
    z = 1.959964
    centre = (n_success + z**2 / 2) / (n + z**2)
    half_width = z / (n + z**2) * math.sqrt(n_success * (n - n_success) / n + z**2 / 4)
    return max(0.0, centre - half_width), min(1.0, centre + half_width)
