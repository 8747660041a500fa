"""Plays PushT with random actions.

python python/examples/random_rollout.py [--episodes 3]
"""

import argparse

import gymnasium

import dp_bench  # noqa: F401 (registers the environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=3)
    args = parser.parse_args()

    env = gymnasium.make("dp_bench/PushT-v0")
    env.action_space.seed(0)
    for seed in range(args.episodes):
        state, info = env.reset(seed=seed)
        print(f"seed {seed}: the block starts at {state[2:4].round(1)}, turned by {state[4]:.2f} rad")
        best, done, steps = 0.0, False, 0
        while not done:
            state, reward, terminated, truncated, info = env.step(env.action_space.sample())
            best, done, steps = max(best, reward), terminated or truncated, steps + 1
        print(f"  score {best:.3f} after {steps} steps, success: {info['is_success']}")


if __name__ == "__main__":
    main()
