"""Steps per second of the Python package dp_bench, and of gym-pusht if it is installed.

Random actions, `info` and resets included. Single environments go through gymnasium.make with its wrappers, on one
core; ours and gym-pusht alternate in one run. Every figure is the median of the rounds.

    python tests/bench/peers/pusht_gymnasium_bench.py [--rounds 5] [--seconds 1] [--threads 2]
"""

import argparse
import os
import statistics
import time

import dp_bench  # noqa: F401
import gymnasium
import numpy as np

try:
    import gym_pusht  # noqa: F401
except ModuleNotFoundError:
    gym_pusht = None


def single_rate(env, seconds):
    """Steps per second of wall time and of CPU time."""
    actions = list(np.random.default_rng(0).uniform(0, 512, (4096, 2)).astype(np.float32))
    env.reset(seed=0)
    count = 0
    begin, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        for action in actions[:100]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        actions = actions[100:] + actions[:100]
        count += 100
    return count / (time.perf_counter() - begin), count / (time.process_time() - cpu)


def vector_rate(env, seconds):
    """Steps of single environments per second of wall time, and of CPU time of all threads."""
    actions = np.random.default_rng(0).uniform(0, 512, (16, env.num_envs, 2)).astype(np.float32)
    env.reset(seed=0)
    for batch in actions:
        env.step(batch)
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        for batch in actions:
            env.step(batch)
        count += len(actions) * env.num_envs
    return count / (time.perf_counter() - begin), count / (time.process_time() - cpu)


def show(name, rates):
    print(f"{name:64s} {statistics.median(rates):>11,.0f} /s   ({min(rates):,.0f} to {max(rates):,.0f})")


def bench_single(obs_type, rounds, seconds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(single_rate(gymnasium.make("dp_bench/PushT-v0", obs_type=obs_type), seconds))
        if gym_pusht:
            theirs.append(single_rate(gymnasium.make("gym_pusht/PushT-v0", obs_type=obs_type), seconds))
    show(f"{obs_type}, one env, wall time", [wall for wall, _ in ours])
    show(f"{obs_type}, one env, CPU time", [cpu for _, cpu in ours])
    if theirs:
        show(f"{obs_type}, gym-pusht, wall time", [wall for wall, _ in theirs])
        show(f"{obs_type}, gym-pusht, CPU time", [cpu for _, cpu in theirs])
        ratios = [a[1] / b[1] for a, b in zip(ours, theirs, strict=True)]
        print(f"    ratio in CPU time {statistics.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f})")


def bench_vector(obs_type, num_envs, threads, copy, rounds, seconds):
    env = gymnasium.make_vec("dp_bench/PushT-v0", num_envs=num_envs, obs_type=obs_type, num_threads=threads, copy=copy)
    rates = [vector_rate(env, seconds) for _ in range(rounds)]
    name = f"{obs_type}, {num_envs} envs, {threads} threads, copy={copy}"
    show(f"{name}, wall time", [wall for wall, _ in rates])
    show("    the same per second of CPU time of one core", [cpu for _, cpu in rates])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    for obs_type in ("state", "pixels"):
        bench_single(obs_type, args.rounds, args.seconds)
    for threads in sorted({1, args.threads}):
        for obs_type, num_envs in (("state", 1024), ("environment_state_agent_pos", 1024), ("pixels", 256)):
            for copy in (True, False):
                bench_vector(obs_type, num_envs, threads, copy, args.rounds, args.seconds)


if __name__ == "__main__":
    main()
