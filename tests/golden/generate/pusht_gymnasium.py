"""Reference numbers for the Python package dp_bench, from gym-pusht (pymunk).

Writes tests/golden/pusht_gymnasium.json:
  draws_sha256      SHA-256 of float64 [n_draws, 3]: agent x, y and angle of the block after reset(seed=row)
  reset_states      seed -> the observation "state" after reset(seed=seed)
  continued_states  observations of resets without a seed, after reset(seed=7)
  legacy_states     seed -> the same after diffusion_policy's reset: RandomState(seed), randint x4, randn
  traces            seed, actions [t, 2] and, after each of them, agent and block pose, corner 7 of the T, reward and
                    n_contacts, in episodes that touch no wall
Run: python tests/golden/generate/pusht_gymnasium.py   (gym-pusht 0.1.8, pymunk 6.11.1, numpy 2.4.6)
"""

import hashlib
import json
import pathlib

import gym_pusht.envs.pusht as peer
import numpy as np

N_DRAWS = 10_000
SEEDS = [*range(40), 42, 1000, 100_000, 4_300_000, 2**32 - 1]
TRACE_SEEDS = [3, 4, 6, 21]  # they keep away from the walls for long
TRACE_STEPS = 60


def draws(env):
    rows = np.empty((N_DRAWS, 3))
    for seed in range(N_DRAWS):
        env.reset(seed=seed)
        rows[seed] = [*env.agent.position, env.block.angle]
    return rows


def legacy_state(env, seed):
    random = np.random.RandomState(seed)
    start = [random.randint(50, 450), random.randint(50, 450), random.randint(100, 400), random.randint(100, 400)]
    return env.reset(options={"reset_to_state": [*start, random.randn() * 2 * np.pi - np.pi]})[0]


def touches_wall(env):
    corners = [env.block.local_to_world(v) for s in env.block.shapes for v in s.get_vertices()]
    return np.min(corners) < 7 or np.max(corners) > 504


def trace(env, seed):
    """Pushes the block towards the middle of the image from random sides."""
    env.reset(seed=seed)
    random = np.random.default_rng(seed)
    result = {"seed": seed, "actions": [], "states": [], "last_corners": [], "rewards": [], "n_contacts": []}
    for step in range(TRACE_STEPS):
        if step % 10 == 0:
            goal = np.array(env.block.position) + random.uniform(-60, 60, 2)
        action = np.asarray(goal + random.uniform(-10, 10, 2), np.float32).clip(0, 512)
        _, reward, terminated, _, info = env.step(action)
        if terminated or touches_wall(env):
            break
        result["actions"].append(action.tolist())
        result["states"].append([*info["pos_agent"].tolist(), *info["block_pose"].tolist()])
        result["last_corners"].append(env.get_keypoints(env._block_shapes)[7].tolist())
        result["rewards"].append(float(reward))
        result["n_contacts"].append(info["n_contacts"])
    return result


def main():
    env = peer.PushTEnv()
    golden = {
        "n_draws": N_DRAWS,
        "draws_sha256": hashlib.sha256(draws(env).tobytes()).hexdigest(),
        "reset_states": {seed: env.reset(seed=seed)[0].tolist() for seed in SEEDS},
        "legacy_states": {seed: legacy_state(env, seed).tolist() for seed in SEEDS},
        "traces": [trace(env, seed) for seed in TRACE_SEEDS],
    }
    env.reset(seed=7)
    golden["continued_states"] = [env.reset()[0].tolist() for _ in range(10)]
    path = pathlib.Path(__file__).parents[1] / "pusht_gymnasium.json"
    path.write_text(json.dumps(golden) + "\n")
    print(f"{path}: traces of {[len(t['actions']) for t in golden['traces']]} steps")


if __name__ == "__main__":
    main()
