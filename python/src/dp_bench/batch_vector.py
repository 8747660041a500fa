"""What the vector environments share whose simulations step in C++ on a thread pool."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

Observation = NDArray[Any] | dict[str, NDArray[Any]]

MAX_SEED = 2**64


class Simulations(Protocol):
    """The C++ side."""

    def render(self, env: int, image: NDArray[np.uint8]) -> None: ...


class Output:
    """The arrays that one step or reset writes, [num_envs, ...] each."""

    obs: Observation

    def observation(self, env: int) -> Observation:
        """A copy of the observation of one env."""
        if isinstance(self.obs, dict):
            return {key: array[env].copy() for key, array in self.obs.items()}
        row: NDArray[Any] = self.obs[env].copy()
        return row


def zero_outside(mask: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[Any]:
    """`array` if the mask is true everywhere, else a copy with zeros in the other rows."""
    if mask.all():
        return array
    kept = np.zeros_like(array)
    kept[mask] = array[mask]
    return kept


class BatchVectorEnv(VectorEnv[Any, Any, Any]):
    """Arguments, seeds, masks, outputs and frames of a vector environment."""

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None,
        autoreset_mode: AutoresetMode | str,
        copy: bool,
        num_threads: int,
        render_mode: str | None,
        frame_size: tuple[int, int],
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"expected at least 1 environment, found num_envs={num_envs}")
        if num_threads < 0:
            raise ValueError(f"expected num_threads of at least 0, found {num_threads}")
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ValueError(f"expected max_episode_steps of at least 1 or None, found {max_episode_steps}")
        self.num_envs = num_envs
        self.copy = copy
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = render_mode
        self.visualization_width, self.visualization_height = frame_size
        self._num_threads = min(num_threads or len(os.sched_getaffinity(0)), num_envs)
        self._seeds: list[int | None] = [None] * num_envs
        self._outputs: list[Output] = []
        self._is_started = False

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The latest seed of each environment; None before the first reset."""
        return tuple(self._seeds)

    @property
    @abstractmethod
    def _simulations(self) -> Simulations: ...

    @abstractmethod
    def _make_output(self) -> Output: ...

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One frame per environment, uint8 [height, width, 3] each."""
        if self.render_mode is None:
            return None
        frames = np.empty((self.num_envs, self.visualization_height, self.visualization_width, 3), np.uint8)
        for env, frame in enumerate(frames):
            self._simulations.render(env, frame)
        return tuple(frames)

    def _take_output(self) -> Output:
        """New arrays, or one of two sets in turn if results may be views."""
        if self.copy:
            return self._make_output()
        if not self._outputs:
            self._outputs = [self._make_output() for _ in range(2)]
        self._outputs.reverse()
        return self._outputs[0]

    def _add_final(
        self,
        infos: dict[str, Any],
        has_ended: NDArray[np.bool_],
        output: Output,
        final_info: Mapping[str, NDArray[Any]],
    ) -> None:
        """Adds the last observations, from `output`, and infos of the episodes that ended."""
        ended = np.flatnonzero(has_ended)
        if ended.size == 0:
            return
        final_obs = np.full(self.num_envs, None, dtype=object)
        for env in ended:
            final_obs[env] = output.observation(int(env))
        infos["final_obs"] = final_obs
        infos["final_info"] = {key: array.copy() for key, array in final_info.items()}
        infos["_final_obs"] = infos["_final_info"] = has_ended

    def _parse_mask(self, mask: object) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(
                f"expected options['reset_mask'] as a numpy array of {self.num_envs} bools, found {mask!r}"
            )
        if not mask.any():
            raise ValueError("expected at least one True in options['reset_mask'], found none")
        return np.ascontiguousarray(mask)

    def _parse_seeds(self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]) -> list[int | None]:
        """The seed of each environment; None if it gets none or is not in the mask."""
        if seed is None or isinstance(seed, (int, np.integer)):
            given = [None if seed is None else int(seed) + env for env in range(self.num_envs)]
        else:
            given = list(seed)
        if len(given) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, found {len(given)}")
        for env in np.flatnonzero(mask):
            value = given[env]
            if value is not None and not 0 <= value < MAX_SEED:
                raise ValueError(f"expected seeds from 0 to 2**64 - 1, found {value} for env {env}")
        return [value if mask[env] else None for env, value in enumerate(given)]
