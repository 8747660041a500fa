"""What the vector environments share whose simulations step in C++ on a thread pool."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, DTypeLike, NDArray

Observation = NDArray[Any] | dict[str, NDArray[Any]]


class Output:
    """The arrays that one step or reset writes, [num_envs, ...] each."""

    obs: Observation

    def __init__(self, num_envs: int) -> None:
        self.rewards = np.empty(num_envs)
        self.terminated = np.empty(num_envs, np.bool_)
        self.truncated = np.empty(num_envs, np.bool_)

    def observation(self, env: int) -> Observation:
        """A copy of the observation of one env."""
        if isinstance(self.obs, dict):
            return {key: array[env].copy() for key, array in self.obs.items()}
        row: NDArray[Any] = self.obs[env].copy()
        return row


OutputT = TypeVar("OutputT", bound=Output)


def masked(mask: NDArray[np.bool_], infos: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Infos with their masks. Rows outside of the mask become zero, in copies."""
    if not mask.all():
        infos = {key: _zero_outside(mask, array) for key, array in infos.items()}
    return infos | {f"_{key}": mask for key in infos}


def _zero_outside(mask: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[Any]:
    kept = np.zeros_like(array)
    kept[mask] = array[mask]
    return kept


class BatchVectorEnv(VectorEnv[Any, Any, Any], Generic[OutputT]):
    """Arguments, seeds, masks, outputs and frames of a vector environment.

    A class has to make `_batch`, the C++ side, and `_final`, the output of the episodes that end in SAME_STEP.
    """

    _batch: Any
    _final: OutputT
    _seed_bits = 64  # seeds are below 2**_seed_bits

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
        self._outputs: list[OutputT] = []
        self._is_started = False

    def _set_spaces(
        self, metadata: Mapping[str, Any], observation_space: spaces.Space[Any], action_space: spaces.Box
    ) -> None:
        """`metadata` and spaces of one environment."""
        self.metadata = {**metadata, "render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, self.num_envs)
        self.action_space = batch_space(action_space, self.num_envs)

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The latest seed of each environment; None before the first reset."""
        return tuple(self._seeds)

    @abstractmethod
    def _make_output(self) -> OutputT: ...

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One frame per environment, uint8 [height, width, 3] each."""
        self._require_open()
        if self.render_mode is None:
            return None
        frames = np.empty((self.num_envs, self.visualization_height, self.visualization_width, 3), np.uint8)
        for env, frame in enumerate(frames):
            self._batch.render(env, frame)
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and frees the simulations. Results stay valid."""
        self._batch = None

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("this vector environment is closed; create another one")

    def _next_output(self) -> OutputT:
        """New arrays, or one of two sets in turn if results may be views."""
        if self.copy:
            return self._make_output()
        if not self._outputs:
            self._outputs = [self._make_output() for _ in range(2)]
        self._outputs.reverse()
        return self._outputs[0]

    def _add_final(self, infos: dict[str, Any], has_ended: NDArray[np.bool_], final_info: dict[str, Any]) -> None:
        """Adds the last observations and infos of the episodes that ended."""
        ended = np.flatnonzero(has_ended)
        if ended.size == 0:
            return
        final_obs = np.full(self.num_envs, None, dtype=object)
        for env in ended:
            final_obs[env] = self._final.observation(int(env))
        infos["final_obs"] = final_obs
        infos["final_info"] = {key: array.copy() for key, array in final_info.items()}
        infos["_final_obs"] = infos["_final_info"] = has_ended

    def _parse_actions(self, actions: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
        """Actions of all environments. Also checks that there are episodes."""
        self._require_open()
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed = np.ascontiguousarray(actions, dtype=dtype)
        if parsed.shape != self.action_space.shape:
            raise ValueError(f"expected actions of shape {self.action_space.shape}, found shape {parsed.shape}")
        return parsed

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

    def _parse_seeds(
        self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Seeds, and which environments get one. One that never had a seed gets a random one."""
        if seed is None or isinstance(seed, (int, np.integer)):
            given = [None if seed is None else int(seed) + env for env in range(self.num_envs)]
        else:
            given = list(seed)
        if len(given) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, found {len(given)}")
        seeds = np.random.default_rng().integers(2**self._seed_bits, size=self.num_envs, dtype=np.uint64)
        is_seeded = np.zeros(self.num_envs, np.bool_)
        for env in np.flatnonzero(mask):
            value = given[env]
            if value is not None:
                if not 0 <= value < 2**self._seed_bits:
                    limit = f"2**{self._seed_bits} - 1"
                    raise ValueError(f"expected seeds from 0 to {limit}, found {value} for env {env}")
                seeds[env] = value
            is_seeded[env] = value is not None or self._seeds[env] is None
        return seeds, is_seeded

    def _note_reset(self, seeds: NDArray[np.uint64], is_seeded: NDArray[np.bool_]) -> None:
        """After a reset that succeeded."""
        for env in np.flatnonzero(is_seeded):
            self._seeds[env] = int(seeds[env])
        self._is_started = True
