"""Meta-World's environment in a plain loop of Python, and as an env of dp_bench, which runs it in a process of its own."""

import sys

import metaworld
import numpy as np

CPU_ONLY = True
TITLE = "Meta-World reach-v3, state, one core"
PACKAGES = ("metaworld", "mujoco")
OURS = {"": ["env", "--env", "metaworld", "--task", "reach-v3", f"env.params.python={sys.executable}"]}
N_STEPS = 400


def cases(program):
    benchmark = metaworld.MT1("reach-v3")
    env = benchmark.train_classes["reach-v3"]()
    env.set_task(benchmark.train_tasks[0])
    rng = np.random.default_rng(0)

    def episode():
        env.reset()
        for step in range(N_STEPS):
            if step % 10 == 0:
                action = rng.uniform(env.action_space.low, env.action_space.high)
            env.step(action)
        return N_STEPS

    return {"env step with observations": {"": episode}}
