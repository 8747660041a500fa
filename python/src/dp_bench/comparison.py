"""Comparing runs and guarding a success rate, with the statistics of the dp_bench program."""

from __future__ import annotations

import dataclasses
import enum
import os
import pathlib
import re
import tempfile
from collections.abc import Sequence

from dp_bench.errors import error_of
from dp_bench.json_files import Fields, JsonObject, read_object
from dp_bench.program import Outcome, ProgressOption, call
from dp_bench.run_folder import PathLike

_MAX_JSON_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Rate:
    """A success rate with its 95 % interval."""

    rate: float
    low: float
    high: float
    n_success: int
    n: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference with its interval. A bound is None if it is infinite, as for the score of a single pair."""

    difference: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """A reason against a comparison: a field and its value in both runs."""

    field: str
    a: str
    b: str


@dataclasses.dataclass(frozen=True)
class RankInterval:
    """The ranks that a run may have, 95 % for all runs at once; 1 is the best."""

    best: int
    worst: int


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """One of the runs, over its test episodes.

    Attributes:
        label: "A", "B", ...; "A" is the run that the others are compared with.
        n_failed: Episodes that broke. They count as not successful, with a score of at most 0.
        letters: With three runs or more: runs with a letter in common are not shown to differ.
        rank: With three runs or more: the ranks that are not ruled out.
    """

    label: str
    folder: pathlib.Path
    title: str
    success_rate: Rate
    mean_score: float
    n_failed: int
    letters: str | None
    rank: RankInterval | None


@dataclasses.dataclass(frozen=True)
class DiscordantSeed:
    """A seed that only one of two runs solved. Videos are relative to the runs' folders."""

    seed: int
    success_a: bool
    success_b: bool
    score_a: float
    score_b: float
    video_a: str | None
    video_b: str | None


@dataclasses.dataclass(frozen=True)
class CandidateComparison:
    """Run `b` against run `a` on the test seeds that both ran.

    Attributes:
        why_unpaired: Why equal seeds do not mean equal episodes; None if the runs are paired. If they are not, the
            counts of pairs are 0.
        n_pairs: both_succeed + only_a + only_b + neither.
        success_rate: Of b minus that of a, 95 % (Newcombe).
        score: Mean score of b minus that of a, 95 % (Student; Welch if unpaired).
        p_exact: McNemar's test, or Fisher's if unpaired; two-sided.
        p_mid: McNemar's mid-p; None if unpaired.
        p_holm: p_exact, corrected for the number of candidates.
        n_to_detect: Shared seeds (unpaired: episodes of each run) to detect `difference` of `compare` with power 80 %.
            None: more than the program estimates.
        discordant: The seeds that only one run solved.
        only_in_a, only_in_b: Seeds that the other did not run.
        mismatches: What differs, if `force` compared anyway.
    """

    a: str
    b: str
    why_unpaired: str | None
    n_pairs: int
    both_succeed: int
    only_a: int
    only_b: int
    neither: int
    success_rate: Difference
    score: Difference
    p_exact: float
    p_mid: float | None
    p_holm: float
    n_to_detect: int | None
    discordant: tuple[DiscordantSeed, ...]
    only_in_a: tuple[int, ...]
    only_in_b: tuple[int, ...]
    mismatches: tuple[Mismatch, ...]


@dataclasses.dataclass(frozen=True)
class RunPair:
    """One of the pairs of three runs or more: ln of both e-values, and whether e-BH names it at 5 %."""

    a: str
    b: str
    log_a_better: float
    log_b_better: float
    is_different: bool


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `dp_bench compare` found.

    Attributes:
        runs: In the order given.
        candidates: Each run but the first, against the first.
        pairs: All pairs of three runs or more.
        notes: Remarks about the runs.
        json: The file that `dp_bench compare --json` writes.
    """

    runs: tuple[ComparedRun, ...]
    candidates: tuple[CandidateComparison, ...]
    pairs: tuple[RunPair, ...]
    notes: tuple[str, ...]
    json: JsonObject = dataclasses.field(repr=False, compare=False)


def compare(
    *runs: PathLike,
    interval: str | None = None,
    difference: float | None = None,
    same_seeds: bool = False,
    force: bool = False,
    html: PathLike | None = None,
    program: PathLike | None = None,
) -> Comparison:
    """Compares runs with the first one on the test seeds that they share: `dp_bench compare`.

    Args:
        runs: Two to 26 run folders, or results of other programs (docs/ci_gate.md).
        interval: Of each success rate: "wilson" (the default), or "clopper-pearson" for claims such as "at least".
        difference: Of success rates, in (0, 1], for `n_to_detect`; 0.05 by default.
        same_seeds: Pair results of different programs by their seeds.
        force: Compare even if env or task differ.
        html: Also write a page with the videos of the discordant seeds to this file.

    Raises:
        NotComparableError: Env or task differ, or no seed is shared; the message names the fields.
        Error: Any other failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "comparison.json"
        command: list[str | PathLike] = ["compare", *runs, "--json", file]
        command += _flags({"--interval": interval, "--difference": difference, "--html": html})
        command += ["--same-seeds"] * same_seeds + ["--force"] * force
        _require_success(call(command, program))
        return _comparison(read_object(file, _MAX_JSON_BYTES))


class Verdict(str, enum.Enum):
    """What the gate decided."""

    PASS = "PASS"  # a drop of the margin is excluded
    FAIL = "FAIL"  # a drop is shown
    INCONCLUSIVE = "INCONCLUSIVE"  # neither; more seeds may tell


@dataclasses.dataclass(frozen=True)
class TaskGate:
    """The gate on one task.

    Attributes:
        task: Env and task.
        reason: A sentence.
        note: What may explain that episodes differ; may be empty.
        is_bit_equal: Every shared episode equals the baseline's, bit for bit.
        n_shared: Seeds that both ran. The test may need only some of them.
        baseline, candidate: Over the seeds that were counted.
        drop: Of the success rate; the interval holds at every look.
        n_lost, n_gained, n_same: Counted seeds that only the baseline solved, only the candidate, both or neither.
    """

    task: str
    verdict: Verdict
    reason: str
    note: str
    is_bit_equal: bool
    n_shared: int
    baseline: Rate
    candidate: Rate
    drop: Difference
    n_lost: int
    n_gained: int
    n_same: int


@dataclasses.dataclass(frozen=True)
class GateResult:
    """What `dp_bench gate` found.

    Attributes:
        reason: A sentence.
        tasks: One for each baseline.
        json: The file that `dp_bench gate --json` writes.
    """

    verdict: Verdict
    reason: str
    tasks: tuple[TaskGate, ...]
    json: JsonObject = dataclasses.field(repr=False, compare=False)


def gate(
    candidate: PathLike | Sequence[PathLike],
    baseline: PathLike | Sequence[PathLike],
    *,
    nightly: bool = False,
    margin: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    max_pairs: int | None = None,
    same_seeds: bool = False,
    save: PathLike | None = None,
    resume: PathLike | None = None,
    output: PathLike | None = None,
    arguments: Sequence[str] = (),
    progress: ProgressOption = True,
    program: PathLike | None = None,
) -> GateResult:
    """Decides whether a success rate dropped, seed by seed: `dp_bench gate` (docs/ci_gate.md).

    Args:
        candidate: A run, or a checkpoint, which is rolled out until there is a verdict. A list for several tasks.
        baseline: A file of `update_baseline`. A list for several tasks.
        nightly: A margin of 0.05 and 1,500 pairs.
        margin: The drop that PASS excludes, 0.1 by default.
        alpha: Largest probability of a false FAIL, 0.01 by default.
        beta: Largest probability of a false PASS, 0.05 by default.
        max_pairs: INCONCLUSIVE after this many seeds, 400 by default.
        same_seeds: Pair results of different programs by their seeds.
        save: Keep the result with the state of the test in this file.
        resume: Continue an INCONCLUSIVE test from such a file.
        output: The run folder for rollouts of a checkpoint.
        arguments: More arguments of the command line, such as ["--overwrite"].
        progress, program: As in `run`.

    Raises:
        NotComparableError: Task, env version, seeds or settings differ; the message names the field.
        EpisodeError: More than 1 % of the episodes broke.
        Error, KeyboardInterrupt: As in `run`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(save) if save is not None else pathlib.Path(folder) / "gate.json"
        command: list[str | PathLike] = ["gate", "--baseline", *_listed(baseline), "--candidate", *_listed(candidate)]
        command += ["--json", file, *["--nightly"] * nightly, *["--same-seeds"] * same_seeds]
        command += _flags({"--margin": margin, "--alpha": alpha, "--beta": beta, "--max-pairs": max_pairs})
        command += _flags({"--continue": resume, "--output": output})
        outcome = call([*command, *arguments], program, progress)
        if outcome.exit_code not in (0, 1, 3):
            verdict = re.search(r"^(NOT COMPARABLE|INFRA): .*", outcome.stdout, re.MULTILINE | re.DOTALL)
            raise error_of(outcome.exit_code, verdict.group().strip() if verdict else outcome.message())
        return _gate_result(read_object(file, _MAX_JSON_BYTES))


def update_baseline(run: PathLike, baseline: PathLike, *, program: PathLike | None = None) -> None:
    """Makes the outcomes of an evaluation the baseline of `gate`: a JSON file of one line per seed.

    Raises:
        Error: The run is not finished, has no test episodes, or all of them broke. The file stays as it was.
    """
    command = ["gate", "--update-baseline", "--baseline", baseline, "--candidate", run]
    _require_success(call(command, program))


def _listed(paths: PathLike | Sequence[PathLike]) -> list[PathLike]:
    return list(paths) if isinstance(paths, (list, tuple)) else [paths]  # type: ignore[list-item]


def _flags(options: dict[str, str | float | PathLike | None]) -> list[str | PathLike]:
    found: list[str | PathLike] = []
    for name, value in options.items():
        if value is not None:
            found += [name, value if isinstance(value, (str, os.PathLike)) else str(value)]
    return found


def _require_success(outcome: Outcome) -> None:
    if outcome.exit_code != 0:
        raise error_of(outcome.exit_code, outcome.message())


def _comparison(json: JsonObject) -> Comparison:
    found = Fields(json, "the output of dp_bench compare")
    return found.read(
        Comparison,
        runs=tuple(_compared_run(row) for row in found.rows("runs")),
        candidates=tuple(_candidate(row) for row in found.rows("comparisons")),
        pairs=found.value("all_pairs", tuple[RunPair, ...]),
        json=json,
    )


def _compared_run(row: Fields) -> ComparedRun:
    n_success, n = row.get("n_success", int), row.get("n_episodes", int)
    return row.read(ComparedRun, success_rate=row.fields("success_rate").read(Rate, n_success=n_success, n=n))


def _candidate(row: Fields) -> CandidateComparison:
    is_paired = not row.has("why_unpaired")
    test = row.fields("mcnemar" if is_paired else "fisher")
    return row.read(
        CandidateComparison,
        p_exact=test.get("p_exact", float),
        p_mid=test.value("p_mid", float | None),
        p_holm=test.get("p_holm", float),
        n_to_detect=row.fields("power").value("n_pairs" if is_paired else "n_episodes", int | None),
    )


def _gate_result(json: JsonObject) -> GateResult:
    found = Fields(json, "the output of dp_bench gate")
    tasks = tuple(_task_gate(row) for row in found.rows("tasks"))
    return found.read(GateResult, verdict=Verdict(found.get("status", str)), tasks=tasks, json=json)


def _task_gate(row: Fields) -> TaskGate:
    counts, drop = row.fields("test").fields("counts"), row.fields("drop")
    return row.read(
        TaskGate,
        verdict=Verdict(row.get("status", str)),
        is_bit_equal=row.get("signature", bool),
        drop=drop.read(Difference, difference=drop.get("drop", float)),
        **{name: counts.get(name, int) for name in ("n_lost", "n_gained", "n_same")},
    )
