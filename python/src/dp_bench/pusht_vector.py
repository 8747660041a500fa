"""PushT as a Gymnasium vector environment: all simulations step in C++ on a thread pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from dp_bench import _core
from dp_bench.batch_vector import BatchVectorEnv, Output, masked
from dp_bench.pusht import (
    GOAL_POSE,
    IMAGE_SIZE,
    METADATA,
    Observation,
    ObsType,
    Seeding,
    action_space,
    observation_space,
    parse_start,
    require_choice,
    require_image_size,
)

# the arrays of each observation: key, shape of a row, dtype
_AGENT_POS = ("agent_pos", (2,), np.float64)
_PIXELS = ("pixels", (IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
_ARRAYS: dict[str, list[tuple[str, tuple[int, ...], Any]]] = {
    "state": [("state", (5,), np.float64)],
    "environment_state_agent_pos": [("environment_state", (16,), np.float64), _AGENT_POS],
    "pixels": [_PIXELS],
    "pixels_agent_pos": [_PIXELS, _AGENT_POS],
}


class _Output(Output):
    def __init__(self, num_envs: int, obs_type: ObsType) -> None:
        super().__init__(num_envs)
        arrays = {key: np.empty((num_envs, *shape), dtype) for key, shape, dtype in _ARRAYS[obs_type]}
        self.obs = arrays.get(obs_type, arrays)  # a dictionary if it has several keys
        self.info = np.empty((num_envs, 8))
        self.n_contacts = np.empty(num_envs, np.int64)
        self.is_success = np.empty(num_envs, np.bool_)
        self.rows = _core.Rows(
            arrays.get("state"),
            arrays.get("environment_state"),
            arrays.get("agent_pos"),
            arrays.get("pixels"),
            self.info,
            self.n_contacts,
            self.is_success,
        )
        self.has_coverage = np.empty(num_envs, np.bool_)

    def infos(self, mask: NDArray[np.bool_], coverage_mask: NDArray[np.bool_] | None = None) -> dict[str, Any]:
        """Infos with their masks: of a step if there is a `coverage_mask`, else of a reset."""
        infos = {
            "pos_agent": self.info[:, 0:2],
            "vel_agent": self.info[:, 2:4],
            "block_pose": self.info[:, 4:7],
            "goal_pose": np.tile(GOAL_POSE, (len(mask), 1)),
            "n_contacts": self.n_contacts,
            "is_success": self.is_success,
        }
        coverage = {} if coverage_mask is None else masked(coverage_mask, {"coverage": self.info[:, 7]})
        return masked(mask, infos) | coverage


class PushTVectorEnv(BatchVectorEnv[_Output]):
    """Many PushT environments: `gymnasium.make_vec("dp_bench/PushT-v0", num_envs=N)`.

    Observations, rewards and infos equal those of gymnasium.vector.SyncVectorEnv over `PushTEnv`, bit for bit. They
    depend on the seeds and actions alone, not on the number of environments or threads.

    Args:
        num_envs: The number of environments.
        obs_type, seeding, render_mode, observation_width, observation_height, visualization_width,
            visualization_height: As for `PushTEnv`, without the render mode "human".
        max_episode_steps: Episodes are truncated after this many steps; None means never.
        autoreset_mode: gymnasium.vector.AutoresetMode or its value. DISABLED needs resets with
            options={"reset_mask": mask}.
        copy: True returns new arrays. False returns views of two sets of arrays that are written in turn: a result is
            valid until the second call of `step` or `reset` after it.
        num_threads: Threads that step, with the caller's; 0 means one per processor that the process may use.

    Raises:
        ValueError: An argument, action or option has a wrong value or shape. The message names both. No environment
            has stepped then.
    """

    def __init__(
        self,
        num_envs: int,
        obs_type: ObsType = "state",
        render_mode: str | None = "rgb_array",
        seeding: Seeding = "gym_pusht",
        max_episode_steps: int | None = 300,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads: int = 0,
        observation_width: int = IMAGE_SIZE,
        observation_height: int = IMAGE_SIZE,
        visualization_width: int = 680,
        visualization_height: int = 680,
    ) -> None:
        require_choice("obs_type", obs_type, get_args(ObsType))
        require_choice("seeding", seeding, get_args(Seeding))
        require_choice("render_mode", render_mode, (None, "rgb_array"))
        require_image_size(observation_width, observation_height)
        frame_size = (visualization_width, visualization_height)
        super().__init__(num_envs, max_episode_steps, autoreset_mode, copy, num_threads, render_mode, frame_size)
        self.obs_type: ObsType = obs_type
        self.seeding = seeding
        self._set_spaces(METADATA, observation_space(obs_type), action_space())
        self._final = self._make_output()
        self._batch = _core.PushtBatch(
            num_envs,
            self._num_threads,
            _core.Seeding[seeding.upper()],
            _core.Autoreset[self.autoreset_mode.name],
            max_episode_steps or 0,
        )

    def _make_output(self) -> _Output:
        return _Output(self.num_envs, self.obs_type)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts episodes.

        Args:
            seed: Environment i gets seed + i, or the i-th of a list. None lets its generator continue.
            options: "reset_mask", bool [num_envs]: resets only these. "reset_to_state", float [5] or [num_envs, 5]: as
                for `PushTEnv`.
        """
        self._require_open()
        options = options or {}
        mask = self._parse_mask(options.get("reset_mask"))
        seeds, is_seeded = self._parse_seeds(seed, mask)
        starts = options.get("reset_to_state")
        if starts is not None:
            parsed = parse_start(starts, ((5,), (self.num_envs, 5)))
            starts = np.ascontiguousarray(np.broadcast_to(parsed, (self.num_envs, 5)))
        output = self._next_output()
        self._batch.reset(output.rows, mask, is_seeded, seeds, starts)
        self._note_reset(seeds, is_seeded)
        return output.obs, output.infos(mask)

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps all environments. `actions`: float [num_envs, 2], the agents' targets [px]."""
        targets = self._parse_actions(actions, np.float64)
        out = self._next_output()
        self._batch.step(
            targets, out.rows, self._final.rows, out.rewards, out.terminated, out.truncated, out.has_coverage
        )
        infos = out.infos(np.ones(self.num_envs, np.bool_), out.has_coverage)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            has_ended = out.terminated | out.truncated
            self._add_final(infos, has_ended, self._final.infos(has_ended, has_ended))
        return out.obs, out.rewards, out.terminated, out.truncated, infos
