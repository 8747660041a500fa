"""The files of a run folder as Python values. docs/architecture.md describes the files."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

from dp_bench.errors import DataError
from dp_bench.json_files import Fields, JsonObject, parse_lines, read_object, read_text

PathLike = str | os.PathLike[str]

# the limits of the program's own reader (harness/src/run/run_folder.cc), except that of the log, whose rows are objects
_MAX_FILE_BYTES = 64 << 20
_MAX_JOURNAL_BYTES = 256 << 20
_MAX_LOG_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True)
class EpisodeCourse:
    """How the reward went. Step k is the state after k executed steps.

    Attributes:
        first_reward, last_reward: Of the first and the last step.
        best_step: The first step with the highest reward; 0 if no step was executed.
        is_terminated: By the env, not by the step limit.
        lost_step: The last step with a reward above the midpoint of the first and the highest, if it ended below.
        unseen_step, unseen_key: The first observation outside the range of the training data.
        best_reward: The highest reward, if the score is a metric of the env; otherwise the score is it.
    """

    first_reward: float
    last_reward: float
    best_step: int
    is_terminated: bool
    lost_step: int | None = None
    unseen_step: int | None = None
    unseen_key: str | None = None
    best_reward: float | None = None


@dataclasses.dataclass(frozen=True)
class SuccessSteps:
    """When the env reported success. Steps count from 1.

    Attributes:
        first: The first step with success.
        longest: The most steps in a row with success.
        at_end: The last steps in a row with success; 0 if there was none at the end.
    """

    first: int
    longest: int
    at_end: int


@dataclasses.dataclass(frozen=True)
class Episode:
    """One episode of an evaluation.

    Attributes:
        episode: Its index in the seed list.
        split: "test" or "train".
        seed: From which the env starts and the policy's noise is drawn.
        score: The highest reward of any step, or the metric env_runner.score_metric. If the episode failed: at most 0.
        success: The task's criterion was met in at least one step, and the episode did not fail.
        n_steps: Executed steps.
        n_stale_steps: Steps executed while the policy planned (env_runner.realtime).
        trace_hash: SHA-256 over every action, reward, flag, metric and observation: equal hashes, equal episodes.
        failure_reason: Why the episode broke, or None.
        video: Its video, relative to the run folder, or None.
        video_error: Why no video was recorded, or None.
        metrics: The env's metrics by name; empty if no step was executed.
        course: None in files of older versions.
        success_steps: None if no step had success, and in files of older versions.
    """

    episode: int
    split: str
    seed: int
    score: float
    success: bool
    n_steps: int
    n_stale_steps: int
    trace_hash: str
    failure_reason: str | None
    video: str | None
    video_error: str | None
    metrics: dict[str, float]
    course: EpisodeCourse | None
    success_steps: SuccessSteps | None


class Episodes(Sequence[Episode]):
    """Episodes in the order of their seed list.

    `pandas.DataFrame(episodes)` has a column per field of Episode, and `pandas.DataFrame(episodes.to_dict())` also one
    per metric.
    """

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self._episodes = tuple(episodes)

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._episodes)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> Episodes: ...

    def __getitem__(self, index: int | slice) -> Episode | Episodes:
        return Episodes(self._episodes[index]) if isinstance(index, slice) else self._episodes[index]

    def __eq__(self, other: object) -> bool:
        return self._episodes == other._episodes if isinstance(other, Episodes) else NotImplemented

    def __repr__(self) -> str:
        return f"<{len(self)} episodes, {sum(episode.success for episode in self)} successful>"

    def of(self, split: str) -> Episodes:
        """Those of a split, "test" or "train"."""
        return Episodes([episode for episode in self if episode.split == split])

    @overload
    def to_dict(self, orient: Literal["list"] = "list") -> dict[str, list[Any]]: ...

    @overload
    def to_dict(self, orient: Literal["records"]) -> list[dict[str, Any]]: ...

    def to_dict(self, orient: Literal["list", "records"] = "list") -> dict[str, list[Any]] | list[dict[str, Any]]:
        """A flat table: by column ("list") or by row ("records"), as pandas calls these.

        The columns are the fields of Episode, `metrics.<name>`, `course.<field>` and `success_steps.<field>`. A value
        that an episode does not have is None.
        """
        if orient not in ("list", "records"):
            raise ValueError(f'expected orient "list" or "records", found {orient!r}')
        rows = [_flat(episode) for episode in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        if orient == "records":
            return [{name: row.get(name) for name in names} for row in rows]
        return {name: [row.get(name) for row in rows] for name in names}


class RunFolder:
    """A folder that `dp_bench run`, `train` or `eval` wrote. Files are read when they are asked for, once.

    A RunFolder can be given wherever a path can.

    Args:
        path: The folder.

    Raises:
        DataError: It is not a folder. All properties raise it for a file that is missing, damaged or of another run.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = pathlib.Path(path)
        if not self.path.is_dir():
            raise DataError(f"expected a run folder, found no folder {str(self.path)!r}")

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @functools.cached_property
    def config(self) -> JsonObject:
        """config.json, with all defaults filled in."""
        return self._object("config.json", "any run")

    @functools.cached_property
    def manifest(self) -> JsonObject:
        """manifest.json: versions, build, plugin hashes, machine, seeds, the run's id."""
        return self._object("manifest.json", "any run")

    @functools.cached_property
    def metrics(self) -> dict[str, Any]:
        """eval_log.json: `test/mean_score`, `test/success_rate`, `test/sim_max_reward_<seed>`, ..."""
        self._require_evaluation()
        return self._object("eval_log.json", "a finished evaluation")

    @functools.cached_property
    def episodes(self) -> Episodes:
        """All episodes of a finished evaluation, checked to be of this run."""
        self._require_evaluation()
        text = read_text(self.path / "episodes.jsonl", _MAX_FILE_BYTES)
        self._check_belonging(text)
        rows = parse_lines(text, str(self.path / "episodes.jsonl"))
        return Episodes([_episode(Fields(row, place)) for place, row in rows])

    @property
    def partial_episodes(self) -> Episodes:
        """The finished episodes of an evaluation that runs or was interrupted, in the order in which they ended.

        Read from the journal at each call. Once the evaluation has finished, the same as `episodes`.
        """
        file = self.path / "episodes.partial.jsonl"
        try:
            text = read_text(file, _MAX_JOURNAL_BYTES)
        except DataError:
            if file.exists() or not self.is_finished:
                raise
            return self.episodes
        rows = list(parse_lines(text, str(file), may_be_cut=True))
        if rows and "run_id" in rows[0][1]:
            self._require_same_run(Fields(rows[0][1], rows[0][0]).get("run_id", str), file.name)
            rows = rows[1:]
        return Episodes([_episode(Fields(row, place)) for place, row in rows])

    @functools.cached_property
    def log(self) -> list[dict[str, Any]]:
        """logs.json.txt: a row per training step, with `train_loss`, `global_step`, `epoch`, `lr`, `grad_norm`.

        The last row of an epoch also has its metrics, such as `val_loss` and `test/mean_score`.
        """
        file = self.path / "logs.json.txt"
        return [row for _, row in parse_lines(read_text(file, _MAX_LOG_BYTES), str(file), may_be_cut=True)]

    @property
    def is_finished(self) -> bool:
        """Whether it has the result of an evaluation."""
        return all((self.path / name).is_file() for name in ("episodes.jsonl", "eval_log.json"))

    @property
    def videos(self) -> dict[tuple[str, int], pathlib.Path]:
        """The videos by split and seed, such as ("test", 100003)."""
        paths = {(e.split, e.seed): self.path / e.video for e in self.episodes if e.video and _stays_below(e.video)}
        return {key: path for key, path in paths.items() if path.is_file()}

    @property
    def checkpoints(self) -> dict[str, pathlib.Path]:
        """The checkpoints of a training by name: those of epochs, the earliest first, then "latest"."""
        folder = self.path / "checkpoints"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        epochs = {name: int(found[1]) for name in names if (found := re.match(r"epoch=(\d+)", name))}
        names = sorted(epochs, key=lambda name: (epochs[name], name)) + ["latest"]
        return {name: folder / name for name in names if _is_checkpoint(folder / name)}

    @property
    def seeds(self) -> dict[int, RunFolder]:
        """The runs of `run(seeds=...)` by training seed; empty for a single run."""
        file = self.path / "multi_run.json"
        if not file.exists():
            return {}
        seeds = Fields(read_object(file, _MAX_FILE_BYTES), str(file)).value("seeds", tuple[int, ...])
        folders = {seed: self.path / f"seed_{seed}" for seed in seeds}
        return {seed: RunFolder(folder) for seed, folder in folders.items() if folder.is_dir()}

    @property
    def report_file(self) -> pathlib.Path:
        """Its page, report.html."""
        return self.path / "report.html"

    def _object(self, name: str, what_has_it: str) -> JsonObject:
        file = self.path / name
        if not file.exists():
            raise DataError(f"{str(self.path)!r} has no {name}, which {what_has_it} has")
        return read_object(file, _MAX_FILE_BYTES)

    def _require_evaluation(self) -> None:
        if self.is_finished or (self.path / "episodes.jsonl").is_file():  # the latter: before version 0.2
            return
        if (self.path / "multi_run.json").exists():
            raise DataError(f"{str(self.path)!r} holds runs of several seeds; use one of RunFolder.seeds")
        if (self.path / "episodes.partial.jsonl").exists():
            raise DataError(
                f"the evaluation in {str(self.path)!r} is not finished: RunFolder.partial_episodes has the episodes so "
                f"far, and dp_bench.evaluate(resume={str(self.path)!r}) continues it"
            )
        raise DataError(
            f"{str(self.path)!r} has no episodes.jsonl, the result of an evaluation; a training without one is evaluated "
            f"by dp_bench.evaluate({str(self.path)!r})"
        )

    # The checks of harness/src/run/run_folder.cc. Runs before version 0.2 have no ids.
    def _check_belonging(self, episodes: str) -> None:
        if not (self.path / "manifest.json").exists():
            return
        if "config_sha256" in self.manifest and (self.path / "config.json").exists():
            wanted = Fields(self.manifest, "manifest.json").get("config_sha256", str)
            self._require_same_hash("config.json", wanted, read_text(self.path / "config.json", _MAX_FILE_BYTES))
        if "run_id" not in self.manifest:
            return
        metrics = Fields(self.metrics, str(self.path / "eval_log.json"))
        self._require_same_run(metrics.get("run_id", str), "eval_log.json")
        self._require_same_hash("episodes.jsonl", metrics.get("episodes_sha256", str), episodes)

    def _require_same_run(self, found: str, name: str) -> None:
        wanted = Fields(self.manifest, str(self.path / "manifest.json")).value("run_id", str | None)
        if found != wanted:
            raise DataError(
                f"the files in {str(self.path)!r} are not of one run: manifest.json is of run {wanted}, {name} of {found}"
            )

    def _require_same_hash(self, name: str, wanted: str, text: str) -> None:
        found = hashlib.sha256(text.encode()).hexdigest()
        if found != wanted:
            raise DataError(
                f"the files in {str(self.path)!r} are not of one run: expected a {name} with the SHA-256 {wanted:.16}…, "
                f"found {found:.16}…"
            )


def _episode(row: Fields) -> Episode:
    old = {"n_stale_steps": 0, "trace_hash": "", "metrics": {}}  # of files of older versions, which lack them
    return row.read(Episode, **{key: value for key, value in old.items() if not row.has(key)})


def _flat(episode: Episode) -> dict[str, Any]:
    row = dataclasses.asdict(episode)
    for group in ("metrics", "course", "success_steps"):
        members = row.pop(group) or {}
        row.update({f"{group}.{name}": value for name, value in members.items()})
    return row


# Whether a relative path from a file stays inside its folder.
def _stays_below(relative: str) -> bool:
    path = os.path.normpath(relative)
    return not os.path.isabs(path) and path.split(os.sep)[0] != ".."


def _is_checkpoint(folder: pathlib.Path) -> bool:
    return (folder / "manifest.json").is_file() and any(folder.glob("*.safetensors"))
