#!/usr/bin/env python3
"""Writes demonstrations of the env point_mass in an HDF5 file with robomimic's layout.

    python3 make_demonstrations.py demonstrations.hdf5 --episodes 100 --image-size 32

Needs h5py and numpy. The layout: https://robomimic.github.io/docs/datasets/overview.html
"""

import argparse
import json

import h5py
import numpy as np

CONTROL_HZ = 10.0
GOAL_RADIUS = 0.1  # [m]


def draw(position, goal, size):
    """The picture of the env: mass blue, goal green, uint8 [size, size, 3]."""
    centres = (np.arange(size) + 0.5) / size * 2.0 - 1.0
    x, y = np.meshgrid(centres, centres)
    picture = np.full((size, size, 3), 255, np.uint8)
    picture[np.hypot(x - goal[0], y - goal[1]) < GOAL_RADIUS] = (60, 180, 90)
    picture[np.hypot(x - position[0], y - position[1]) < GOAL_RADIUS] = (60, 90, 220)
    return picture


def episode(random, size):
    """An expert moves the mass to the goal: its arrays by path, one row for each step."""
    position, goal = random.uniform(-0.9, 0.9, (2, 2))
    velocity = np.zeros(2)
    stiffness = random.uniform(1.5, 2.5)
    rows = {name: [] for name in ("actions", "rewards", "dones", "obs/agent_pos", "obs/goal", "obs/image")}
    is_done = False
    while not is_done and len(rows["actions"]) < 100:
        rows["obs/agent_pos"].append(position)
        rows["obs/goal"].append(goal)
        rows["obs/image"].append(draw(position, goal, size))
        action = np.clip(stiffness * (goal - position) - 2.0 * velocity, -1.0, 1.0)
        velocity = velocity + (action - velocity) / CONTROL_HZ
        position = np.clip(position + velocity / CONTROL_HZ, -1.0, 1.0)
        is_done = np.hypot(*(position - goal)) < GOAL_RADIUS
        rows["actions"].append(action)
        rows["rewards"].append(float(is_done))
        rows["dones"].append(int(is_done))
    return {name: np.array(values) for name, values in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    random = np.random.default_rng(options.seed)
    names = [f"demo_{i}" for i in range(options.episodes)]
    with h5py.File(options.output, "w") as file:
        data = file.create_group("data")
        for name in names:
            demo = data.create_group(name)
            arrays = episode(random, options.image_size)
            for path, values in arrays.items():
                demo.create_dataset(path, data=values, compression="gzip" if path == "obs/image" else None)
            demo.attrs["num_samples"] = len(arrays["actions"])
        data.attrs["total"] = sum(data[name].attrs["num_samples"] for name in names)
        data.attrs["env_args"] = json.dumps({"env_name": "point_mass", "env_kwargs": {"control_freq": CONTROL_HZ}})
        n_valid = max(1, options.episodes // 10)
        file["mask/train"] = np.array(names[n_valid:] or names, dtype="S")
        file["mask/valid"] = np.array(names[:n_valid], dtype="S")


if __name__ == "__main__":
    main()
