"""Whole training loops on images side by side, in turns, on 2 threads: samples/s with reading, optimizer and logging.

    python tests/bench/peers/vision_training_bench.py --ours build/release/bin/dp_bench \
        --data data/pusht/pusht_cchi_v7_replay.zarr

Needs Python 3.12 with lerobot 0.6, accelerate, torchcodec and zarr. The network is LeRobot's: ResNet18 with group norm on
random crops of 84 x 84 and the UNet of 4.6 M parameters, batch 64. The data are the first PushT demonstrations, recorded by
LeRobot as videos of 96 x 96; both read them.
  lerobot float32  the loop of lerobot-train as it comes: update_policy, accelerate, torch's DataLoader (of 0, 1 and 2 workers
                   the fastest, which a first round finds)
  lerobot bf16     the same with accelerate's mixed precision
  ours             dp_bench train with mixed_precision auto; the epochs after the first one, which decodes the videos
"""

import argparse
import concurrent.futures
import itertools
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "2"

import numpy as np
import torch
import zarr
from accelerate import Accelerator
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.policies.diffusion.processor_diffusion import make_diffusion_pre_post_processors
from lerobot.scripts.lerobot_train import update_policy
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker

T, TO, BATCH, FPS = 16, 2, 64, 10
STATE, IMAGE, ACTION = "observation.state", "observation.image", "action"
N_WARM = 3


def record(replay, folder, n_episodes):
    root = zarr.open(replay, mode="r")
    features = {STATE: {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
                IMAGE: {"dtype": "video", "shape": (96, 96, 3), "names": ["height", "width", "channels"]},
                ACTION: {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}}
    dataset = LeRobotDataset.create("bench/pusht", FPS, features, root=folder)
    begin = 0
    for end in root["meta/episode_ends"][:n_episodes]:
        for i in range(begin, end):
            dataset.add_frame({STATE: root["data/state"][i, :2].astype(np.float32), IMAGE: root["data/img"][i].astype(np.uint8),
                               ACTION: root["data/action"][i].astype(np.float32), "task": "push the T"})
        dataset.save_episode()
        begin = end
    dataset.finalize()


def our_config(folder):
    """The task of configs/task/pusht_image.json with the videos as its dataset."""
    configs = pathlib.Path(__file__).resolve().parents[3] / "configs"
    return {"include": str(configs / "policy/unet_hybrid.json"), "name": "pusht_videos",
            "shape_meta": {"obs": {"agent_pos": {"shape": [2], "type": "low_dim"},
                                   "image": {"shape": [3, 96, 96], "type": "rgb"}}, "action": {"shape": [2]}},
            "env": {"plugin": "pusht", "params": {"obs": ["agent_pos", "image"]}},
            "dataset": {"plugin": "lerobot", "params": {"path": str(folder), "keys": {
                "agent_pos": {"feature": STATE}, "image": {"feature": IMAGE}, "action": {"feature": ACTION}}},
                "val_ratio": 0.0},
            "policy": {"params": {"crop_shape": [84, 84]}}, "dataloader": {"batch_size": BATCH, "num_workers": 1},
            "training": {"mixed_precision": "auto", "rollout_every": 0, "checkpoint_every": 0, "val_every": 0,
                         "sample_every": 0}}


def lerobot_step(folder, mixed_precision, n_workers):
    accelerator = Accelerator(cpu=True, mixed_precision=mixed_precision)
    config = DiffusionConfig(
        n_obs_steps=TO, horizon=T, n_action_steps=8, crop_shape=(84, 84), down_dims=(64, 128, 256), device="cpu",
        pretrained_backbone_weights=None, use_group_norm=True,
        noise_scheduler_type="DDIM", num_inference_steps=10,
        input_features={STATE: PolicyFeature(type=FeatureType.STATE, shape=(2,)),
                        IMAGE: PolicyFeature(type=FeatureType.VISUAL, shape=(3, 96, 96))},
        output_features={ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(2,))})
    observed = [i / FPS for i in config.observation_delta_indices]
    dataset = LeRobotDataset("bench/pusht", root=folder, delta_timestamps={
        STATE: observed, IMAGE: observed, ACTION: [i / FPS for i in config.action_delta_indices]})
    torch.manual_seed(0)
    policy = DiffusionPolicy(config)
    preprocess, _ = make_diffusion_pre_post_processors(config, dataset.meta.stats)
    optimizer = config.get_optimizer_preset().build(policy.get_optim_params())
    scheduler = config.get_scheduler_preset().build(optimizer, 9300)
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, drop_last=True, num_workers=n_workers,
                                         persistent_workers=n_workers > 0, prefetch_factor=2 if n_workers else None)
    policy, optimizer, loader, scheduler = accelerator.prepare(policy, optimizer, loader, scheduler)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    meters = {name: AverageMeter(name, ":.3f") for name in ("loss", "grad_norm", "lr", "update_s", "dataloading_s")}
    tracker = MetricsTracker(BATCH, dataset.num_frames, dataset.num_episodes, meters, accelerator=accelerator)

    def step():
        update_policy(tracker, policy, preprocess(next(batches)), optimizer, 10, accelerator, lr_scheduler=scheduler)
        tracker.step()

    return step


def timed(step, n_steps):
    start = time.perf_counter()
    for _ in range(n_steps):
        step()
    return n_steps * BATCH / (time.perf_counter() - start)


def in_this_process(folder, mixed_precision, n_workers, n_steps):
    torch.set_num_threads(2)
    step = lerobot_step(folder, mixed_precision, n_workers)
    timed(step, N_WARM)
    return timed(step, n_steps)


def their_rate(*args):
    """LeRobot's open decoders must not be shared with the next loader's workers."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(in_this_process, *args).result()


def our_rate(program, config, n_steps_of_an_epoch):
    """Two runs that differ by two epochs, so that the start, the end and the first epoch do not count."""
    def seconds(epochs):
        with tempfile.TemporaryDirectory() as scratch:
            start = time.perf_counter()
            subprocess.run([program, "train", "--config", config, "--output", scratch + "/run",
                            f"training.num_epochs={epochs}",
                            f"training.max_train_steps={n_steps_of_an_epoch}"], check=True, capture_output=True)
            return time.perf_counter() - start

    return 2 * n_steps_of_an_epoch * BATCH / (seconds(3) - seconds(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="the program dp_bench")
    parser.add_argument("--data", required=True, help="the PushT demonstrations, a zarr folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16, help="per loop and round")
    parser.add_argument("--episodes", type=int, default=12)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "videos"
        record(args.data, folder, args.episodes)
        config = pathlib.Path(scratch) / "ours.json"
        config.write_text(json.dumps(our_config(folder)))
        workers = max((0, 1, 2), key=lambda n: their_rate(folder, "no", n, 4))
        print(f"lerobot is fastest with {workers} workers", flush=True)
        rates = {"lerobot float32": [], "lerobot bf16": [], "ours": []}
        for _ in range(args.rounds):
            rates["lerobot float32"].append(their_rate(folder, "no", workers, args.steps))
            rates["lerobot bf16"].append(their_rate(folder, "bf16", workers, args.steps))
            rates["ours"].append(our_rate(args.ours, config, args.steps))
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(rates["ours"], values))
        print(f"{name:18} {statistics.median(values):8.1f} samples/s   ours / it {ratio:5.2f}")


if __name__ == "__main__":
    main()
