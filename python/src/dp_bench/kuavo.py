"""The Kuavo tasks as Gymnasium environments: two arms with grippers at a table, simulated by MuJoCo."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from numpy.typing import ArrayLike, NDArray

from dp_bench.pusht import require_choice

Task = Literal["pick_place", "bimanual_lift", "weigh_relay"]
ObsType = Literal["state", "rgb", "rgbd"]
Observation = dict[str, NDArray[Any]]

METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}
MAX_EPISODE_STEPS: dict[Task, int] = {"pick_place": 150, "bimanual_lift": 150, "weigh_relay": 300}

_MUJOCO = "libmujoco.so.4.0.0"


def load_simulation() -> Any:
    """The extension module, after the library of the wheel mujoco-core, which it needs."""
    package = importlib.util.find_spec("mujoco")
    folders = package.submodule_search_locations if package else None
    library = pathlib.Path(folders[0]) / _MUJOCO if folders else None
    if library is None or not library.exists():
        raise DependencyNotInstalled(
            f"expected {_MUJOCO} of the package mujoco-core, found {library or 'no package mujoco'}; "
            "run `pip install 'dp_bench[kuavo]'` (Python 3.11 or later)"
        )
    ctypes.CDLL(str(library))
    from dp_bench import _kuavo

    return _kuavo


def _space(shape: tuple[int, ...], dtype: str) -> spaces.Box:
    if dtype == "float32":
        return spaces.Box(-np.inf, np.inf, shape, np.float32)
    limits = np.iinfo(dtype)
    return spaces.Box(limits.min, limits.max, shape, np.dtype(dtype).type)


def observation_space(spec: Mapping[str, Any]) -> spaces.Dict:
    """Of a simulation's spec()."""
    return spaces.Dict({key: _space(tuple(shape), dtype) for key, shape, dtype in spec["obs"]})


def action_space(spec: Mapping[str, Any]) -> spaces.Box:
    """Of a simulation's spec()."""
    low, high = (np.array(spec[name], np.float32) for name in ("action_low", "action_high"))
    return spaces.Box(low, high, dtype=np.float32)


def parse_params(
    task: Task,
    obs_type: ObsType,
    render_mode: str | None,
    image_width: int,
    image_height: int,
    depth_dtype: str,
    randomization: Mapping[str, float] | None,
    perturb: Mapping[str, float] | None,
) -> dict[str, Any]:
    """The plugin's params. Raises ValueError for a value that is not one of the choices."""
    require_choice("task", task, get_args(Task))
    require_choice("obs_type", obs_type, get_args(ObsType))
    require_choice("render_mode", render_mode, (None, "rgb_array"))
    params: dict[str, Any] = {
        "task": task,
        "obs": obs_type,
        "image_width": image_width,
        "image_height": image_height,
        "depth_dtype": depth_dtype,
    }
    if randomization is not None:
        params["randomization"] = dict(randomization)
    if perturb is not None:
        params["perturb"] = dict(perturb)
    return params


class KuavoEnv(gymnasium.Env[Any, NDArray[Any]]):
    """A Kuavo task: `gymnasium.make("dp_bench/KuavoPickPlace-v0")`, also KuavoBimanualLift and KuavoWeighRelay.

    The environment is the plugin `kuavo_dualarm`, and the same seed gives the same episode as in the dp_bench program.
    An action has 16 numbers: seven joint targets [rad] and the closure of the gripper, for the left and the right arm.
    The keys of observations are the plugin's.

    Args:
        task: What the robot has to do.
        obs_type: "state" (`observation.state`, float32 [16], and `observation.environment_state`, the task's objects),
            "rgb" (three cameras, uint8 [height, width, 3], and `observation.state`) or "rgbd" (also depth, uint16
            [height, width, 1] in mm).
        render_mode: "rgb_array".
        image_width, image_height: The size of the cameras' pictures.
        depth_dtype: "uint16" [mm] or "float32" [m].
        randomization, perturb: The plugin's params of the same name, for example {"light": 0.5}.
        visualization_width, visualization_height: The size of rendered frames.

    Raises:
        ValueError: An argument or action has a wrong value or shape. The message names both.
        DependencyNotInstalled: MuJoCo is missing; install the extra `dp_bench[kuavo]`.
    """

    metadata = METADATA

    def __init__(
        self,
        task: Task = "pick_place",
        obs_type: ObsType = "state",
        render_mode: str | None = "rgb_array",
        image_width: int = 640,
        image_height: int = 480,
        depth_dtype: Literal["uint16", "float32"] = "uint16",
        randomization: Mapping[str, float] | None = None,
        perturb: Mapping[str, float] | None = None,
        visualization_width: int = 640,
        visualization_height: int = 480,
    ) -> None:
        params = parse_params(
            task, obs_type, render_mode, image_width, image_height, depth_dtype, randomization, perturb
        )
        self.render_mode = render_mode
        self.visualization_width = visualization_width
        self.visualization_height = visualization_height

        self._sim = load_simulation().KuavoSim(json.dumps(params))
        spec = self._sim.spec()
        self._keys: list[tuple[str, list[int], str]] = spec["obs"]
        self._metrics: list[str] = spec["metrics"]
        self.observation_space = observation_space(spec)
        self.action_space = action_space(spec)
        self._is_started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts the episode of `seed`, from 0 to 2**64 - 1. Without it, the next seed comes from `np_random`."""
        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**63)) if seed is None else seed
        self._sim.reset(episode)
        self._is_started = True
        return self._observe(), {"is_success": False, "seed": episode}

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Moves for 0.1 s. `info` has the plugin's metrics."""
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed = np.ascontiguousarray(action, dtype=np.float32)
        if parsed.shape != self.action_space.shape:
            raise ValueError(f"expected an action of shape {self.action_space.shape}, found shape {parsed.shape}")
        reward, terminated, is_success, metrics = self._sim.step(parsed)
        info = {"is_success": is_success, **dict(zip(self._metrics, metrics, strict=True))}
        return self._observe(), reward, terminated, False, info

    def render(self) -> NDArray[np.uint8] | None:
        """A frame, uint8 [height, width, 3]."""
        if not self._is_started:
            raise ResetNeeded("render() before the first episode; call reset() first")
        if self.render_mode is None:
            return None
        frame = np.empty((self.visualization_height, self.visualization_width, 3), np.uint8)
        self._sim.render(frame)
        return frame

    def _observe(self) -> Observation:
        arrays = {key: np.empty(shape, dtype) for key, shape, dtype in self._keys}
        self._sim.observe(list(arrays.values()))
        return arrays
