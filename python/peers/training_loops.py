"""Whole training loops on the same demonstrations: loader, optimizer, EMA and log.

LeRobot's is that of its train script, without EMA, on a LeRobotDataset. diffusion_policy's is its workspace's loop around LeRobot's
network: windows cut from arrays in memory, AdamW, cosine schedule, EMA parameter by parameter, a JSON line for each step. Ours is
`dp_bench train` without checkpoints and rollouts.
"""

import json
import pathlib
import subprocess
import tempfile
import time

import networks
import numpy as np
import torch
import zarr
from accelerate import Accelerator
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.scripts.lerobot_train import update_policy
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker
from networks import ACTION, KEYPOINTS, STATE, TA, TO, T

CPU_ONLY = True
TITLE = "Training loop of the UNet of 4.6 M parameters, batch 256, one loader worker"
PACKAGES = ("lerobot", "diffusers", "torch")
BATCH, FPS, N_EPISODES = 256, 10, 100
N_WARM, N_OURS = 5, 25  # steps of ours that do not count, and that do; together less than an epoch

_FOLDER = tempfile.TemporaryDirectory()
_DATA = pathlib.Path(_FOLDER.name) / "demonstrations.zarr"


def ours(program, precision):
    """The difference of two runs that differ by N_OURS steps, so that start and end do not count."""

    def seconds(n_steps):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(
                [
                    program,
                    "train",
                    "--policy",
                    "unet_hybrid",
                    "--env",
                    "pusht",
                    "--dataset",
                    str(_DATA),
                    "--output",
                    folder + "/run",
                    "training.num_epochs=1",
                    f"training.max_train_steps={n_steps}",
                    f"training.mixed_precision={precision}",
                    "training.rollout_every=0",
                    "training.checkpoint_every=0",
                    "training.val_every=0",
                    "training.sample_every=0",
                ],
                check=True,
                capture_output=True,
            )
            return time.perf_counter() - start

    collect(program)
    ms = 1e3 * (seconds(N_OURS + N_WARM) - seconds(N_WARM)) / N_OURS
    return {"training step as LeRobot": ms, "training step as diffusion_policy": ms}


OURS = {"float32": lambda program: ours(program, "no"), "bf16": lambda program: ours(program, "bf16")}


def collect(program):
    if not _DATA.exists():
        subprocess.run(
            [program, "collect", "--env", "pusht_expert", "--episodes", str(N_EPISODES), "--output", str(_DATA)],
            check=True,
            capture_output=True,
        )


def read_demonstrations():
    root = zarr.open(str(_DATA), mode="r")
    keypoints = root["data/keypoint"][:].reshape(len(root["data/action"]), -1)
    return {
        STATE: root["data/agent_pos"][:].astype(np.float32),
        KEYPOINTS: keypoints.astype(np.float32),
        ACTION: root["data/action"][:].astype(np.float32),
    }, root["meta/episode_ends"][:]


def normalize(arrays):
    """To [-1, 1], as the preprocessors of both do; they are not part of the loops here."""
    return {key: 2 * (a - a.min(0)) / np.maximum(a.max(0) - a.min(0), 1e-6) - 1 for key, a in arrays.items()}


class Windows(torch.utils.data.Dataset):
    """Windows of T steps that stay in their episode, padded with its edges: diffusion_policy's sampling."""

    def __init__(self, arrays, episode_ends):
        self.arrays, self.rows, begin = arrays, [], 0
        for end in episode_ends:
            for start in range(begin - (TO - 1), end - T + TA):
                self.rows.append(np.clip(np.arange(start, start + T), begin, end - 1))
            begin = end

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        rows = self.rows[index]
        return {
            STATE: torch.from_numpy(self.arrays[STATE][rows[:TO]]),
            KEYPOINTS: torch.from_numpy(self.arrays[KEYPOINTS][rows[:TO]]),
            ACTION: torch.from_numpy(self.arrays[ACTION][rows]),
            "action_is_pad": torch.zeros(T, dtype=torch.bool),
        }


def endless(loader):
    while True:
        yield from loader


def batches_of(dataset):
    return endless(
        torch.utils.data.DataLoader(
            dataset, batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=True, drop_last=True
        )
    )


def diffusion_policy_loop(arrays, episode_ends):
    policy = DiffusionPolicy(networks.diffusion_config()).train()
    batches = batches_of(Windows(arrays, episode_ends))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-4, betas=(0.95, 0.999), eps=1e-8, weight_decay=1e-6)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=200, num_training_steps=9300)
    ema = EMAModel(policy.parameters(), use_ema_warmup=True, power=0.75)
    log = pathlib.Path(_FOLDER.name) / "log.jsonl"

    def step():
        loss, _ = policy.forward(next(batches))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        ema.step(policy.parameters())
        with log.open("a") as lines:
            lines.write(json.dumps({"train_loss": loss.item(), "lr": scheduler.get_last_lr()[0]}) + "\n")

    return step


def write_lerobot_dataset(arrays, episode_ends, folder):
    features = {key: {"dtype": "float32", "shape": a.shape[1:], "names": None} for key, a in arrays.items()}
    dataset = LeRobotDataset.create("local/pusht", FPS, features, root=folder, use_videos=False)
    begin = 0
    for end in episode_ends:
        for i in range(begin, end):
            dataset.add_frame({**{key: a[i] for key, a in arrays.items()}, "task": "push the T"})
        dataset.save_episode()
        begin = end
    dataset.finalize()


def lerobot_loop(arrays, episode_ends):
    folder = pathlib.Path(_FOLDER.name) / "lerobot"
    write_lerobot_dataset(arrays, episode_ends, folder)
    policy = DiffusionPolicy(networks.diffusion_config())
    config = policy.config
    deltas = {
        STATE: config.observation_delta_indices,
        KEYPOINTS: config.observation_delta_indices,
        ACTION: config.action_delta_indices,
    }
    dataset = LeRobotDataset(
        "local/pusht", root=folder, delta_timestamps={key: [i / FPS for i in steps] for key, steps in deltas.items()}
    )
    batches = batches_of(dataset)
    optimizer = config.get_optimizer_preset().build(policy.get_optim_params())
    scheduler = config.get_scheduler_preset().build(optimizer, 9300)
    accelerator = Accelerator(cpu=True)
    meters = {name: AverageMeter(name, ":.3f") for name in ("loss", "grad_norm", "lr", "update_s", "dataloading_s")}
    tracker = MetricsTracker(BATCH, dataset.num_frames, dataset.num_episodes, meters, accelerator=accelerator)

    def step():
        update_policy(tracker, policy, next(batches), optimizer, 10, accelerator, lr_scheduler=scheduler)
        tracker.step()

    return step


def cases(program):
    collect(program)
    arrays, episode_ends = read_demonstrations()
    arrays = normalize(arrays)
    return {
        "training step as LeRobot": {"": lerobot_loop(arrays, episode_ends)},
        "training step as diffusion_policy": {"": diffusion_policy_loop(arrays, episode_ends)},
    }
