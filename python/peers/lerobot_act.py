"""LeRobot's ACT."""

import networks
import torch
from lerobot.configs.types import NormalizationMode
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy

TITLE = "ACT of 3.3 M parameters on PushT's keypoints, chunks of 100"
PACKAGES = ("lerobot", "torch")
OURS = networks.ours("--policy", "act", "--env", "pusht", "--chunks", "1,16", has_graph=False)
CHUNK = 100


def cases(program):
    torch.manual_seed(0)
    policy = ACTPolicy(
        ACTConfig(
            chunk_size=CHUNK,
            n_action_steps=CHUNK,
            dim_model=192,
            n_heads=6,
            dim_feedforward=768,
            n_encoder_layers=4,
            n_decoder_layers=1,
            n_vae_encoder_layers=2,
            device=networks.DEVICE,
            normalization_mapping=dict.fromkeys(("STATE", "ENV", "ACTION"), NormalizationMode.MEAN_STD),
            **networks.FEATURES,
        )
    ).to(networks.DEVICE)
    train_batch = networks.random_batch(64, 0, CHUNK)

    def loss():
        policy.train()
        return policy.forward(train_batch)[0]

    ways = {}
    for size in (1, 16):
        batch = networks.random_batch(size, 0, CHUNK)
        ways[f"action chunk, batch {size}"] = networks.planning_ways(
            lambda batch=batch: policy.predict_action_chunk(batch)
        )
    ways["training step, batch 64"] = networks.training_ways(policy.parameters(), loss)
    return ways
