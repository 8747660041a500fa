"""A small Gymnasium environment for tests. `faults` plans what breaks at the fifth step of a seed: {"100001": "exit"},
or, as "render", whenever it draws.
With `has_hidden_state`, the third observation depends on the number of resets before. `sleepers`: it starts processes that sleep
so many seconds and would outlive it."""

import multiprocessing
import os
import signal
import subprocess
import time

import gymnasium
import numpy as np


class Faulty(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, faults=None, has_hidden_state=False, sleepers=0, render_mode=None):
        self.faults = faults or {}
        self.has_hidden_state = has_hidden_state
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Dict({
            "pos": gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "cameras": gymnasium.spaces.Dict({"top": gymnasium.spaces.Box(0, 255, (8, 6, 3), np.uint8)}),
        })
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.n_resets = 0
        if sleepers:
            start_sleepers(str(sleepers))

    def observe(self):
        image = np.full((8, 6, 3), int(abs(self.pos[0]) * 40) % 256, np.uint8)
        return {"pos": self.pos.copy(), "cameras": {"top": image}}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.t = seed, 0
        self.pos = self.np_random.uniform(-1, 1, 2)
        self.n_resets += 1
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        self.pos = self.pos + 0.1 * action
        observation = self.observe()
        if self.t == 5:
            self.break_down(self.faults.get(str(self.seed)), observation)
        if self.has_hidden_state and self.t == 3:
            observation["pos"][0] += self.n_resets
        distance = float(np.hypot(*self.pos))
        return observation, -distance, distance < 0.05, False, {"is_success": distance < 0.05}

    def break_down(self, kind, observation):
        if kind == "exception":
            raise ValueError("the gripper is gone")
        if kind == "exit":
            os._exit(3)
        if kind == "hang":
            time.sleep(3600)
        if kind == "memory":
            self.hoard = np.ones(1 << 27)  # 1 GiB
            time.sleep(3600)
        if kind == "nan":
            observation["pos"][1] = np.nan
        if kind == "shape":
            observation["pos"] = np.zeros(3)

    def render(self):
        if self.faults.get(str(self.seed)) == "render":
            os._exit(3)
        return np.full((16, 12, 3), 100, np.uint8)


def start_sleepers(seconds):
    subprocess.Popen(["sleep", seconds])
    subprocess.Popen(["sleep", seconds], start_new_session=True)
    subprocess.Popen(["sh", "-c", f"(setsid sleep {seconds} &) ; sleep {seconds}"])  # an orphan, and a grandchild
    multiprocessing.get_context("spawn").Process(target=os.system, args=(f"sleep {seconds}",), daemon=True).start()
    if os.fork() == 0:  # a daemon, as of a server
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", seconds])
        os._exit(0)


class Homing:
    """An expert: to the origin."""

    def get_action(self, observation):
        return -10.0 * observation["pos"]


def homing(observation):
    return Homing().get_action(observation)


def too_short(observation):
    return [0.0]


gymnasium.register("Faulty-v0", entry_point=Faulty, max_episode_steps=20)
