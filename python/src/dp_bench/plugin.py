"""Every env plugin of an installed dp_bench for Gymnasium, also your own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from dp_bench.envs import Limit, MakeBatch, SimulatedEnv, SimulatedVectorEnv, require_choice
from dp_bench.installation import installed_libraries, load_module
from dp_bench.run_folder import PathLike

METADATA: dict[str, Any] = {"render_modes": ["rgb_array"]}


def _load(
    plugin: str, params: Mapping[str, Any] | None, plugin_dirs: Sequence[PathLike], render_mode: str | None
) -> tuple[Any, MakeBatch]:
    require_choice("render_mode", render_mode, (None, "rgb_array"))
    section = json.dumps({"plugin": plugin, "params": dict(params or {})})
    folders = [os.fspath(folder) for folder in plugin_dirs]
    module = load_module("_plugins", installed_libraries("an environment from a plugin"))
    return module, lambda module, options: module.make_batch(section, folders, options)


class PluginEnv(SimulatedEnv):
    """An env plugin: `gymnasium.make("dp_bench/Plugin-v0", plugin="point_mass")`.

    The same seed gives the same episode as in the dp_bench program. The keys of observations are the plugin's, and `info`
    has its metrics. An episode is truncated at the plugin's limit.

    Args:
        plugin: Its name.
        params: `env.params` of a config.
        plugin_dirs: Folders to search first, then DP_BENCH_PLUGIN_PATH and the installation.
        render_mode: "rgb_array".
        visualization_width, visualization_height: The size of rendered frames.

    Raises:
        ValueError: A param or action has a wrong value or shape.
        RuntimeError: The plugin cannot be loaded.
        ProgramError: The package was built without an installation of dp_bench.
    """

    metadata = METADATA

    def __init__(
        self,
        plugin: str,
        params: Mapping[str, Any] | None = None,
        plugin_dirs: Sequence[PathLike] = (),
        render_mode: str | None = "rgb_array",
        visualization_width: int = 640,
        visualization_height: int = 480,
    ) -> None:
        module, make = _load(plugin, params, plugin_dirs, render_mode)
        super().__init__(module, make, None, render_mode, (visualization_width, visualization_height), "env")
        self.metadata = self.metadata | {"render_fps": self._spec["control_hz"]}


class PluginVectorEnv(SimulatedVectorEnv):
    """Many environments of a plugin: `gymnasium.make_vec("dp_bench/Plugin-v0", num_envs=N, plugin="point_mass")`.

    Args:
        num_envs, max_episode_steps, autoreset_mode, copy, num_threads: As for `SimulatedVectorEnv`.
        plugin, params, plugin_dirs, render_mode, visualization_width, visualization_height: As for `PluginEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        plugin: str,
        params: Mapping[str, Any] | None = None,
        plugin_dirs: Sequence[PathLike] = (),
        render_mode: str | None = "rgb_array",
        max_episode_steps: Limit = "env",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads: int = 0,
        visualization_width: int = 640,
        visualization_height: int = 480,
    ) -> None:
        module, make = _load(plugin, params, plugin_dirs, render_mode)
        super().__init__(
            num_envs,
            module,
            make,
            None,
            METADATA,
            max_episode_steps,
            autoreset_mode,
            copy,
            num_threads,
            render_mode,
            (visualization_width, visualization_height),
        )
        self.metadata["render_fps"] = self._spec["control_hz"]
