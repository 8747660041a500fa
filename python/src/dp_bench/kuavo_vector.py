"""The Kuavo tasks as Gymnasium vector environments: all simulations step in C++ on a thread pool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from dp_bench.batch_vector import BatchVectorEnv, Output, Simulations, zero_outside
from dp_bench.kuavo import (
    MAX_EPISODE_STEPS,
    METADATA,
    Observation,
    ObsType,
    Task,
    action_space,
    load_simulation,
    observation_space,
    parse_params,
)


class _Output(Output):
    def __init__(self, num_envs: int, spec: dict[str, Any]) -> None:
        arrays = {key: np.empty((num_envs, *shape), dtype) for key, shape, dtype in spec["obs"]}
        self.obs = arrays
        self.is_success = np.empty(num_envs, np.bool_)
        self.metrics = np.empty((num_envs, len(spec["metrics"])))
        self.is_reset = np.empty(num_envs, np.bool_)
        self.rows = load_simulation().KuavoRows(list(arrays.values()), self.is_success, self.metrics, self.is_reset)
        self.rewards = np.empty(num_envs)
        self.terminated = np.empty(num_envs, np.bool_)
        self.truncated = np.empty(num_envs, np.bool_)


class KuavoVectorEnv(BatchVectorEnv):
    """Many Kuavo environments: `gymnasium.make_vec("dp_bench/KuavoPickPlace-v0", num_envs=N)`.

    Observations, rewards and infos equal those of gymnasium.vector.SyncVectorEnv over `KuavoEnv`, bit for bit. They
    depend on the seeds and actions alone, not on the number of environments or threads.

    Args:
        num_envs: The number of environments.
        task, obs_type, render_mode, image_width, image_height, depth_dtype, randomization, perturb,
            visualization_width, visualization_height: As for `KuavoEnv`.
        max_episode_steps: Episodes are truncated after this many steps; None means never, "task" the task's own limit.
        autoreset_mode: gymnasium.vector.AutoresetMode or its value. DISABLED needs resets with
            options={"reset_mask": mask}.
        copy: True returns new arrays. False returns views of two sets of arrays that are written in turn: a result is
            valid until the second call of `step` or `reset` after it.
        num_threads: Threads that step, with the caller's; 0 means one per processor that the process may use. A
            software renderer draws on one thread at a time.

    Raises:
        ValueError: An argument, action or option has a wrong value or shape. The message names both. No environment
            has stepped then.
        DependencyNotInstalled: MuJoCo is missing; install the extra `dp_bench[kuavo]`.
    """

    def __init__(
        self,
        num_envs: int,
        task: Task = "pick_place",
        obs_type: ObsType = "state",
        render_mode: str | None = "rgb_array",
        image_width: int = 640,
        image_height: int = 480,
        depth_dtype: Literal["uint16", "float32"] = "uint16",
        randomization: Mapping[str, float] | None = None,
        perturb: Mapping[str, float] | None = None,
        max_episode_steps: int | None | Literal["task"] = "task",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads: int = 0,
        visualization_width: int = 640,
        visualization_height: int = 480,
    ) -> None:
        params = parse_params(
            task, obs_type, render_mode, image_width, image_height, depth_dtype, randomization, perturb
        )
        limit = MAX_EPISODE_STEPS[task] if max_episode_steps == "task" else max_episode_steps
        frame_size = (visualization_width, visualization_height)
        super().__init__(num_envs, limit, autoreset_mode, copy, num_threads, render_mode, frame_size)
        self._batch = load_simulation().KuavoBatch(
            json.dumps(params), num_envs, self._num_threads, self.autoreset_mode.name, limit or 0
        )
        self._spec: dict[str, Any] = self._batch.spec()
        self.metadata = METADATA | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(self._spec)
        self.single_action_space = action_space(self._spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._final = self._make_output()
        # an env without a seed takes the next one from its generator, as KuavoEnv does
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._next_seeds = np.zeros(num_envs, np.uint64)

    @property
    def _simulations(self) -> Simulations:
        simulations: Simulations = self._batch
        return simulations

    def _make_output(self) -> _Output:
        return _Output(self.num_envs, self._spec)

    def _next_output(self) -> _Output:
        output = self._take_output()
        assert isinstance(output, _Output)
        return output

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts episodes.

        Args:
            seed: Environment i gets seed + i, or the i-th of a list. None: the next seed of its generator.
            options: "reset_mask", bool [num_envs]: resets only these.
        """
        mask = self._parse_mask((options or {}).get("reset_mask"))
        given = self._parse_seeds(seed, mask)
        seeds = self._next_seeds.copy()
        for env in np.flatnonzero(mask):
            value = given[env]
            if value is not None or self._generators[env] is None:
                self._generators[env], self._seeds[env] = seeding.np_random(value)
                self._draw_next(env)
                seeds[env] = self._next_seeds[env] if value is None else value
        out = self._next_output()
        self._batch.reset(out.rows, mask, seeds)
        for env in np.flatnonzero(mask):
            if given[env] is None:
                self._draw_next(env)
        self._is_started = True
        infos: dict[str, Any] = {"is_success": out.is_success, "seed": seeds.astype(np.int64)}
        infos = {key: zero_outside(mask, array) for key, array in infos.items()}
        return self._observation(out), infos | {f"_{key}": mask for key in infos}

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Moves all robots for 0.1 s. `actions`: float [num_envs, 16]."""
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed = np.ascontiguousarray(actions, dtype=np.float32)
        if parsed.shape != self.action_space.shape:
            raise ValueError(f"expected actions of shape {self.action_space.shape}, found shape {parsed.shape}")
        out = self._next_output()
        self._batch.step(
            parsed, self._next_seeds, out.rows, self._final.rows, out.rewards, out.terminated, out.truncated
        )
        infos = self._step_infos(out, ~out.is_reset)
        self._add_seeds(infos, out.is_reset)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            has_ended = out.terminated | out.truncated
            final_info = self._step_infos(self._final, has_ended)
            final_info |= {"is_success": zero_outside(has_ended, self._final.is_success), "_is_success": has_ended}
            self._add_final(infos, has_ended, self._final, final_info)
        return self._observation(out), out.rewards, out.terminated, out.truncated, infos

    def _observation(self, out: _Output) -> Observation:
        assert isinstance(out.obs, dict)
        return out.obs

    def _step_infos(self, out: _Output, mask: NDArray[np.bool_]) -> dict[str, Any]:
        """Metrics of the rows in the mask, and whether all rows are solved."""
        infos: dict[str, Any] = {"is_success": out.is_success, "_is_success": np.ones(self.num_envs, np.bool_)}
        for column, name in enumerate(self._spec["metrics"]):
            infos |= {name: zero_outside(mask, out.metrics[:, column]), f"_{name}": mask}
        return infos

    def _add_seeds(self, infos: dict[str, Any], is_reset: NDArray[np.bool_]) -> None:
        """Seeds of the episodes that began in this step, which used up the next ones."""
        infos |= {"seed": zero_outside(is_reset, self._next_seeds.astype(np.int64)), "_seed": is_reset.copy()}
        for env in np.flatnonzero(is_reset):
            self._draw_next(env)

    def _draw_next(self, env: int | np.integer[Any]) -> None:
        generator = self._generators[int(env)]
        assert generator is not None
        self._next_seeds[env] = generator.integers(2**63)
