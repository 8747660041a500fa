"""Runs a peer's cases and ours side by side and prints medians of milliseconds and of their ratio.

On the CPU, or on the device that the environment variable DPB_BENCH_DEVICE names, for example cuda.
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

DEVICE = os.environ.get("DPB_BENCH_DEVICE", "cpu")
torch.set_default_device(DEVICE)

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # some builds of torchvision import only when these operators exist; nothing here calls them
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def synchronize():
    if DEVICE.startswith("cuda"):
        torch.cuda.synchronize()


def milliseconds(call, seconds):
    for _ in range(3):
        call()
    synchronize()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.mean(times)


def our_milliseconds(program, case, seconds):
    text = subprocess.run(
        [program, f"--benchmark_filter=^{case}/", f"--benchmark_min_time={seconds}",
         "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout
    return json.loads(text)["benchmarks"][0]["real_time"]


def main(description, program, peer, make_cases):
    """make_cases() -> {name of our benchmark: the function of the peer}."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ours", required=True, help=f"the program {program}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per case, side and round")
    parser.add_argument("--cases", default="", help="only those whose name holds this")
    args = parser.parse_args()
    torch.set_num_threads(THREADS)

    print(f"{'case':22} {peer + ' ms':>11} {'ours ms':>9} {'ratio':>6}")
    for case, call in make_cases().items():
        if args.cases not in case:
            continue
        theirs, ours = [], []
        for _ in range(args.rounds):
            theirs.append(milliseconds(call, args.seconds))
            ours.append(our_milliseconds(args.ours, case, args.seconds))
        ratio = statistics.median(a / b for a, b in zip(theirs, ours))
        print(f"{case:22} {statistics.median(theirs):11.2f} {statistics.median(ours):9.2f} {ratio:6.2f}",
              flush=True)
