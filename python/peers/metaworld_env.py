"""Meta-World's environments in Python, and as envs of dp_bench, which runs each in a process of its own."""

import atexit
import pathlib
import subprocess
import sys
import tempfile
import time

import gymnasium
import metaworld
import numpy as np

CPU_ONLY = True
TITLE = "Meta-World reach-v3, state"
PACKAGES = ("metaworld", "mujoco", "gymnasium")
ONE, SEVERAL = "env step with observations", "env step with observations, 8 envs at once"
TASK = ["--env", "metaworld", "--task", "reach-v3", f"env.params.python={sys.executable}"]
N_STEPS = 400  # of an episode
N_ENVS = 8
FEW, MANY = 2 * N_ENVS, 6 * N_ENVS  # episodes


def make_env():
    env = metaworld.ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE["reach-v3-goal-observable"](seed=0)
    env._freeze_rand_vec = False
    return env


def rollouts(program):
    """With random actions: the difference of two runs, so that the start of the processes does not count."""

    def seconds(n_episodes):
        with tempfile.TemporaryDirectory() as folder:
            sizes = [f"env_runner.n_test={n_episodes}", f"env_runner.n_envs={N_ENVS}", "env_runner.n_videos=0"]
            command = [
                program,
                "eval",
                "--policy",
                "random",
                *TASK,
                *sizes,
                "--output",
                str(pathlib.Path(folder) / "run"),
            ]
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            return time.perf_counter() - start

    return {SEVERAL: 1e3 * (seconds(MANY) - seconds(FEW)) / (N_STEPS * (MANY - FEW))}


OURS = {"": ["env", *TASK], "eval": rollouts}


def cases(program):
    env = make_env()
    envs = gymnasium.vector.AsyncVectorEnv([make_env] * N_ENVS)
    atexit.register(envs.close)
    rng = np.random.default_rng(0)

    def episode(env, n_envs, shape):
        env.reset()
        for step in range(N_STEPS):
            if step % 10 == 0:
                action = rng.uniform(-1, 1, shape)
            env.step(action)
        return N_STEPS * n_envs

    return {
        ONE: {"": lambda: episode(env, 1, 4)},
        SEVERAL: {"": lambda: episode(envs, N_ENVS, (N_ENVS, 4))},
    }
