"""LeRobot's UNet."""

import networks

TITLE = "UNet1D of 4.6 M parameters on PushT's keypoints, DDIM with 10 steps"
PACKAGES = ("lerobot", "torch")
OURS = networks.ours("--policy", "unet_hybrid", "--env", "pusht")


def cases(program):
    model = networks.diffusion_model()
    train_batch = networks.random_batch(256, networks.TO, networks.T)
    ways = {}
    for size in (1, 16, 50):
        batch = networks.random_batch(size, networks.TO, networks.T)
        ways[f"action chunk, batch {size}"] = networks.planning_ways(lambda batch=batch: model.generate_actions(batch))
    ways["training step, batch 256"] = networks.training_ways(
        model.parameters(), lambda: model.compute_loss(train_batch)
    )
    return ways
