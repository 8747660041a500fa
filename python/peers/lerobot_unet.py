"""LeRobot's UNet."""

import networks
import torch

TITLE = "UNet1D of 4.6 M parameters on PushT's keypoints, DDIM with 10 steps"
PACKAGES = ("lerobot", "torch")
_POLICY = ["policy", "--policy", "unet_hybrid", "--env", "pusht"]
OURS = {"float32": [*_POLICY, "policy.weights=float32", "training.mixed_precision=no"],
        "bf16": [*_POLICY, "policy.weights=bf16", "training.mixed_precision=bf16"]}


def cases(program):
    model = networks.diffusion_model()
    train_batch = networks.random_batch(256, networks.TO, networks.T)
    ways = {}
    for size in (1, 16, 50):
        batch = networks.random_batch(size, networks.TO, networks.T)

        def plan(batch=batch):
            with torch.inference_mode():
                model.generate_actions(batch)

        def plan_in_bf16(plan=plan):
            with torch.autocast("cpu", torch.bfloat16):
                plan()

        ways[f"action chunk, batch {size}"] = {"float32": plan, "bf16": plan_in_bf16}
    ways["training step, batch 256"] = networks.training_ways(model.parameters(),
                                                              lambda: model.compute_loss(train_batch))
    return ways
