"""Writes tests/golden/compare.json: the statistics of harness/src/compare, computed another way.

Made with scipy 1.17.1, statsmodels 0.15.0 and numpy 2.4.6. From the project's root (two minutes):
    python tests/golden/generate/compare.py

evidence   [lost, gained, same, ln of the e-value of FAIL]: from exact integers
pass       [margin, changes in their order, ln of the e-value of PASS]: in rational arithmetic
newcombe   [both, only_a, only_b, neither, confidence, low, high] from statsmodels' Wilson intervals
mcnemar    [only_a, only_b, exact p, mid-p]: statsmodels, and scipy.stats.binom for the mid-p
unpaired   [successes and episodes of a, of b, Fisher's two-sided p, Newcombe's low and high of b - a]: scipy.stats, and
           statsmodels' confint_proportions_2indep(method="newcomb")
welch      [values of a, of b, low, high of b - a]: scipy.stats.ttest_ind(equal_var=False)
holm       statsmodels.stats.multitest.multipletests
pairs      [rate, drop, rho, pairs for alpha .05 one-sided and power .8], by summing the distributions
e_bh       [ln e-values, alpha, which are named, ln of their mean]: the BH procedure of statsmodels on 1/e
gate       operating characteristics of the whole test, in 40,000 gates that numpy simulates at once.
           [rate, drop, rho, margin, max_pairs, pairs between looks, FAIL, PASS, mean pairs]
"""

import json
import math
import pathlib
from decimal import Decimal, getcontext

import numpy as np
import scipy
import statsmodels
from scipy import special, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

OUT = pathlib.Path(__file__).parents[1] / "compare.json"
N_BETS = 24
getcontext().prec = 60
ALPHA, BETA = 0.01, 0.05


def cells(rate, drop, rho):
    """P[lost], P[gained] of a seed whose outcomes before and after correlate by rho, as far as that is possible."""
    new = rate - drop
    both = rate * new + rho * math.sqrt(rate * (1 - rate) * new * (1 - new))
    both = min(both, rate, new)
    return rate - both, new - both


def log_fail_exact(lost, gained):
    n = lost + gained + 1
    tail = sum(math.comb(n, k) for k in range(lost + 1))
    return math.log(tail) - math.log(n) - math.log(math.comb(n - 1, lost))


def log_fail(lost, gained):
    n = lost + gained + 1
    return n * math.log(2) + special.betaln(lost + 1, gained + 1) + stats.binom.logcdf(lost, n, 0.5)


def evidence():
    return [[lost, gained, same, log_fail_exact(lost, gained)]
            for lost, gained, same in [(0, 0, 0), (0, 0, 43), (7, 0, 0), (0, 9, 1), (5, 5, 30), (12, 3, 85), (3, 12, 85),
                                       (40, 41, 319), (80, 40, 280), (300, 10, 90), (10, 300, 90), (700, 750, 50),
                                       (1500, 0, 0), (0, 1500, 0), (2, 0, 1498)]]


def log_pass(changes, margin):
    """Of decimal numbers: a quarter of the stake on constant bets, the rest on bets that follow the mean square."""
    one, margin = Decimal(1), Decimal(margin)
    constant = [(2 * k + one) / (2 * N_BETS) / (1 - margin) for k in range(N_BETS)]
    wealth = [one] * (N_BETS + 2)
    squares = Decimal(0)
    for n, change in enumerate(map(Decimal, changes)):
        mean_square = (squares + 1) / (n + 2)
        means = [max(margin, 0 * one), max(margin, 0 * one) / 2]
        following = [min(m / (mean_square + m * m), Decimal("0.98") / (1 - margin)) for m in means]
        wealth = [w * (1 + bet * (change + margin)) for w, bet in zip(wealth, constant + following)]
        squares += change * change
    return float((sum(wealth[:N_BETS]) / N_BETS / 4 + wealth[N_BETS] / 2 + wealth[N_BETS + 1] / 4).ln())


def pass_evidence():
    rng = np.random.default_rng(7)
    sequences = [[], [0] * 43, [-1] * 7, [1] * 9 + [0], [-1, 1] * 5 + [0] * 30, [0] * 30 + [1, -1] * 5,
                 rng.choice([-1, 0, 1], 400, p=[0.1, 0.1, 0.8]).tolist(), rng.choice([-1, 0, 1], 1500, p=[0.2, 0.18, 0.62]).tolist(),
                 rng.choice([-1, 0, 1], 900, p=[0.5, 0.1, 0.4]).tolist(), (rng.integers(-8, 9, 300) / 8).tolist(),
                 (rng.integers(-1, 8, 60) / 8).tolist()]
    return [[margin, changes, log_pass(changes, str(margin))] for changes in sequences for margin in (0.1, 0.03, -0.2)]


def newcombe(both, only_a, only_b, neither, confidence):
    n = both + only_a + only_b + neither
    a, b = both + only_a, both + only_b
    low_a, high_a = proportion_confint(a, n, 1 - confidence, "wilson")
    low_b, high_b = proportion_confint(b, n, 1 - confidence, "wilson")
    spread = math.sqrt(a * (n - a) * b * (n - b))
    phi = 0.0
    if spread > 0:
        cross = both * neither - only_a * only_b
        phi = (max(cross - n / 2, 0) if cross > 0 else cross) / spread
    def side(x, y):
        return math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))
    d = (b - a) / n
    return [max(-1.0, d - side(b / n - low_b, high_a - a / n)), min(1.0, d + side(high_b - b / n, a / n - low_a))]


def mid_p(only_a, only_b):
    n, k = only_a + only_b, max(only_a, only_b)
    return min(1.0, 2 * (stats.binom.sf(k, n, 0.5) + 0.5 * stats.binom.pmf(k, n, 0.5)))


def critical_wins(n, alpha):
    k = np.arange(n + 1)
    below = np.nonzero(stats.binom.sf(k, n, 0.5) + 0.5 * stats.binom.pmf(k, n, 0.5) <= alpha)[0]
    return below[0] if len(below) else n + 1


def power(n, lost, gained, alpha, critical={}):
    m = np.arange(n + 1)
    weight = stats.binom.pmf(m, n, lost + gained)
    m, weight = m[weight > 1e-14], weight[weight > 1e-14]
    for i in m:
        if (i, alpha) not in critical:
            critical[i, alpha] = critical_wins(i, alpha)
    wins = np.array([critical[i, alpha] for i in m])
    return (weight * stats.binom.sf(wins - 1, m, lost / (lost + gained))).sum()


def pairs(rate, drop, rho, alpha=0.05, wanted=0.8):
    lost, gained = cells(rate, drop, rho)
    z = stats.norm.ppf([1 - alpha, wanted])
    n = int(0.8 * (z[0] * math.sqrt(lost + gained) + z[1] * math.sqrt(lost + gained - drop**2))**2 / drop**2)
    while power(n, lost, gained, alpha) < wanted:
        n += 1
    return n


def gate(rate, drop, rho, margin, max_pairs, block, n_gates=40_000):
    lost, gained = cells(rate, drop, rho)
    rng = np.random.default_rng(round(1e6 * (rate + 2 * drop + 3 * rho + 5 * margin)))
    constant = ((np.arange(N_BETS) + 0.5) / (N_BETS * (1 - margin)))[:, None]
    weights = np.r_[np.full(N_BETS, 0.25 / N_BETS), 0.5, 0.25]
    wealth, n_lost, n_gained = np.ones((N_BETS + 2, n_gates)), np.zeros(n_gates, int), np.zeros(n_gates, int)
    fail = passed = mean = 0
    for n in range(1, max_pairs + 1):
        draw = rng.random(wealth.shape[1])
        change = np.where(draw < lost, -1.0, np.where(draw < lost + gained, 1.0, 0.0))
        mean_square = (n_lost + n_gained + 1) / (n + 1)
        following = [np.minimum(m / (mean_square + m * m), 0.98 / (1 - margin)) for m in (margin, margin / 2)]
        wealth[:N_BETS] *= 1 + constant * (change + margin)
        for row, bet in zip(wealth[N_BETS:], following):
            row *= 1 + bet * (change + margin)
        n_lost, n_gained = n_lost + (change < 0), n_gained + (change > 0)
        if n % block:
            continue
        is_fail = log_fail(n_lost, n_gained) >= -math.log(ALPHA)
        is_pass = ~is_fail & (weights @ wealth >= 1 / BETA)
        fail, passed = fail + is_fail.sum(), passed + is_pass.sum()
        mean += n * (is_fail | is_pass).sum()
        goes_on = ~(is_fail | is_pass)
        wealth, n_lost, n_gained = wealth[:, goes_on], n_lost[goes_on], n_gained[goes_on]
        if not goes_on.any():
            break
    return [fail / n_gates, passed / n_gates, (mean + max_pairs * len(n_lost)) / n_gates]


def e_bh():
    rows = []
    random = np.random.default_rng(1)
    for n, alpha in [(1, 0.01), (3, 0.01), (5, 0.05), (8, 0.1), (20, 0.05), (40, 0.2)]:
        for shift in (-1.0, 1.0, 2.0):
            log_e = np.round(random.normal(shift, 3.0, n), 6)
            named = multipletests(np.minimum(1.0, np.exp(-log_e)), alpha, "fdr_bh")[0]
            rows.append([log_e.tolist(), alpha, named.tolist(), float(special.logsumexp(log_e) - math.log(n))])
    return rows


def unpaired(a, n, b, m):
    fisher = stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue
    low, high = confint_proportions_2indep(b, m, a, n, compare="diff", method="newcomb")
    return [a, n, b, m, float(fisher), float(low), float(high)]


def welch(a, b):
    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    return [a, b, float(interval.low), float(interval.high)]


TABLES = [(33, 4, 2, 11), (14, 5, 0, 22), (1, 1, 7, 12), (50, 0, 0, 0), (0, 0, 0, 50), (0, 50, 0, 0), (10, 10, 10, 10),
          (5, 20, 20, 5), (130, 20, 5, 45), (1, 0, 0, 0), (0, 0, 1, 0), (60, 3, 3, 0)]
P_VALUES = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.5, 0.9], [0.02]]
SCENES = [(0.65, 0.0), (0.65, 0.5), (0.65, 0.8), (0.90, 0.0), (0.90, 0.5)]

golden = {
    "made_with": {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__},
    "evidence": evidence(),
    "pass": pass_evidence(),
    "newcombe": [[*t, c, *newcombe(*t, c)] for t in TABLES for c in (0.95, 0.99)],
    "mcnemar": [[t[1], t[2], float(mcnemar([[0, t[1]], [t[2], 0]], exact=True).pvalue), float(mid_p(t[1], t[2]))]
                for t in TABLES if t[1] + t[2] > 0],
    "unpaired": [unpaired(*t) for t in ((45, 50, 33, 50), (7, 10, 2, 12), (0, 10, 10, 10), (5, 5, 5, 5), (480, 500, 455, 490))],
    "welch": [welch([0.1, 0.5, 0.9, 0.4], [0.8, 0.7, 1.0, 0.95, 0.6]), welch([0.0, 1.0], [0.25, 0.5, 0.5])],
    "holm": [[p, multipletests(p, method="holm")[1].tolist()] for p in P_VALUES],
    "pairs": [[rate, drop, rho, pairs(rate, drop, rho)]
              for rate in (0.65, 0.90) for drop in (0.05, 0.10, 0.20) for rho in (0.3, 0.5, 0.7)],
    "e_bh": e_bh(),
    "gate": [[rate, drop, rho, margin, n, block, *map(float, gate(rate, drop, rho, margin, n, block))]
             for margin, n, block, drops in ((0.10, 400, 10, (0, 0.05, 0.10, 0.20)), (0.05, 1500, 20, (0, 0.05, 0.10)))
             for drop in drops for rate, rho in SCENES],
}
text = json.dumps(golden)
for key in list(golden)[1:]:
    text = text.replace(f', "{key}"', f',\n"{key}"')
OUT.write_text(text.replace("], [", "],\n[") + "\n")
