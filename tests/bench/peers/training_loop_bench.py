"""Whole training loops side by side, in turns, on 2 threads: samples/s with data loading, optimiser, EMA and logging.

    .venv/bin/python tests/bench/peers/training_loop_bench.py --ours build/release/bin/dp_bench \
        --data data/pusht/pusht_cchi_v7_replay.zarr

The network is LeRobot's UNet of 4.6 M parameters in all of them, batch 256, the data the PushT demonstrations, one
loader worker:
  lerobot           LeRobotDataset, update_policy of its train script; it has no EMA
  diffusion_policy  its workspace's loop around that network: windows cut from arrays in memory, AdamW, cosine
                    schedule, EMA parameter by parameter, a JSON line for each step
  ours              dp_bench train, checkpoints and rollouts off
Each round measures all three over the same number of steps; the first steps of each are not counted.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import side_by_side  # before torch: it sets the number of threads and the device

import numpy as np
import torch
import zarr
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import cycle
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.scripts.train import update_policy
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker
from torch.amp import GradScaler

T, TO, TA, BATCH, FPS = 16, 2, 8, 256, 10
STATE, KEYPOINTS, ACTION = "observation.state", "observation.environment_state", "action"
N_WARM = 5


def read_replay(path):
    root = zarr.open(path, "r") if not hasattr(zarr, "open_group") else zarr.open_group(path, mode="r")
    keypoints = root["data/keypoint"][:].reshape(len(root["data/action"]), -1)
    return {STATE: root["data/state"][:, :2].astype(np.float32), KEYPOINTS: keypoints.astype(np.float32),
            ACTION: root["data/action"][:].astype(np.float32)}, root["meta/episode_ends"][:]


def make_policy(arrays):
    config = DiffusionConfig(
        n_obs_steps=TO, horizon=T, n_action_steps=TA,
        input_features={STATE: PolicyFeature(type=FeatureType.STATE, shape=(2,)),
                        KEYPOINTS: PolicyFeature(type=FeatureType.ENV, shape=(18,))},
        output_features={ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
        normalization_mapping={"STATE": NormalizationMode.MIN_MAX, "ENV": NormalizationMode.MIN_MAX,
                               "ACTION": NormalizationMode.MIN_MAX},
        down_dims=(64, 128, 256), noise_scheduler_type="DDIM", num_inference_steps=10, device="cpu")
    stats = {key: {"min": torch.from_numpy(a.min(0)), "max": torch.from_numpy(a.max(0)),
                   "mean": torch.from_numpy(a.mean(0)), "std": torch.from_numpy(a.std(0))}
             for key, a in arrays.items()}
    torch.manual_seed(0)
    return DiffusionPolicy(config, dataset_stats=stats).train()


class Windows(torch.utils.data.Dataset):
    """Windows of T steps that stay in their episode, padded with its edges: diffusion_policy's sampling."""

    def __init__(self, arrays, episode_ends):
        self.arrays = arrays
        self.rows = []
        begin = 0
        for end in episode_ends:
            for start in range(begin - (TO - 1), end - T + TA):
                self.rows.append(np.clip(np.arange(start, start + T), begin, end - 1))
            begin = end

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        rows = self.rows[index]
        return {STATE: torch.from_numpy(self.arrays[STATE][rows[:TO]]),
                KEYPOINTS: torch.from_numpy(self.arrays[KEYPOINTS][rows[:TO]]),
                ACTION: torch.from_numpy(self.arrays[ACTION][rows]),
                "action_is_pad": torch.zeros(T, dtype=torch.bool)}


def timed(step, n_steps):
    for _ in range(N_WARM):
        step()
    start = time.perf_counter()
    for _ in range(n_steps):
        step()
    return n_steps * BATCH / (time.perf_counter() - start)


def diffusion_policy_loop(arrays, episode_ends, log):
    policy = make_policy(arrays)
    loader = torch.utils.data.DataLoader(Windows(arrays, episode_ends), batch_size=BATCH, shuffle=True,
                                         num_workers=1, persistent_workers=True, drop_last=True)
    batches = cycle(loader)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-4, betas=(0.95, 0.999), eps=1e-8, weight_decay=1e-6)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=200, num_training_steps=9300)
    ema = EMAModel(policy.parameters(), use_ema_warmup=True, power=0.75)

    def step():
        loss, _ = policy.forward(next(batches))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        ema.step(policy.parameters())
        log.write(json.dumps({"train_loss": loss.item(), "lr": scheduler.get_last_lr()[0]}) + "\n")

    return step


def write_lerobot_dataset(arrays, episode_ends, folder):
    features = {key: {"dtype": "float32", "shape": a.shape[1:], "names": None} for key, a in arrays.items()}
    dataset = LeRobotDataset.create("local/pusht", FPS, features, root=folder, use_videos=False)
    begin = 0
    for end in episode_ends:
        for i in range(begin, end):
            dataset.add_frame({key: a[i] for key, a in arrays.items()}, task="push the T")
        dataset.save_episode()
        begin = end


def lerobot_loop(arrays, folder):
    policy = make_policy(arrays)
    config = policy.config
    dataset = LeRobotDataset("local/pusht", root=folder, delta_timestamps={
        STATE: [i / FPS for i in config.observation_delta_indices],
        KEYPOINTS: [i / FPS for i in config.observation_delta_indices],
        ACTION: [i / FPS for i in config.action_delta_indices]})
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=1,
                                         persistent_workers=True, drop_last=True)
    batches = cycle(loader)
    optimizer = config.get_optimizer_preset().build(policy.get_optim_params())
    scheduler = config.get_scheduler_preset().build(optimizer, 9300)
    scaler = GradScaler("cpu", enabled=False)
    meters = {name: AverageMeter(name, ":.3f") for name in ("loss", "grad_norm", "lr", "update_s", "dataloading_s")}
    tracker = MetricsTracker(BATCH, dataset.num_frames, dataset.num_episodes, meters)

    def step():
        update_policy(tracker, policy, next(batches), optimizer, grad_clip_norm=10, grad_scaler=scaler,
                      lr_scheduler=scheduler)
        tracker.step()

    return step


def our_samples_per_s(program, n_steps):
    """The difference of two runs that differ by n_steps, so that start and end do not count."""
    def seconds(steps):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(
                [program, "train", "--policy", "unet_hybrid", "--env", "pusht", "--output", folder + "/run",
                 "training.num_epochs=1", f"training.max_train_steps={steps}", "training.rollout_every=0",
                 "training.checkpoint_every=0", "training.val_every=0", "training.sample_every=0"],
                check=True, capture_output=True)
            return time.perf_counter() - start

    return n_steps * BATCH / (seconds(n_steps + N_WARM) - seconds(N_WARM))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="the program dp_bench")
    parser.add_argument("--data", required=True, help="the PushT demonstrations, a zarr folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="per loop and round")
    args = parser.parse_args()
    torch.set_num_threads(side_by_side.THREADS)

    arrays, episode_ends = read_replay(args.data)
    rates = {"lerobot": [], "diffusion_policy": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        write_lerobot_dataset(arrays, episode_ends, pathlib.Path(folder) / "lerobot")
        log = open(pathlib.Path(folder) / "log.jsonl", "w", encoding="utf-8")
        loops = {"lerobot": lerobot_loop(arrays, pathlib.Path(folder) / "lerobot"),
                 "diffusion_policy": diffusion_policy_loop(arrays, episode_ends, log)}
        for _ in range(args.rounds):
            for name, step in loops.items():
                rates[name].append(timed(step, args.steps))
            rates["ours"].append(our_samples_per_s(args.ours, args.steps))
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(rates["ours"], values))
        print(f"{name:18} {statistics.median(values):8.0f} samples/s   ours / it {ratio:5.2f}")


if __name__ == "__main__":
    main()
