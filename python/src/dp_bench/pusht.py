"""PushT for Gymnasium, with gym-pusht's interface: one environment, and a vector environment."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from dp_bench import _core
from dp_bench.envs import (
    Infos,
    MakeBatch,
    Observation,
    Output,
    SimulatedEnv,
    SimulatedVectorEnv,
    masked,
    require_choice,
)

ObsType = Literal["state", "environment_state_agent_pos", "pixels", "pixels_agent_pos"]
Seeding = Literal["gym_pusht", "diffusion_policy"]

WORLD_SIZE = 512.0
IMAGE_SIZE = 96
GOAL_POSE = np.array([256.0, 256.0, np.pi / 4])
_ARRAYS = {
    "state": ["state"],
    "environment_state_agent_pos": ["environment_state", "agent_pos"],
    "pixels": ["pixels"],
    "pixels_agent_pos": ["pixels", "agent_pos"],
}
# columns of the simulation's infos
_AGENT, _VELOCITY, _BLOCK, _N_CONTACTS, _COVERAGE = slice(0, 2), slice(2, 4), slice(4, 7), 7, 8
METADATA: dict[str, Any] = {
    "render_modes": ["rgb_array", "human"] if importlib.util.find_spec("pygame") else ["rgb_array"],
    "render_fps": 10,
}


def make_batch(obs_type: ObsType, seeding: Seeding, observation_width: int, observation_height: int) -> MakeBatch:
    """How to make a batch of simulations. Raises ValueError for a value that is not offered."""
    require_choice("obs_type", obs_type, get_args(ObsType))
    require_choice("seeding", seeding, get_args(Seeding))
    if (observation_width, observation_height) != (IMAGE_SIZE, IMAGE_SIZE):
        raise ValueError(
            f"expected observation_width and observation_height {IMAGE_SIZE}, found {observation_width} and "
            f"{observation_height}; resize with gymnasium.wrappers.ResizeObservation"
        )
    return lambda module, options: module.make_batch(_ARRAYS[obs_type], options)


def parse_start(start: ArrayLike, shapes: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
    """The option `reset_to_state` as an array of one of `shapes`; raises ValueError if it is none."""
    parsed = np.asarray(start, dtype=np.float64)
    if parsed.shape not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"expected options['reset_to_state'] of shape {expected} (agent x, y, block x, y, angle), "
            f"found shape {parsed.shape}"
        )
    if not np.isfinite(parsed).all():
        raise ValueError(f"expected finite options['reset_to_state'], found {parsed.tolist()}")
    return parsed


def draw_start(draw: np.random.Generator) -> list[float]:
    """A start as gym-pusht draws it: agent x, y, block x, y, angle."""
    positions = [float(draw.integers(low, high)) for low, high in ((50, 450),) * 2 + ((100, 400),) * 2]
    return [*positions, float(draw.uniform(-np.pi, np.pi))]


def observation_space(obs_type: ObsType) -> spaces.Space[Any]:
    """The observation space of one environment, equal to gym-pusht's."""
    agent_pos = spaces.Box(low=np.zeros(2), high=np.full(2, WORLD_SIZE), dtype=np.float64)
    pixels = spaces.Box(low=0, high=255, shape=(IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)
    if obs_type == "state":
        high = np.array([WORLD_SIZE] * 4 + [2 * np.pi])
        return spaces.Box(low=np.zeros(5), high=high, dtype=np.float64)
    if obs_type == "environment_state_agent_pos":
        corners = spaces.Box(low=np.zeros(16), high=np.full(16, WORLD_SIZE), dtype=np.float64)
        return spaces.Dict({"environment_state": corners, "agent_pos": agent_pos})
    if obs_type == "pixels":
        return pixels
    return spaces.Dict({"pixels": pixels, "agent_pos": agent_pos})


def action_space() -> spaces.Box:
    """The action space of one environment: the agent's target position [px]."""
    return spaces.Box(low=0, high=WORLD_SIZE, shape=(2,), dtype=np.float32)


class PushTEnv(SimulatedEnv):
    """Push the T onto the goal: `gymnasium.make("dp_bench/PushT-v0")`.

    Spaces, observations, rewards, `info` and options are those of gym-pusht 0.1.8.

    Args:
        obs_type: "state" (agent x, y, block x, y, angle; float64 [5]), "environment_state_agent_pos" (the eight
            corners of the T, float64 [16], and the agent), "pixels" (uint8 [96, 96, 3]) or "pixels_agent_pos".
        render_mode: "rgb_array", or "human" if pygame is installed.
        seeding: "gym_pusht" draws start states from `np_random` (PCG64). "diffusion_policy" draws them from
            numpy.random.RandomState(seed), as diffusion_policy's evaluation does. A reset without a seed then draws
            the next seed from `np_random`.
        observation_width, observation_height: 96; other values raise ValueError.
        visualization_width, visualization_height: the size of rendered frames.

    Raises:
        ValueError: An argument, action or option has a wrong value or shape. The message names both.
    """

    metadata = METADATA

    def __init__(
        self,
        obs_type: ObsType = "state",
        render_mode: str | None = "rgb_array",
        seeding: Seeding = "gym_pusht",
        observation_width: int = IMAGE_SIZE,
        observation_height: int = IMAGE_SIZE,
        visualization_width: int = 680,
        visualization_height: int = 680,
    ) -> None:
        require_choice("render_mode", render_mode, (None, *METADATA["render_modes"]))
        self.seeding = seeding
        self.obs_type = obs_type
        self.success_threshold = _core.SUCCESS_COVERAGE
        self._window: Any = None
        self._clock: Any = None
        super().__init__(
            _core,
            make_batch(obs_type, seeding, observation_width, observation_height),
            (observation_space(obs_type), action_space()),
            render_mode,
            (visualization_width, visualization_height),
        )
        # views of what each step overwrites
        self._agent, self._velocity, self._block = (self._numbers[part] for part in (_AGENT, _VELOCITY, _BLOCK))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Infos]:
        """Starts an episode.

        Args:
            seed: Seeds `np_random`. Without it, the generator continues.
            options: {"reset_to_state": [agent x, y, block x, y, angle]} starts there. As in gym-pusht, the block is
                placed upright and then turned about its centre of gravity, so its position differs from the given one.
        """
        super(SimulatedEnv, self).reset(seed=seed)
        start = (options or {}).get("reset_to_state")
        if start is not None:
            obs = self._begin(0, parse_start(start, ((5,),))[None])
        elif self.seeding == "diffusion_policy":
            # diffusion_policy would repeat the same start; the next episode gets a new seed instead
            obs = self._begin(int(self.np_random.integers(2**32)) if seed is None else seed)
        else:
            obs = self._begin(0, np.array([draw_start(self.np_random)]))
        info = self._info() | {"is_success": False}
        if self.render_mode == "human":
            self.render()
        return obs, info

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, Infos]:
        """Moves the agent towards `action`, its target (x, y) [px], for 0.1 s."""
        result = super().step(action)
        if self.render_mode == "human":
            self.render()
        return result

    def render(self) -> NDArray[np.uint8] | None:
        """A frame, uint8 [height, width, 3], in which a cross marks the latest action. In mode "human", shows it."""
        frame = super().render()
        if frame is None or self.render_mode == "rgb_array":
            return frame
        self._show(frame)
        return None

    def close(self) -> None:
        """Closes the window."""
        if self._window is not None:
            import pygame

            pygame.display.quit()
            pygame.quit()
            self._window = None

    def _info(self) -> Infos:
        return {
            "pos_agent": self._agent.copy(),
            "vel_agent": self._velocity.copy(),
            "block_pose": self._block.copy(),
            "goal_pose": GOAL_POSE.copy(),
            "n_contacts": int(self._numbers.item(_N_CONTACTS)),
        }

    def _step_info(self) -> Infos:
        info = self._info()
        info["coverage"] = self._numbers.item(_COVERAGE)
        return info

    def _show(self, frame: NDArray[np.uint8]) -> None:
        import pygame

        if self._window is None:
            pygame.init()
            self._window = pygame.display.set_mode(frame.shape[1::-1])
            self._clock = pygame.time.Clock()
        self._window.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        self._clock.tick(METADATA["render_fps"])
        pygame.display.update()


class PushTVectorEnv(SimulatedVectorEnv):
    """Many PushT environments: `gymnasium.make_vec("dp_bench/PushT-v0", num_envs=N)`.

    Args:
        num_envs, max_episode_steps, autoreset_mode, copy, num_threads: As for `SimulatedVectorEnv`.
        obs_type, seeding, render_mode, observation_width, observation_height, visualization_width,
            visualization_height: As for `PushTEnv`, without the render mode "human".

    `reset` also takes the option "reset_to_state", float [5] or [num_envs, 5]: as for `PushTEnv`.
    """

    _seed_bits = 64

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
        require_choice("render_mode", render_mode, (None, "rgb_array"))
        self.obs_type: ObsType = obs_type
        self.seeding = seeding
        if seeding == "gym_pusht":
            self._next_states = np.zeros((max(num_envs, 0), 5))
        super().__init__(
            num_envs,
            _core,
            make_batch(obs_type, seeding, observation_width, observation_height),
            (observation_space(obs_type), action_space()),
            METADATA,
            max_episode_steps,
            autoreset_mode,
            copy,
            num_threads,
            render_mode,
            (visualization_width, visualization_height),
        )

    def _draw_next(self, env: int, seed: int | None) -> None:
        random = self._random[env]
        if self._next_states is not None:
            self._next_states[env] = draw_start(random)
        else:
            # diffusion_policy would repeat the same start; the next episode gets a new seed instead
            self._next_seeds[env] = random.integers(2**32) if seed is None else seed

    def _parse_states(self, options: Mapping[str, Any]) -> NDArray[np.float64] | None:
        start = options.get("reset_to_state")
        if start is None:
            return None
        parsed = parse_start(start, ((5,), (self.num_envs, 5)))
        return np.ascontiguousarray(np.broadcast_to(parsed, (self.num_envs, 5)))

    def _reset_infos(self, out: Output, mask: NDArray[np.bool_]) -> Infos:
        infos = {
            "pos_agent": out.infos[:, _AGENT],
            "vel_agent": out.infos[:, _VELOCITY],
            "block_pose": out.infos[:, _BLOCK],
            "goal_pose": np.tile(GOAL_POSE, (self.num_envs, 1)),
            "n_contacts": out.infos[:, _N_CONTACTS].astype(np.int64),
            "is_success": out.is_success,
        }
        return masked(mask, infos)

    def _step_infos(self, out: Output, mask: NDArray[np.bool_], stepped: NDArray[np.bool_]) -> Infos:
        return self._reset_infos(out, mask) | masked(stepped, {"coverage": out.infos[:, _COVERAGE]})
