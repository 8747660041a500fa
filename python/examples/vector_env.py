"""A random agent in many PushT environments at once, with the number of steps per second.

The loop is that of an on-policy method such as PPO: it collects a batch of transitions of fixed length.

    python python/examples/vector_env.py [--num-envs 1024] [--obs-type pixels] [--seconds 3]
"""

import argparse
import time

import gymnasium
import numpy as np

import dp_bench  # noqa: F401 (registers the environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--obs-type", default="state")
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()

    # views, because the loop is done with an observation before the second step after it
    envs = gymnasium.make_vec("dp_bench/PushT-v0", num_envs=args.num_envs, obs_type=args.obs_type, copy=False)
    random = np.random.default_rng(0)
    envs.reset(seed=0)
    n_steps, n_episodes, best = 0, 0, np.zeros(args.num_envs)
    scores: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        # a policy would choose them by the observations, which `reset` and `step` return first
        actions = random.uniform(0, 512, (args.num_envs, 2)).astype(np.float32)
        _, rewards, terminated, truncated, _ = envs.step(actions)
        best = np.maximum(best, rewards)
        ended = terminated | truncated
        scores += best[ended].tolist()
        best[ended] = 0.0
        n_episodes += int(ended.sum())
        n_steps += args.num_envs
    elapsed = time.perf_counter() - begin
    print(f"{n_steps / elapsed:,.0f} steps/s in {args.num_envs} environments; {n_episodes} episodes ended")
    if scores:
        print(f"mean score of the random agent: {np.mean(scores):.3f}")


if __name__ == "__main__":
    main()
