"""A trained policy in a control loop of Python: dp_bench/deploy.h."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_bench.errors import ProgramError
from dp_bench.installation import installed_libraries, load_module
from dp_bench.run_folder import PathLike


@dataclasses.dataclass(frozen=True)
class ObsKey:
    """What a policy reads under one key, per step.

    Attributes:
        shape: Images are [height, width, channels].
        dtype: "float32", "uint8" (colour), "uint16" (depth in mm).
    """

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class ActTiming:
    """Of the latest call of `act`.

    Attributes:
        act_s: The whole call [s].
        plan_s: Computing the plan that it took over [s]; 0: none.
        is_stale: The action is from the previous chunk.
        is_late: Because the plan was not there within `deadline_s`.
        has_missed_deadline: It is late, or took longer than `deadline_s`.
    """

    act_s: float
    plan_s: float
    is_stale: bool
    is_late: bool
    has_missed_deadline: bool


class Policy:
    """A policy that acts step by step: `reset` at the beginning of each episode, then `act` once per step.

    It keeps the last `n_obs_steps` observations, plans chunks, and hands out `n_action_steps` actions of each. Python's
    lock is released while it computes. `load_policy` makes it.

    Attributes:
        obs: What it reads, by key.
        action_dim: Numbers of an action.
        horizon, n_obs_steps, n_action_steps: Steps that it predicts, observes, and executes of each plan.
    """

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        spec = loaded.spec()
        self.obs = {key: ObsKey(tuple(shape), dtype) for key, shape, dtype in spec["obs"]}
        self.action_dim: int = spec["action_dim"]
        self.horizon: int = spec["horizon"]
        self.n_obs_steps: int = spec["n_obs_steps"]
        self.n_action_steps: int = spec["n_action_steps"]

    def reset(self, seed: int) -> None:
        """Begins an episode: forgets observations and actions. `seed`, 0 to 2**64 - 1, decides the policy's noise."""
        if not 0 <= seed < 2**64:
            raise ValueError(f"expected a seed from 0 to 2**64 - 1, found {seed}")
        self._loaded.reset(seed)

    def act(self, obs: Mapping[str, ArrayLike]) -> NDArray[np.float32]:
        """The action for the current step, [action_dim], in the units of the training data.

        Args:
            obs: Each key of `self.obs`. Numbers become float32; images must have their dtype and may have any strides.

        Raises:
            UsageError: Before `reset`, or for a missing or unknown key, another shape or dtype.
            NumericError: For NaN or Inf in observations or actions.
        """
        action = np.empty(self.action_dim, np.float32)
        self._loaded.act({key: self._array(key, value) for key, value in obs.items()}, action)
        return action

    def predict(
        self,
        obs: Mapping[str, ArrayLike],
        seeds: Sequence[int] | ArrayLike,
        steps: Sequence[int] | ArrayLike | None = None,
    ) -> NDArray[np.float32]:
        """Plans for a batch of observations that belong to no episode, [B, n_action_steps, action_dim].

        Row i depends on its own observations, seed and step alone, and equals the plan of an evaluation there. The
        `micro_batch` of `load_policy` says how many rows are computed at once; more are faster, and their number decides
        the low bits. `act` does not notice.

        Args:
            obs: Each key of `self.obs`, [B, n_obs_steps, ...], oldest step first. For an episode that just began, repeat
                its first observation.
            seeds: One for each row, 0 to 2**64 - 1.
            steps: How many env steps the episode of each row has executed. None: it just began.

        Raises:
            UsageError: For a missing or unknown key, another shape or dtype.
            NumericError: For NaN or Inf in observations or plans.
        """
        of_rows = _counts("seeds", seeds)
        executed = np.zeros_like(of_rows) if steps is None else _counts("steps", steps)
        chunks = np.empty((len(of_rows), self.n_action_steps, self.action_dim), np.float32)
        arrays = {key: self._array(key, value) for key, value in obs.items()}
        self._loaded.predict(arrays, of_rows, executed, chunks)
        return chunks

    @property
    def timing(self) -> ActTiming:
        """Of the latest call of `act`."""
        return ActTiming(**self._loaded.timing())

    def _array(self, key: str, value: ArrayLike) -> NDArray[Any]:
        is_number = key in self.obs and self.obs[key].dtype == "float32"
        return np.asarray(value, np.float32 if is_number else None)


def _counts(what: str, values: Sequence[int] | ArrayLike) -> NDArray[np.uint64]:
    numbers = [int(value) for value in np.ravel(np.asarray(values, dtype=object))]
    wrong = next((number for number in numbers if not 0 <= number < 2**64), None)
    if wrong is not None:
        raise ValueError(f"expected {what} from 0 to 2**64 - 1, found {wrong}")
    return np.array(numbers, np.uint64)


def load_policy(
    checkpoint: PathLike,
    *,
    weights: str = "ema",
    device: str = "cpu",
    plugin_dirs: Sequence[PathLike] = (),
    latency_steps: int = 0,
    deadline_s: float = 0.0,
    micro_batch: int = 1,
) -> Policy:
    """Loads a policy to act with. docs/deploying.md explains the options.

    The actions are those of `dp_bench eval` with this seed, latency and micro_batch, bit for bit, if the evaluation joins
    chunks as by default: `env_runner.chunking` of the checkpoint is not read.

    Args:
        checkpoint: Its folder, or a run.
        weights: "ema" or "model".
        device: "cpu", "cuda", "cuda:1", ...
        plugin_dirs: Folders that are searched for plugins first.
        latency_steps: 0: the call that needs a plan computes it. n: another thread computes it while n actions of the
            previous one are executed.
        deadline_s: The time that a call of `act` may take [s]; 0: no limit.
        micro_batch: Rows of the policy's batch, whose number decides the low bits of actions. 1 is the fastest, 0 that
            of the checkpoint's evaluations.

    Raises:
        ProgramError: The package was built without an installation of dp_bench, which has moved since, or this process
            has loaded another LibTorch.
        Error: The checkpoint cannot be loaded.
    """
    module = _load_module()
    options: dict[str, Any] = {"weights": weights, "device": device}
    options["plugin_dirs"] = [os.fspath(folder) for folder in plugin_dirs]
    options |= {"latency_steps": latency_steps, "deadline_s": deadline_s, "micro_batch": micro_batch}
    return Policy(module.LoadedPolicy(os.fspath(checkpoint), **options))


def _load_module() -> Any:
    """The extension module, whose libraries must be the only LibTorch in this process."""
    libraries = installed_libraries("load_policy")
    _require_only_torch(libraries / "dp_bench/external/torch/lib/libtorch_cpu.so")
    with _short_spinning():
        return load_module("_policy", libraries)


@contextlib.contextmanager
def _short_spinning() -> Iterator[None]:
    """LibTorch's threads spin while they wait for each other, which makes plans ten times slower on busy processors.

    The library that starts these threads reads its settings when it is loaded. The dp_bench program has the same ones.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "5000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _require_only_torch(wanted: pathlib.Path) -> None:
    lines = pathlib.Path("/proc/self/maps").read_text(errors="replace").splitlines()
    loaded = {path for path in (line[line.find("/") :] for line in lines) if path.endswith("/libtorch_cpu.so")}
    others = sorted(path for path in loaded if path != str(wanted.resolve()))
    if others:
        raise ProgramError(
            f"expected the LibTorch that dp_bench was built with, {wanted.resolve()}, found {others[0]} in this process, "
            "because another torch was imported. Call load_policy in a process that does not import it, or build "
            "dp_bench with that torch."
        )
