"""The Kuavo tasks for Gymnasium: two arms with grippers at a table, simulated by MuJoCo."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode

from dp_bench.envs import MakeBatch, SimulatedEnv, SimulatedVectorEnv, require_choice

Task = Literal["pick_place", "bimanual_lift", "weigh_relay"]
ObsType = Literal["state", "rgb", "rgbd"]

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


def make_batch(
    task: Task,
    obs_type: ObsType,
    render_mode: str | None,
    image_size: tuple[int, int],
    depth_dtype: str,
    randomization: Mapping[str, float] | None,
    perturb: Mapping[str, float] | None,
) -> MakeBatch:
    """How to make a batch of simulations. Raises ValueError for a value that is not one of the choices."""
    require_choice("task", task, get_args(Task))
    require_choice("obs_type", obs_type, get_args(ObsType))
    require_choice("render_mode", render_mode, (None, "rgb_array"))
    params: dict[str, Any] = {"task": task, "obs": obs_type, "depth_dtype": depth_dtype}
    params["image_width"], params["image_height"] = image_size
    if randomization is not None:
        params["randomization"] = dict(randomization)
    if perturb is not None:
        params["perturb"] = dict(perturb)
    return lambda module, options: module.make_batch(json.dumps(params), options)


class KuavoEnv(SimulatedEnv):
    """A Kuavo task: `gymnasium.make("dp_bench/KuavoPickPlace-v0")`, also KuavoBimanualLift and KuavoWeighRelay.

    The environment is the plugin `kuavo_dualarm`, and the same seed gives the same episode as in the dp_bench program.
    An action has 16 numbers: seven joint targets [rad] and the closure of the gripper, for the left and the right arm.
    The keys of observations are the plugin's, and `info` has its metrics. A step takes 0.1 s.

    Args:
        task: What the robot has to do.
        obs_type: "state" (`observation.state`, float32 [16], and `observation.environment_state`, the task's objects),
            "rgb" (three cameras, uint8 [height, width, 3], and `observation.state`) or "rgbd" (also depth, uint16
            [height, width, 1] in mm).
        render_mode: "rgb_array".
        image_width, image_height: The size of the cameras' images.
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
        image_size = (image_width, image_height)
        make = make_batch(task, obs_type, render_mode, image_size, depth_dtype, randomization, perturb)
        size = (visualization_width, visualization_height)
        super().__init__(load_simulation(), make, None, render_mode, size)


class KuavoVectorEnv(SimulatedVectorEnv):
    """Many Kuavo environments: `gymnasium.make_vec("dp_bench/KuavoPickPlace-v0", num_envs=N)`.

    Args:
        num_envs, autoreset_mode, copy: As for `SimulatedVectorEnv`.
        task, obs_type, render_mode, image_width, image_height, depth_dtype, randomization, perturb,
            visualization_width, visualization_height: As for `KuavoEnv`.
        max_episode_steps: Episodes are truncated after this many steps; None means never, "task" the task's own limit.
        num_threads: As for `SimulatedVectorEnv`. A software renderer draws on one thread at a time.

    Raises:
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
        image_size = (image_width, image_height)
        make = make_batch(task, obs_type, render_mode, image_size, depth_dtype, randomization, perturb)
        super().__init__(
            num_envs,
            load_simulation(),
            make,
            None,
            METADATA,
            "env" if max_episode_steps == "task" else max_episode_steps,
            autoreset_mode,
            copy,
            num_threads,
            render_mode,
            (visualization_width, visualization_height),
        )
