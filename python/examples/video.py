"""Records a video of an episode of PushT in which a simple rule pushes the block; needs `pip install imageio`.

python python/examples/video.py [--seed 3] [--output pusht.gif]
"""

import argparse

import gymnasium
import numpy as np

import dp_bench  # noqa: F401 (registers the environment)


def push_towards_goal(info: dict[str, np.ndarray]) -> np.ndarray:
    """A target behind the block as seen from the goal; close to that place, the goal itself."""
    block, goal, agent = info["block_pose"][:2], info["goal_pose"][:2], info["pos_agent"]
    away = (block - goal) / max(float(np.linalg.norm(block - goal)), 1e-6)
    behind = block + 90.0 * away
    is_behind = float(np.dot(agent - block, away)) > 40.0
    return np.clip(goal if is_behind else behind, 0, 512).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--output", default="pusht.gif")
    args = parser.parse_args()
    env = gymnasium.make("dp_bench/PushT-v0", visualization_width=256, visualization_height=256)
    _, info = env.reset(seed=args.seed)
    frames, done = [env.render()], False
    while not done:
        _, _, terminated, truncated, info = env.step(push_towards_goal(info))
        frames.append(env.render())
        done = terminated or truncated or len(frames) > 150

    import imageio.v3 as imageio

    imageio.imwrite(args.output, frames, duration=100, loop=0)
    print(f"{args.output}: {len(frames)} frames, coverage at the end {info['coverage']:.2f}")


if __name__ == "__main__":
    main()
