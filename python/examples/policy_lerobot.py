"""ACT or the diffusion policy of LeRobot for PushT, behind a server, with random weights.

dp_bench eval --policy remote --env pusht n_obs_steps=2 n_action_steps=8 \\
    policy.params.command="python python/examples/policy_lerobot.py diffusion"
dp_bench eval --policy remote --env pusht n_obs_steps=1 n_action_steps=8 \\
    policy.params.command="python python/examples/policy_lerobot.py act"

For trained weights, set `pretrained_path` of the config and `pretrained_path` of the processors to the folder
`pretrained_model`, and the keys below to those of its data. Needs: pip install 'lerobot[diffusion]' 'dp_bench[serve]'
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import dp_bench

try:
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.envs.configs import PushtEnv
    from lerobot.policies.factory import make_policy, make_policy_config, make_pre_post_processors
except ModuleNotFoundError as error:
    missing = error.name
else:
    missing = None

N_ACTIONS = 8
WORLD = 512.0  # pixels
KEYS = {"observation.state": "agent_pos", "observation.environment_state": "keypoint"}  # LeRobot's and ours
SIZES = {"observation.state": 2, "observation.environment_state": 9 * 2, "action": 2}


def load_policy(name: str):
    n_obs_steps = 2 if name == "diffusion" else 1
    own = {"chunk_size": N_ACTIONS, "pretrained_backbone_weights": None}
    if name == "diffusion":  # LeRobot's own size takes ten seconds for an answer without a GPU
        own = {"horizon": 16, "down_dims": (64, 128, 256), "num_inference_steps": 10}
    config = make_policy_config(
        name,
        n_obs_steps=n_obs_steps,
        n_action_steps=N_ACTIONS,
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (SIZES["observation.state"],)),
            "observation.environment_state": PolicyFeature(FeatureType.ENV, (SIZES["observation.environment_state"],)),
        },
        device="cpu",
        push_to_hub=False,
        **own,
    )
    torch.manual_seed(0)
    network = make_policy(config, env_cfg=PushtEnv()).eval()  # the env tells the size of an action
    # random weights have no statistics: every number is in pixels
    statistics = {
        key: {
            "min": torch.zeros(n),
            "max": torch.full((n,), WORLD),
            "mean": torch.full((n,), WORLD / 2),
            "std": torch.full((n,), WORLD / 4),
        }
        for key, n in SIZES.items()
    }
    before, after = make_pre_post_processors(config, dataset_stats=statistics)

    @torch.inference_mode()
    def policy(observation: dict[str, np.ndarray], *, seed: int, step: int) -> np.ndarray:
        """Actions [N_ACTIONS, 2] in pixels from agent_pos [n_obs_steps, 2] and keypoint [n_obs_steps, 9, 2].

        `select_action` would keep observations and actions in the network, and all episodes would share them.
        """
        batch = {
            key: torch.from_numpy(observation[own]).reshape(1, n_obs_steps, -1) for key, own in KEYS.items()
        }  # [1, n_obs_steps, n]
        torch.manual_seed((seed * 1_000_003 + step) % 2**63)  # decides the noise
        if name == "diffusion":
            return after(network.diffusion.generate_actions(before(batch)))[0].numpy()
        return after(network.predict_action_chunk(before({key: value[:, -1] for key, value in batch.items()})))[
            0
        ].numpy()

    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", choices=["act", "diffusion"])
    args = parser.parse_args()
    if missing:
        sys.exit(f"policy_lerobot.py needs LeRobot, and found no module '{missing}': pip install 'lerobot[diffusion]'")
    dp_bench.serve_policy(
        load_policy(args.policy),
        metadata={"policy": f"LeRobot's {args.policy}, random weights"},
        n_obs_steps=2 if args.policy == "diffusion" else 1,
    )


if __name__ == "__main__":
    main()
