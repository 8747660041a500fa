"""LeRobot's network and ours side by side, in turns, on 2 threads: training step and DDIM-10 latency.

    .venv/bin/python tests/bench/peers/unet_bench.py --ours build/release/bin/bench_unet

LeRobot's side gets the fastest optimiser and EMA that its Python ecosystem offers (fused AdamW, EMAModel with
foreach). Each round measures both; the table holds medians over the rounds and the median of the ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch

# some builds of torchvision import only when these operators exist; nothing here calls them
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from diffusers.training_utils import EMAModel
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionModel


def make_model():
    config = DiffusionConfig(
        n_obs_steps=2, horizon=16, n_action_steps=8,
        input_features={"observation.state": PolicyFeature(type=FeatureType.STATE, shape=(2,)),
                        "observation.environment_state": PolicyFeature(type=FeatureType.ENV, shape=(18,))},
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
        down_dims=(64, 128, 256), noise_scheduler_type="DDIM", num_inference_steps=10)
    torch.manual_seed(0)
    return DiffusionModel(config)


def make_batch(size):
    return {"observation.state": torch.rand(size, 2, 2) * 2 - 1,
            "observation.environment_state": torch.rand(size, 2, 18) * 2 - 1,
            "action": torch.rand(size, 16, 2) * 2 - 1,
            "action_is_pad": torch.zeros(size, 16, dtype=torch.bool)}


def milliseconds(call, seconds):
    call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.mean(times)


def lerobot_cases():
    model = make_model()
    ema = EMAModel(model.parameters(), use_ema_warmup=True, power=0.75, foreach=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    train_batch = make_batch(256)

    def train_step():
        optimizer.zero_grad()
        model.compute_loss(train_batch).backward()
        optimizer.step()
        ema.step(model.parameters())

    cases = {"TrainStep/256": train_step}
    for size in (1, 16, 50):
        batch = make_batch(size)

        def predict(batch=batch):
            with torch.inference_mode():
                model.generate_actions(batch)

        cases[f"PredictAction/{size}"] = predict
    return cases


def our_milliseconds(program, case, seconds):
    text = subprocess.run(
        [program, f"--benchmark_filter=^{case}/", f"--benchmark_min_time={seconds}",
         "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout
    row = json.loads(text)["benchmarks"][0]
    return row["real_time"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True, help="the program bench_unet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per case, side and round")
    args = parser.parse_args()
    torch.set_num_threads(THREADS)

    print(f"{'case':20} {'lerobot ms':>11} {'ours ms':>9} {'ratio':>6}")
    for case, call in lerobot_cases().items():
        theirs, ours = [], []
        for _ in range(args.rounds):
            theirs.append(milliseconds(call, args.seconds))
            ours.append(our_milliseconds(args.ours, case, args.seconds))
        ratio = statistics.median(a / b for a, b in zip(theirs, ours))
        print(f"{case:20} {statistics.median(theirs):11.2f} {statistics.median(ours):9.2f} {ratio:6.2f}",
              flush=True)


if __name__ == "__main__":
    main()
