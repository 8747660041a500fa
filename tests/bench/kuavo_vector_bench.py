"""Steps per second of the Kuavo environments in Python: one alone, SyncVectorEnv, and the vector environment by threads.

Small random motions, infos and resets included. The variants alternate in each round, so that their ratios hold on a busy
machine too. Every figure is the median of the rounds.

    python tests/bench/kuavo_vector_bench.py [--obs-type rgbd] [--num-envs 16] [--threads 2] [--rounds 7] [--seconds 2]
"""

import argparse
import os
import statistics
import time

import dp_bench
import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv

ENV_ID = "dp_bench/KuavoPickPlace-v0"


class OneEnv:
    """A single environment with the methods of a vector environment."""

    num_envs = 1

    def __init__(self, **kwargs):
        self.env = gymnasium.make(ENV_ID, **kwargs)
        self.single_action_space = self.env.action_space

    def reset(self, seed):
        return self.env.reset(seed=seed)

    def step(self, actions):
        _, _, terminated, truncated, _ = self.env.step(actions[0])
        if terminated or truncated:
            self.env.reset()


def rate(env, seconds):
    """Steps of single environments per second of wall time, and of CPU time of all threads."""
    space, random = env.single_action_space, np.random.default_rng(0)
    pose = dp_bench.KuavoEnv().reset(seed=0)[0]["observation.state"]
    motions = pose + random.uniform(-0.1, 0.1, (16, env.num_envs, 16))
    motions = np.clip(motions, space.low, space.high).astype(np.float32)
    env.reset(seed=0)
    env.step(motions[0])
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        env.step(motions[count // env.num_envs % len(motions)])
        count += env.num_envs
    return count / (time.perf_counter() - begin), count / (time.process_time() - cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--obs-type", default="state")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    args = parser.parse_args()
    kwargs = {"obs_type": args.obs_type}
    if args.obs_type != "state":
        kwargs |= {"image_width": 128, "image_height": 96}
    n = args.num_envs
    envs = {
        "one env": OneEnv(**kwargs),
        f"SyncVectorEnv of {n}": SyncVectorEnv([lambda: gymnasium.make(ENV_ID, **kwargs)] * n),
    }
    for threads in sorted({1, args.threads}):
        envs[f"vector env of {n}, {threads} threads"] = gymnasium.make_vec(
            ENV_ID, num_envs=n, num_threads=threads, **kwargs
        )
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; {args.obs_type}")
    rounds = [{name: rate(env, args.seconds) for name, env in envs.items()} for _ in range(args.rounds)]
    for name in envs:
        for kind, what in enumerate(("wall", "CPU")):
            rates = [results[name][kind] for results in rounds]
            ratio = statistics.median(results[name][kind] / results["one env"][kind] for results in rounds)
            low, high = min(rates), max(rates)
            print(
                f"{name:32} {statistics.median(rates):7,.0f} /s {what} ({low:,.0f} to {high:,.0f}), ratio {ratio:.2f}"
            )


if __name__ == "__main__":
    main()
