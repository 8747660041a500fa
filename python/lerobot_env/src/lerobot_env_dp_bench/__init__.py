"""PushT of dp_bench for LeRobot: `lerobot-eval --env.type=dp_pusht`.

LeRobot imports installed packages whose names begin with lerobot_env_, which registers the environment.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_IMAGE, OBS_STATE

_PIXELS = (96, 96, 3)  # [height, width, channels]
_CORNERS = 16  # x and y of the eight corners of the T

_FEATURES = {
    "pixels": {"pixels": PolicyFeature(type=FeatureType.VISUAL, shape=_PIXELS)},
    "pixels_agent_pos": {
        "pixels": PolicyFeature(type=FeatureType.VISUAL, shape=_PIXELS),
        "agent_pos": PolicyFeature(type=FeatureType.STATE, shape=(2,)),
    },
    "environment_state_agent_pos": {
        "environment_state": PolicyFeature(type=FeatureType.ENV, shape=(_CORNERS,)),
        "agent_pos": PolicyFeature(type=FeatureType.STATE, shape=(2,)),
    },
}


@EnvConfig.register_subclass("dp_pusht")
@dataclass
class DpPushTEnv(EnvConfig):
    """The options of LeRobot's `pusht`, for `dp_bench/PushT-v0`.

    Attributes:
        obs_type: "pixels_agent_pos", "pixels" or "environment_state_agent_pos".
        episode_length: Steps after which an episode is truncated.
        seeding: "gym_pusht", as in LeRobot's `pusht`, or "diffusion_policy", as in `dp_bench eval`.
        visualization_width, visualization_height: The size of the frames of videos.
    """

    task: str | None = "PushT-v0"
    fps: int = 10
    episode_length: int = 300
    obs_type: str = "pixels_agent_pos"
    seeding: str = "gym_pusht"
    visualization_width: int = 384
    visualization_height: int = 384
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            ACTION: ACTION,
            "agent_pos": OBS_STATE,
            "environment_state": OBS_ENV_STATE,
            "pixels": OBS_IMAGE,
        }
    )

    def __post_init__(self) -> None:
        if self.obs_type not in _FEATURES:
            raise ValueError(f"expected obs_type to be one of {', '.join(_FEATURES)}, found {self.obs_type!r}")
        self.features = {ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(2,)), **_FEATURES[self.obs_type]}

    @property
    def gym_id(self) -> str:
        return f"dp_bench:dp_bench/{self.task}"  # the module before the colon is imported first

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {
            "obs_type": self.obs_type,
            "seeding": self.seeding,
            "render_mode": "rgb_array",
            "visualization_width": self.visualization_width,
            "visualization_height": self.visualization_height,
            "max_episode_steps": self.episode_length,
        }

    def create_envs(self, n_envs: int, use_async_envs: bool = False) -> dict[str, dict[int, VectorEnv]]:
        """All environments in this process: a step takes microseconds, less than a message to another process."""
        makers = [partial(gymnasium.make, self.gym_id, **self.gym_kwargs)] * n_envs
        return {self.type: {0: SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)}}
