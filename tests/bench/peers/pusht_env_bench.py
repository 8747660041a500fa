"""PushT state env, ours against gym-pusht, alternating in one run on one core, in CPU time.

Both play the pushing traces of tests/golden/pusht.safetensors: 100 Hz physics, coverage, reward and
the state observation in every step.

    python tests/bench/peers/pusht_env_bench.py build/release/bin/bench_env [--rounds 5]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time

import gym_pusht.envs.pusht as peer
import numpy as np
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "pusht.safetensors"
SEEDS = [0, 2, 3, 14]


def peer_rate(traces):
    """Steps per second of gym-pusht, one pass over all traces."""
    count, elapsed = 0, 0.0
    for seed, actions in traces.items():
        env = peer.PushTEnv(obs_type="state")
        rng = np.random.RandomState(seed)
        state = [rng.randint(50, 450), rng.randint(50, 450), rng.randint(100, 400)]
        state += [rng.randint(100, 400), rng.randn() * 2 * np.pi - np.pi]
        env.reset(options={"reset_to_state": state})
        begin = time.process_time()
        for action in actions:
            env.step(action)
        elapsed += time.process_time() - begin
        count += len(actions)
    return count / elapsed


def our_rate(program):
    run = subprocess.run(
        [program, "--benchmark_filter=^StateStep$", "--benchmark_format=json"],
        check=True, capture_output=True, text=True)
    return json.loads(run.stdout)["benchmarks"][0]["items_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bench_env of a build with -DDPB_BENCHMARKS=ON")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    golden = load_file(GOLDEN)
    traces = {seed: golden[f"push_{seed}.action"].astype(np.float64) for seed in SEEDS}
    ours, theirs = [], []
    for _ in range(args.rounds):
        theirs.append(peer_rate(traces))
        ours.append(our_rate(args.program))
    print(f"gym-pusht: {statistics.median(theirs):.0f} steps/s "
          f"({min(theirs):.0f} to {max(theirs):.0f} in {args.rounds} rounds)")
    print(f"dp_bench:  {statistics.median(ours):.0f} steps/s ({min(ours):.0f} to {max(ours):.0f})")
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"ratio:     {statistics.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f})")


if __name__ == "__main__":
    main()
