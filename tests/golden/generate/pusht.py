"""Reference numbers for the env plugin `pusht`, from numpy and gym-pusht (pymunk).

Writes tests/golden/pusht.safetensors:
  random.<seed>     float64 [12]: RandomState(seed): randint(50, 450) x2, randint(100, 400) x2,
                    randint(0, 2**32) x1, randint(7, 8) x1, random_sample x2, randn x4
  start.<legacy>    float64 [n, 5]: agent and block pose after diffusion_policy's reset with seed i
  push_<seed>.action     float32 [t, 2]  actions after diffusion_policy's reset with this seed ...
  push_<seed>.state      float64 [t, 5]  ... the peer's agent and block pose after each of them ...
  push_<seed>.coverage   float64 [t]     ... and its coverage
  wall_release      float64 [n, 31, 3]  block poses while walls push it out, substep by substep
Run: python tests/golden/generate/pusht.py   (gym-pusht 0.1.8, pymunk 6.11.1, numpy 1.26 or newer)
"""

import pathlib
from importlib import metadata

import gym_pusht.envs.pusht as peer
import numpy as np
import pymunk
from safetensors.numpy import save_file

SEEDS = [0, 1, 42, 100000, 2**32 - 1]
WIDE_SEED = 5 * 2**32 + 17  # [17, 5] for numpy
N_STARTS = 40
TRACE_SEEDS = [0, 2, 3, 14]


def draws(state):
    return np.array(
        [state.randint(50, 450) for _ in range(2)]
        + [state.randint(100, 400) for _ in range(2)]
        + [state.randint(0, 2**32), state.randint(7, 8)]
        + [state.random_sample() for _ in range(2)]
        + [state.randn() for _ in range(4)],
        dtype=np.float64,
    )


def pose(env):
    return [*env.agent.position, *env.block.position, env.block.angle]


def reset(seed, legacy):
    """diffusion_policy's PushTEnv.reset on gym-pusht's world."""
    state = np.random.RandomState(seed)
    agent = [state.randint(50, 450), state.randint(50, 450)]
    block = [state.randint(100, 400), state.randint(100, 400)]
    angle = state.randn() * 2 * np.pi - np.pi
    env = peer.PushTEnv()
    env._setup()
    env.agent.position = agent
    if legacy:
        env.block.position = block
        env.block.angle = angle
    else:
        env.block.angle = angle
        env.block.position = block
    env.space.step(0.01)
    return env


def touches_wall(env):
    corners = [env.block.local_to_world(v) for s in env.block.shapes for v in s.get_vertices()]
    return np.min(corners) < 7 or np.max(corners) > 504


def trace(seed, targets):
    """Plays targets given as functions of the env until the block reaches a wall; returns actions,
    poses, coverages."""
    env = reset(seed, legacy=True)
    actions, states, coverages = [], [], []
    for target in targets:
        action = np.asarray(target(env), np.float32)
        coverage = env.step(action.astype(np.float64))[4]["coverage"]
        if touches_wall(env):
            break
        coverages.append(coverage)
        actions.append(action)
        states.append(pose(env))
    return np.array(actions), np.array(states), np.array(coverages)


def pushes(seed):
    """Walks around the block at the pace of the demonstrations and pushes it from changing sides,
    towards the middle when it is far from there."""
    rng = np.random.RandomState(seed)

    def target(env):
        cog = np.array(env.block.local_to_world((0, 45)))
        if not hasattr(env, "aims") or not env.aims:
            out = cog - 256
            angle = rng.uniform(-np.pi, np.pi)
            if np.linalg.norm(out) > 60:
                angle = np.arctan2(out[1], out[0]) + rng.uniform(-0.5, 0.5)
            side = np.array([np.cos(angle), np.sin(angle)])
            offset = rng.uniform(-60, 60) * np.array([-side[1], side[0]])
            env.aims = [cog + 110 * side, cog + offset + 110 * side, cog + offset - 40 * side]
        way = env.aims[0] - np.array(env.agent.position)
        if np.linalg.norm(way) < 8:
            env.aims.pop(0)
        return np.array(env.agent.position) + way * min(1, 30 / np.linalg.norm(way))

    return [target] * 150


def wall_release(seed):
    """A block set into a wall, and the 30 substeps in which it is pushed out. Returns [31, 3]."""
    rng = np.random.RandomState(seed)
    env = peer.PushTEnv()
    env._setup()
    env.agent.position = (256, 256)
    env.block.angle = rng.uniform(-np.pi, np.pi)
    env.block.position = (0, 0)
    corners = [env.block.local_to_world(v) for s in env.block.shapes for v in s.get_vertices()]
    low = np.min(corners, axis=0)
    high = np.max(corners, axis=0)
    # x: up to 6 px deep in the left or right wall; y: the same for every third seed, else free
    depth = rng.uniform(0, 6, 2)
    x = [7 - depth[0] - low[0], 504 + depth[0] - high[0]][seed % 2]
    y = 7 - depth[1] - low[1] if seed % 3 == 0 else 256 - low[1]
    env.block.position = (x, y)
    poses = [[*env.block.position, env.block.angle]]
    for _ in range(30):
        env.space.step(0.01)
        poses.append([*env.block.position, env.block.angle])
    return np.array(poses)


def main():
    tensors = {f"random.{seed}": draws(np.random.RandomState(seed)) for seed in SEEDS}
    tensors[f"random.{WIDE_SEED}"] = draws(np.random.RandomState([17, 5]))
    for legacy in (False, True):
        tensors[f"start.{str(legacy).lower()}"] = np.array(
            [pose(reset(seed, legacy)) for seed in range(N_STARTS)]
        )
    traces = {f"push_{seed}": trace(seed, pushes(seed)) for seed in TRACE_SEEDS}
    for name, (action, state, coverage) in traces.items():
        tensors[f"{name}.action"] = action
        tensors[f"{name}.state"] = state
        tensors[f"{name}.coverage"] = coverage
    tensors["wall_release"] = np.array([wall_release(seed) for seed in range(12)])
    path = pathlib.Path(__file__).parents[1] / "pusht.safetensors"
    versions = {"numpy": np.__version__, "pymunk": pymunk.version, "gym_pusht": metadata.version("gym-pusht")}
    save_file(tensors, str(path), versions)
    path.chmod(0o644)
    for name in traces:
        print(name, "moved", np.abs(np.diff(tensors[f"{name}.state"][:, 2:4], axis=0)).sum())


if __name__ == "__main__":
    main()
