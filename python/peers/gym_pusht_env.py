"""gym-pusht's environment: uniform targets, each held for ten steps, and the state as observation."""

import gym_pusht.envs.pusht as peer
import numpy as np

CPU_ONLY = True
TITLE = "PushT environment, state, one core"
PACKAGES = ("gym-pusht", "pymunk")
OURS = {"": ["env", "--env", "pusht"]}
N_STEPS = 300


def cases(program):
    env = peer.PushTEnv(obs_type="state")
    rng = np.random.default_rng(0)
    seeds = iter(range(1_000_000))

    def episode():
        env.reset(seed=next(seeds))
        for step in range(N_STEPS):
            if step % 10 == 0:
                target = rng.uniform(0, 512, 2)
            if env.step(target)[2]:
                return step + 1
        return N_STEPS

    return {"env step with observations": {"": episode}}
