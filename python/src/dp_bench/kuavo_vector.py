"""The Kuavo tasks as Gymnasium vector environments: all simulations step in C++ on a thread pool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from dp_bench.batch_vector import BatchVectorEnv, Output, masked
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
        super().__init__(num_envs)
        arrays = {key: np.empty((num_envs, *shape), dtype) for key, shape, dtype in spec["obs"]}
        self.obs: Observation = arrays
        self.is_success = np.empty(num_envs, np.bool_)
        self.metrics = np.empty((num_envs, len(spec["metrics"])))
        self.is_reset = np.empty(num_envs, np.bool_)
        self.seeds = np.empty(num_envs, np.int64)
        self.rows = load_simulation().KuavoRows(
            list(arrays.values()), self.is_success, self.metrics, self.is_reset, self.seeds
        )


class KuavoVectorEnv(BatchVectorEnv[_Output]):
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

    _seed_bits = 63  # infos are signed

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
        self._set_spaces(METADATA, observation_space(self._spec), action_space(self._spec))
        self._final = self._make_output()

    def _make_output(self) -> _Output:
        return _Output(self.num_envs, self._spec)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts episodes.

        Args:
            seed: Environment i gets seed + i, or the i-th of a list, from 0 to 2**63 - 1. None takes the next seed of its
                generator.
            options: "reset_mask", bool [num_envs]: resets only these.
        """
        self._require_open()
        mask = self._parse_mask((options or {}).get("reset_mask"))
        seeds, is_seeded = self._parse_seeds(seed, mask)
        out = self._next_output()
        self._batch.reset(out.rows, mask, is_seeded, seeds)
        self._note_reset(seeds, is_seeded)
        return out.obs, masked(mask, {"is_success": out.is_success, "seed": out.seeds})

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Moves all robots for 0.1 s. `actions`: float [num_envs, 16]."""
        parsed = self._parse_actions(actions, np.float32)
        out = self._next_output()
        self._batch.step(parsed, out.rows, self._final.rows, out.rewards, out.terminated, out.truncated)
        infos = masked(np.ones(self.num_envs, np.bool_), {"is_success": out.is_success})
        infos |= masked(~out.is_reset, self._metrics(out)) | masked(out.is_reset.copy(), {"seed": out.seeds})
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            has_ended = out.terminated | out.truncated
            final_info = {"is_success": self._final.is_success} | self._metrics(self._final)
            self._add_final(infos, has_ended, masked(has_ended, final_info))
        return out.obs, out.rewards, out.terminated, out.truncated, infos

    def _metrics(self, out: _Output) -> dict[str, NDArray[np.float64]]:
        return dict(zip(self._spec["metrics"], out.metrics.T, strict=True))
