"""gym-pusht with images on one core, in CPU time: the peer's side of pusht_render_bench.

    python tests/bench/peers/pusht_render_bench.py [--seconds 5]
"""

import argparse
import statistics
import time

import gym_pusht.envs.pusht as peer
import numpy as np

MAX_STEPS = 300
REPETITIONS = 5


def images(env, rng, seconds):
    """Drawings of random states per second."""
    env._setup()
    count, begin = 0, time.process_time()
    while time.process_time() - begin < seconds:
        x, y, bx, by, angle = rng.uniform([50, 50, 100, 100, 0], [450, 450, 400, 400, 2 * np.pi])
        env.agent.position, env.block.angle, env.block.position = (x, y), angle, (bx, by)
        env.space.reindex_shapes_for_body(env.agent)
        env.space.reindex_shapes_for_body(env.block)
        env._render()
        count += 1
    return count / (time.process_time() - begin)


def steps(env, rng, seconds):
    """Env steps with a 96x96 observation per second, towards random targets."""
    count, begin, terminated, seed = 0, time.process_time(), True, 0
    while time.process_time() - begin < seconds:
        if terminated or count % MAX_STEPS == 0:
            env.reset(seed=seed)
            seed += 1
        terminated = env.step(rng.uniform(0, 512, 2))[2]
        count += 1
    return count / (time.process_time() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement, in all")
    seconds = parser.parse_args().seconds / REPETITIONS
    env, rng = peer.PushTEnv(obs_type="pixels"), np.random.default_rng(1)
    for name, measure in (("observation", images), ("step and observation", steps)):
        rates = [measure(env, rng, seconds) for _ in range(REPETITIONS)]
        rate = statistics.median(rates)
        print(f"{name}: {rate:.0f} per second ({1e6 / rate:.1f} us), "
              f"{min(rates):.0f} to {max(rates):.0f} in {REPETITIONS} runs")


if __name__ == "__main__":
    main()
