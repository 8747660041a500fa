"""LeRobot's diffusion network with the sizes of ours, for PushT's keypoints."""

import os

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionModel

DEVICE = os.environ.get("DPB_PEER_DEVICE", "cpu")
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)  # costs each call of PyTorch some time
STATE, KEYPOINTS, ACTION = "observation.state", "observation.environment_state", "action"
T, TO, TA = 16, 2, 8
FEATURES = {
    "input_features": {
        STATE: PolicyFeature(type=FeatureType.STATE, shape=(2,)),
        KEYPOINTS: PolicyFeature(type=FeatureType.ENV, shape=(18,)),
    },
    "output_features": {ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
}


def ours(*policy, has_graph=True):
    """A policy of dp_bench in each way: on the CPU with other weights, elsewhere with training steps as one graph."""
    bench = ["policy", *policy]
    if DEVICE == "cpu":
        return {
            "float32": [*bench, "policy.weights=float32", "training.mixed_precision=no"],
            "bf16": [*bench, "policy.weights=bf16", "training.mixed_precision=bf16"],
            "int8": [*bench, "policy.weights=int8", "--work", "chunks"],
        }
    training = [*bench, "--work", "training"]
    ways = {
        "float32": [*bench, "training.mixed_precision=no"],
        "bf16": [*training, "training.mixed_precision=bf16"],
    }
    if not has_graph:
        return ways
    for name, precision in (("float32", "no"), ("bf16", "bf16")):
        ways[f"{name}, graph"] = [*training, f"training.mixed_precision={precision}", "policy.params.cuda_graph=true"]
    return ways


def diffusion_config():
    return DiffusionConfig(
        n_obs_steps=TO,
        horizon=T,
        n_action_steps=TA,
        down_dims=(64, 128, 256),
        noise_scheduler_type="DDIM",
        num_inference_steps=10,
        device=DEVICE,
        **FEATURES,
    )


def diffusion_model():
    torch.manual_seed(0)
    return DiffusionModel(diffusion_config()).to(DEVICE)


def random_batch(size, n_steps, n_actions):
    """Normalized: `n_steps` observations (0: without that axis) and `n_actions` actions."""
    steps = (n_steps,) if n_steps else ()
    return {
        STATE: torch.rand(size, *steps, 2) * 2 - 1,
        KEYPOINTS: torch.rand(size, *steps, 18) * 2 - 1,
        ACTION: torch.rand(size, n_actions, 2) * 2 - 1,
        "action_is_pad": torch.zeros(size, n_actions, dtype=torch.bool),
    }


def planning_ways(plan):
    """plan() by precision."""

    def run(is_bf16):
        with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=is_bf16):
            plan()

    return {"float32": lambda: run(False), "bf16": lambda: run(True)}


def training_ways(parameters, compute_loss):
    """A step of loss, gradients, AdamW and EMA, with the fastest optimizer and EMA of the Python ecosystem, by precision."""
    from diffusers.training_utils import EMAModel

    parameters = list(parameters)
    ema = EMAModel(parameters, use_ema_warmup=True, power=0.75, foreach=True)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

    def step(is_bf16):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=is_bf16):
            loss = compute_loss()
        loss.backward()
        optimizer.step()
        ema.step(parameters)

    return {"float32": lambda: step(False), "bf16": lambda: step(True)}
