"""Training and evaluation. Each function runs a command of the dp_bench program, so its numbers are those of the command
line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_bench.errors import UsageError, error_of
from dp_bench.program import Outcome, ProgressOption, call
from dp_bench.run_folder import PathLike, RunFolder

Overrides = Mapping[str, Any] | Iterable[str]


def run(
    policy: str | None = None,
    env: str | None = None,
    overrides: Overrides = (),
    *,
    config: PathLike | None = None,
    obs: str | None = None,
    task: str | None = None,
    dataset: PathLike | None = None,
    device: str | None = None,
    seeds: Sequence[int] = (),
    output: PathLike | None = None,
    resume: PathLike | None = None,
    arguments: Sequence[str] = (),
    progress: ProgressOption = True,
    program: PathLike | None = None,
) -> RunFolder:
    """Collects demonstrations if there are none, trains, evaluates, records videos and reports: `dp_bench run`.

    Args:
        policy, env: Names of configs, such as "unet_hybrid" and "pusht".
        overrides: Config values by key, such as {"training.num_epochs": 10}, or as on the command line,
            ["training.num_epochs=10"]. None is null.
        config: A config file, instead of or before `policy` and `env`.
        obs, task, dataset, device: The options of these names (docs/guide/config.md).
        seeds: Training seeds. With several, RunFolder.seeds has the runs.
        output: The run folder; by default a new one below runs/.
        resume: A run folder to continue with its own config.
        arguments: More arguments of the command line, such as ["--isolate"].
        progress: True shows the program's progress on standard error, False drops it. A function is called with each
            Progress.
        program: The dp_bench program (find_program).

    Raises:
        Error: The program failed; the kinds are in dp_bench.errors.
        KeyboardInterrupt: After Ctrl-C, once the program has saved its work. `resume` continues it.
    """
    options = {"--policy": policy, "--env": env, "--config": config, "--obs": obs, "--task": task, "--dataset": dataset}
    options |= {"--device": device, "--seeds": _joined(seeds), "--output": output, "--resume": resume}
    command = ["run", *_options(options), *arguments, *_overrides(overrides)]
    return _folder_of(call(command, program, progress), output or resume)


def train(
    policy: str | None = None,
    env: str | None = None,
    overrides: Overrides = (),
    *,
    config: PathLike | None = None,
    obs: str | None = None,
    task: str | None = None,
    dataset: PathLike | None = None,
    device: str | None = None,
    output: PathLike | None = None,
    resume: PathLike | None = None,
    arguments: Sequence[str] = (),
    progress: ProgressOption = True,
    program: PathLike | None = None,
) -> RunFolder:
    """Trains without the evaluation at the end: `dp_bench train`. Arguments and errors are those of `run`."""
    options = {"--policy": policy, "--env": env, "--config": config, "--obs": obs, "--task": task, "--dataset": dataset}
    options |= {"--device": device, "--output": output, "--resume": resume}
    command = ["train", *_options(options), *arguments, *_overrides(overrides)]
    return _folder_of(call(command, program, progress), output or resume)


def evaluate(
    checkpoint: PathLike | None = None,
    overrides: Overrides = (),
    *,
    weights: str | None = None,
    task: str | None = None,
    device: str | None = None,
    output: PathLike | None = None,
    overwrite: bool = False,
    resume: PathLike | None = None,
    arguments: Sequence[str] = (),
    progress: ProgressOption = True,
    program: PathLike | None = None,
) -> RunFolder:
    """Rolls out a policy and counts its successes: `dp_bench eval`.

    Args:
        checkpoint: Its folder, or a run, of which the best or else the latest checkpoint is taken.
        overrides: Config values, such as {"env_runner.n_test": 50, "env_runner.n_videos": 0}; see `run`.
        weights: "ema" (the default) or "model".
        task, device: The options of these names (docs/guide/config.md).
        output: The run folder; by default a new one below runs/.
        overwrite: Replace an evaluation in `output`.
        resume: The folder of an interrupted evaluation to continue, instead of `checkpoint`.
        arguments: More arguments of the command line, such as ["--perturb", "light,noise"].
        progress, program: As in `run`.

    Raises:
        EpisodeError: An env failed in some episodes. `error.folder` has the results, in which they count as failed.
        Error, KeyboardInterrupt: As in `run`.
    """
    options = {"--checkpoint": checkpoint, "--weights": weights, "--task": task, "--device": device}
    options |= {"--output": output, "--resume": resume}
    flags = ["--overwrite"] if overwrite else []
    command = ["eval", *_options(options), *flags, *arguments, *_overrides(overrides)]
    return _folder_of(call(command, program, progress), output or resume)


def _options(options: Mapping[str, str | PathLike | None]) -> list[str | PathLike]:
    return [text for name, value in options.items() if value is not None for text in (name, value)]


def _joined(seeds: Sequence[int]) -> str | None:
    return ",".join(map(str, seeds)) or None


def _overrides(overrides: Overrides) -> list[str]:
    if isinstance(overrides, Mapping):
        return [f"{key}={json.dumps(value, allow_nan=False)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        raise TypeError(f"expected overrides as a dict or a list, found the text {overrides!r}")
    return list(overrides)


def _folder_of(outcome: Outcome, named: PathLike | None) -> RunFolder:
    """The run folder of a command that succeeded. Else raises its error, with the folder if a run was begun."""
    announced = outcome.run_folder()
    folder = RunFolder(announced) if announced else None
    # --resume may name a checkpoint in the folder of its run
    if folder and named is not None and folder.path.resolve().is_relative_to(Path(named).resolve()):
        folder = RunFolder(named)
    if outcome.exit_code != 0:
        message = _failed_episodes(folder) if outcome.exit_code == 5 else outcome.message()
        raise error_of(outcome.exit_code, message, folder)
    if folder is not None:
        return folder
    if named is None:
        raise UsageError("expected a command that begins a run, found none; --dry-run is for the command line")
    return RunFolder(named)  # several seeds of which none was left to do


def _failed_episodes(folder: RunFolder | None) -> str:
    failed = [episode for episode in folder.episodes if episode.failure_reason] if folder and folder.is_finished else []
    if folder is None or not failed:
        return "an env failed in one or more episodes"
    return (
        f"{len(failed)} of {len(folder.episodes)} episodes failed; {failed[0].split} seed {failed[0].seed}: "
        f"{failed[0].failure_reason}"
    )
