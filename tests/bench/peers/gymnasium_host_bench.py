"""What gym_host.py adds to an environment's own loop, with gym-pusht: python gymnasium_host_bench.py [--steps 1500] [--rounds 5]

Needs gymnasium, numpy and gym-pusht. This program stands for dp_bench: it starts gym_host.py, asks for a step and an observation each time,
and reads both from shared memory. The own loop takes the same actions in this process. Prints the CPU time of a step in both, the median
of the rounds and their range, and the wall time of one and of two processes at once."""

import argparse
import json
import mmap
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import gymnasium
import gym_pusht  # noqa: F401, registers the environment
import numpy as np

HOST = pathlib.Path(__file__).resolve().parents[3] / "plugins/envs/gymnasium/gym_host.py"
REQUEST = struct.Struct("=IiiiQddQQQ")
ANSWER = struct.Struct("=i??xxdQ")
CREATE, RESET, STEP, OBSERVE, QUIT = 1, 2, 3, 4, 15
SIZE = 1 << 21
BULK = 1 << 20


class Hosted:
    """One environment behind gym_host.py."""

    def __init__(self, kwargs):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.memfd_create("bench")
        os.ftruncate(fd, SIZE)
        self.memory = mmap.mmap(fd, SIZE)
        arguments = [sys.executable, str(HOST), str(theirs.fileno()), str(fd), str(os.getpid())]
        self.process = subprocess.Popen(arguments, pass_fds=(theirs.fileno(), fd))
        theirs.close()
        wanted = {"id": "gym_pusht/PushT-v0", "kwargs": kwargs, "obs": {}, "success": "is_success",
                  "max_steps": None, "control_hz": None}
        text = json.dumps(wanted).encode()
        self.memory[: len(text)] = text
        self.ask(CREATE, size=len(text))

    def ask(self, command, seed=0, size=0):
        self.channel.send(REQUEST.pack(command, 0, 0, 0, seed, 0.0, 0.0, size, BULK, SIZE))
        code, terminated, _, reward, length = ANSWER.unpack(self.channel.recv(ANSWER.size))
        if code != -1:
            raise RuntimeError(self.memory[BULK : BULK + length].decode())
        return terminated

    def reset(self, seed):
        self.ask(RESET, seed)

    def step(self, action):
        self.memory[:8] = action.tobytes()
        is_over = self.ask(STEP)
        self.ask(OBSERVE)
        return is_over

    def cpu_time(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()
        return int(fields[0]) * 1e-9

    def close(self):
        self.channel.send(REQUEST.pack(QUIT, 0, 0, 0, 0, 0.0, 0.0, 0, BULK, SIZE))
        self.process.wait()


class Own:
    """The environment in this process."""

    def __init__(self, kwargs):
        self.env = gymnasium.make("gym_pusht/PushT-v0", disable_env_checker=True, **kwargs)

    def reset(self, seed):
        self.env.reset(seed=seed)

    def step(self, action):
        _, _, terminated, truncated, _ = self.env.step(action)
        return terminated or truncated

    def cpu_time(self):
        return time.thread_time()


def play(env, actions):
    """The CPU time of a step [s]; episodes that end begin again."""
    seed = 0
    env.reset(seed)
    begin = env.cpu_time()
    for action in actions:
        if env.step(action):
            seed += 1
            env.reset(seed)
    return (env.cpu_time() - begin) / len(actions)


def wall_time(envs, actions):
    """Of all envs at once [s]."""
    threads = [threading.Thread(target=play, args=(env, actions)) for env in envs]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    actions = np.random.default_rng(0).uniform(0, 512, (options.steps, 2)).astype(np.float32)
    for obs_type in ("state", "pixels_agent_pos"):
        kwargs = {"obs_type": obs_type}
        own, hosted, second = Own(kwargs), Hosted(kwargs), Hosted(kwargs)
        rows = [(play(own, actions), play(hosted, actions)) for _ in range(options.rounds)]
        ratios = [theirs / ours for ours, theirs in rows]
        gains = [2 * wall_time([hosted], actions) / wall_time([hosted, second], actions) for _ in range(options.rounds)]
        us = [statistics.median(column) * 1e6 for column in zip(*rows)]
        print(f"{obs_type}: own loop {us[0]:.0f} us, hosted {us[1]:.0f} us a step; "
              f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}); "
              f"two processes {statistics.median(gains):.2f} x ({min(gains):.2f}-{max(gains):.2f})", flush=True)
        hosted.close()
        second.close()


if __name__ == "__main__":
    main()
