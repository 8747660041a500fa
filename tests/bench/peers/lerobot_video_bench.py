"""Reading windows of two steps from videos, side by side, in turns, on two cores: windows/s of LeRobot 0.6 and of ours.

    python tests/bench/peers/lerobot_video_bench.py --ours build/release/bin/dp_bench --data /tmp/video_dataset

Needs Python 3.12 with lerobot 0.6 and torchcodec. Records the dataset with LeRobot if the folder does not exist: nine
episodes of 300 frames at 30 Hz, three cameras of 640 x 480 in AV1 with LeRobot's own settings, 16 joints. The images
have the spectrum of natural ones, a camera that sways, an object that crosses, and sensor noise.
  lerobot   LeRobotDataset with delta_timestamps and return_uint8 behind torch's DataLoader; of its decoders and 0, 1, 2
            and 3 workers the fastest, which a first round finds
  ours      dp_bench bench dataset, two workers
Both give batches of 32 windows; uint8 images of all cameras, state and action. Windows are read in random order, which
nothing was read of before; as the first two epochs of a training; and in order. Only the epochs may keep all images
that fit into the default memory limit; LeRobot keeps none.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

WIDTH, HEIGHT, FPS, BATCH = 640, 480, 30, 32
CAMERAS = [f"observation.images.{name}" for name in ("head", "left", "right")]
JOINTS = {"dtype": "float32", "shape": (16,), "names": [f"joint_{i}" for i in range(16)]}
IMAGE = {"dtype": "video", "shape": (HEIGHT, WIDTH, 3), "names": ["height", "width", "channels"]}


def texture(rng, size):
    """Noise whose amplitude falls with the frequency, as in images of a lens."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None]) + 1 / size
    planes = []
    for _ in range(3):
        phase = np.exp(2j * np.pi * rng.random(frequency.shape))
        plane = np.fft.irfft2(phase / frequency**1.6, (size, size))
        planes.append((plane - plane.mean()) / plane.std())
    return np.clip(128 + 45 * np.stack(planes, -1), 0, 255).astype(np.uint8)


def image(rng, scene, thing, start, camera, episode, t):
    x = int(start[0] + 40 * np.sin(0.02 * t + camera))
    y = int(start[1] + 30 * np.cos(0.015 * t + camera))
    image = scene[y:y + HEIGHT, x:x + WIDTH].astype(np.int16)
    x = int(200 + 180 * np.sin(0.05 * t + episode))
    y = int(110 + 100 * np.cos(0.04 * t + episode))
    image[y:y + 200, x:x + 200] = thing[:200, :200]
    image += rng.integers(-2, 3, (HEIGHT, WIDTH, 1), dtype=np.int16)
    return np.clip(image, 0, 255).astype(np.uint8)


def record(folder, n_episodes=9, n_frames=300):
    rng = np.random.default_rng(0)
    features = {"observation.state": JOINTS, "action": JOINTS, **{camera: IMAGE for camera in CAMERAS}}
    dataset = LeRobotDataset.create("bench/video", FPS, features, root=folder)
    scenes, things = ([texture(rng, size) for _ in CAMERAS] for size in (1024, 256))
    for episode in range(n_episodes):
        start = 50 + 250 * rng.random((len(CAMERAS), 2))
        for t in range(n_frames):
            joints = np.sin(np.arange(16) * 0.3 + 0.03 * t + episode).astype(np.float32)
            frame = {"observation.state": joints, "action": joints, "task": "move"}
            for i, camera in enumerate(CAMERAS):
                frame[camera] = image(rng, scenes[i], things[i], start[i], i, episode, t)
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()


def lerobot_rate(folder, backend, n_workers, is_random, n_windows):
    steps = [-1 / FPS, 0.0]
    windows = {"observation.state": steps, "action": steps, **{camera: steps for camera in CAMERAS}}
    dataset = LeRobotDataset("bench/video", root=folder, delta_timestamps=windows, video_backend=backend,
                             return_uint8=True)
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=is_random, num_workers=n_workers,
                                         prefetch_factor=4 if n_workers else None)
    batches = iter(loader)
    for _ in range(max(2, n_workers)):
        next(batches)
    start = time.perf_counter()
    n_read = 0
    while n_read < n_windows:
        n_read += len(next(batches)["index"])
    return n_read / (time.perf_counter() - start)


def in_own_process(*args):
    """LeRobot's open decoders must not be shared with the loader's workers."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(lerobot_rate, *args).result()


def our_rate(program, folder, is_random, n_windows, *overrides):
    text = subprocess.run(
        [program, "bench", "dataset", "--dataset", folder, "--repetitions", "1", "--samples", str(n_windows),
         f"dataloader.shuffle={str(is_random).lower()}", f"dataloader.batch_size={BATCH}", "dataloader.num_workers=2",
         *overrides], capture_output=True, text=True, check=True).stdout
    return float(next(line for line in text.splitlines() if "windows/s" in line).split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the program dp_bench")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder of the dataset")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--windows", type=int, default=512, help="per measurement")
    parser.add_argument("--memory-mb", type=int, default=1024,
                        help="our dataset.params.memory_limit_mb, except for two epochs")
    parser.add_argument("--decoders", nargs="+", default=["torchcodec", "pyav"], help="of LeRobot")
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2, 3], help="of LeRobot")
    args = parser.parse_args()
    if not args.data.exists():
        record(args.data)
    size = sum(file.stat().st_size for file in args.data.rglob("*.mp4"))
    n_windows = LeRobotDataset("bench/video", root=args.data).num_frames
    n_images = len(CAMERAS) * n_windows
    print(f"{n_images} images, {size / n_images / 1e3:.1f} kB each")

    limit = f"dataset.params.memory_limit_mb={args.memory_mb}"
    for is_random, cases in ((True, {"random access": (args.windows, limit), "two epochs": (2 * n_windows,)}),
                             (False, {"in order": (args.windows, limit)})):
        first = {(decoder, n): in_own_process(args.data, decoder, n, is_random, args.windows // 2)
                 for decoder, n in itertools.product(args.decoders, args.workers)}
        for (decoder, n), rate in first.items():
            print(f"LeRobot, {decoder}, {n} workers, {'random' if is_random else 'in order'}: {rate:.1f} windows/s",
                  flush=True)
        best = max(first, key=first.get)
        rounds = []
        for _ in range(args.rounds):
            rounds.append({"LeRobot": in_own_process(args.data, *best, is_random, args.windows)})
            rounds[-1].update({name: our_rate(args.ours, str(args.data), is_random, *case)
                               for name, case in cases.items()})
        theirs = statistics.median(one["LeRobot"] for one in rounds)
        for name in cases:
            ratio = statistics.median(one[name] / one["LeRobot"] for one in rounds)
            print(f"{name}, medians of {args.rounds}: LeRobot {theirs:.1f}, ours "
                  f"{statistics.median(one[name] for one in rounds):.1f} windows/s, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
