"""PushT as one Gymnasium environment: gym-pusht's interface on dp_bench's C++ simulation."""

from __future__ import annotations

import importlib.util
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from dp_bench import _core

ObsType = Literal["state", "environment_state_agent_pos", "pixels", "pixels_agent_pos"]
Seeding = Literal["gym_pusht", "diffusion_policy"]
Observation = NDArray[Any] | dict[str, NDArray[Any]]

WORLD_SIZE = 512.0
IMAGE_SIZE = 96
GOAL_POSE = np.array([256.0, 256.0, np.pi / 4])
METADATA: dict[str, Any] = {
    "render_modes": ["rgb_array", "human"] if importlib.util.find_spec("pygame") else ["rgb_array"],
    "render_fps": 10,
}


def require_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"expected {name} to be one of {listed}, found {value!r}")


def require_image_size(width: int, height: int) -> None:
    """Raises ValueError unless this is the size of the observed images."""
    if (width, height) != (IMAGE_SIZE, IMAGE_SIZE):
        raise ValueError(
            f"expected observation_width and observation_height {IMAGE_SIZE}, found {width} and {height}; "
            "resize with gymnasium.wrappers.ResizeObservation"
        )


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


class PushTEnv(gymnasium.Env[Any, NDArray[Any]]):
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
        require_choice("obs_type", obs_type, get_args(ObsType))
        require_choice("seeding", seeding, get_args(Seeding))
        require_choice("render_mode", render_mode, (None, *METADATA["render_modes"]))
        require_image_size(observation_width, observation_height)
        self.obs_type = obs_type
        self.render_mode = render_mode
        self.seeding = seeding
        self.visualization_width = visualization_width
        self.visualization_height = visualization_height
        self.success_threshold = _core.SUCCESS_COVERAGE
        self.observation_space = observation_space(obs_type)
        self.action_space = action_space()

        self._sim = _core.PushtSingle()
        # views of the simulation's memory, which each step overwrites
        numbers = self._sim.numbers
        self._state = numbers[0:5]
        self._agent = numbers[0:2]
        self._velocity = numbers[5:7]
        self._block = numbers[7:10]
        self._corners = numbers[10:26]
        self._is_started = False
        self._window: Any = None
        self._clock: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: Seeds `np_random`. Without it, the generator continues.
            options: {"reset_to_state": [agent x, y, block x, y, angle]} starts there. As in gym-pusht, the block is
                placed upright and then turned about its centre of gravity, so its position differs from the given one.
        """
        super().reset(seed=seed)
        start = (options or {}).get("reset_to_state")
        if start is not None:
            numbers = parse_start(start, ((5,),)).tolist()
        else:
            numbers = self._draw_start(seed)
        n_contacts = self._sim.reset(numbers)
        self._is_started = True
        info = self._info(n_contacts)
        info["is_success"] = False
        if self.render_mode == "human":
            self.render()
        return self._observe(), info

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Moves the agent towards `action`, its target (x, y) [px], for 0.1 s."""
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed = action if isinstance(action, np.ndarray) else np.asarray(action, np.float64)
        if parsed.shape != (2,):
            raise ValueError(f"expected an action of shape (2,), found shape {parsed.shape}")
        x, y = parsed.tolist()
        reward, is_success, coverage, n_contacts = self._sim.step(x, y)
        info = self._info(n_contacts)
        info["is_success"] = is_success
        info["coverage"] = coverage
        if self.render_mode == "human":
            self.render()
        return self._observe(), reward, is_success, False, info

    def render(self) -> NDArray[np.uint8] | None:
        """A frame, uint8 [height, width, 3], in which a cross marks the latest action. In mode "human", shows it."""
        if not self._is_started:
            raise ResetNeeded("render() before the first episode; call reset() first")
        if self.render_mode is None:
            return None
        frame = np.empty((self.visualization_height, self.visualization_width, 3), np.uint8)
        self._sim.render(frame)
        if self.render_mode == "rgb_array":
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

    def _draw_start(self, seed: int | None) -> list[float]:
        if self.seeding == "diffusion_policy":
            # diffusion_policy would repeat the same start; the next episode gets a new seed instead
            return _core.legacy_start(int(self.np_random.integers(2**32)) if seed is None else seed)
        draw = self.np_random
        positions = [float(draw.integers(low, high)) for low, high in ((50, 450),) * 2 + ((100, 400),) * 2]
        return [*positions, float(draw.uniform(-np.pi, np.pi))]

    def _observe(self) -> Observation:
        if self.obs_type == "state":
            return self._state.copy()
        if self.obs_type == "environment_state_agent_pos":
            self._sim.write_keypoints()
            return {"environment_state": self._corners.copy(), "agent_pos": self._agent.copy()}
        pixels = np.empty((IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
        self._sim.draw_pixels(pixels)
        if self.obs_type == "pixels":
            return pixels
        return {"pixels": pixels, "agent_pos": self._agent.copy()}

    def _info(self, n_contacts: int) -> dict[str, Any]:
        return {
            "pos_agent": self._agent.copy(),
            "vel_agent": self._velocity.copy(),
            "block_pose": self._block.copy(),
            "goal_pose": GOAL_POSE.copy(),
            "n_contacts": n_contacts,
        }

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
