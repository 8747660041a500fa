"""What gym_host.py adds to an environment's own loop, with gym-pusht: python gymnasium_host_bench.py [--steps 1500] [--rounds 5]

Needs gymnasium, numpy and gym-pusht. This program stands for dp_bench: it starts gym_host.py and asks for steps. The own loop takes the
same actions in this process. Prints the time of a step in both, the median of the rounds, their ratio, and how much faster two processes
are than one."""

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
REQUEST = struct.Struct("=IiiiQddQQQii")
ANSWER = struct.Struct("=i???xdQ")
CREATE, RESET, STEP, QUIT = 1, 2, 3, 15
SIZE = 1 << 21
BULK = 1 << 20
N_AHEAD = 8  # the steps of an action chunk, as in an evaluation with the shipped configs


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
                  "max_steps": None, "control_hz": None, "moves_without_actions": False, "instruction": None, "expert": None}
        text = json.dumps(wanted).encode()
        self.memory[: len(text)] = text
        self.ask(CREATE, size=len(text))

    def ask(self, command, seed=0, size=0, n_steps=1, first_observed=1):
        """The number of answers, and whether the last one ends the episode."""
        request = REQUEST.pack(command, 0, 0, 0, seed, 0.0, 0.0, size, BULK, SIZE, n_steps, first_observed)
        self.channel.send(request)
        answers = self.channel.recv(ANSWER.size * n_steps)
        code, terminated, _, _, _, length = ANSWER.unpack(answers[-ANSWER.size :])
        if code != -1:
            raise RuntimeError(self.memory[BULK : BULK + length].decode())
        return len(answers) // ANSWER.size, terminated

    def reset(self, seed):
        self.ask(RESET, seed)

    def steps(self, actions):
        data = actions.tobytes()
        self.memory[: len(data)] = data
        return self.ask(STEP, n_steps=len(actions), first_observed=len(actions) - 2)

    def cpu_time(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()
        return int(fields[0]) * 1e-9

    def close(self):
        self.channel.send(REQUEST.pack(QUIT, 0, 0, 0, 0, 0.0, 0.0, 0, BULK, SIZE, 1, 1))
        self.process.wait()


class Own:
    """The environment in this process."""

    def __init__(self, kwargs):
        self.env = gymnasium.make("gym_pusht/PushT-v0", disable_env_checker=True, **kwargs)

    def reset(self, seed):
        self.env.reset(seed=seed)

    def steps(self, actions):
        for number, action in enumerate(actions):
            _, _, terminated, truncated, _ = self.env.step(action)
            if terminated or truncated:
                return number + 1, True
        return len(actions), False

    def cpu_time(self):
        return time.thread_time()


def play(env, actions):
    """The wall time and the CPU time of a step [s]; episodes that end begin again."""
    seed = 0
    env.reset(seed)
    wall, cpu = time.perf_counter(), env.cpu_time()
    done = 0
    while done < len(actions):
        n_steps, is_over = env.steps(actions[done : done + N_AHEAD])
        done += n_steps
        if is_over:
            seed += 1
            env.reset(seed)
    return (time.perf_counter() - wall) / len(actions), (env.cpu_time() - cpu) / len(actions)


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
        rounds = [(play(own, actions), play(hosted, actions)) for _ in range(options.rounds)]
        gains = [2 * wall_time([hosted], actions) / wall_time([hosted, second], actions) for _ in range(options.rounds)]
        for kind, name in enumerate(("wall", "CPU")):
            ours, theirs = zip(*((own_times[kind], hosted_times[kind]) for own_times, hosted_times in rounds))
            ratios = sorted(b / a for a, b in zip(ours, theirs))
            middle = ratios[len(ratios) // 4 : len(ratios) - len(ratios) // 4]  # on a noisy machine the rest says little
            print(f"{obs_type}, {name} time of a step: own loop {statistics.median(ours) * 1e6:.0f} us, hosted "
                  f"{statistics.median(theirs) * 1e6:.0f} us; ratio {statistics.median(ratios):.3f} "
                  f"(middle half {middle[0]:.3f}-{middle[-1]:.3f}), of the fastest rounds {min(theirs) / min(ours):.3f}",
                  flush=True)
        print(f"{obs_type}: two processes {statistics.median(gains):.2f} x ({min(gains):.2f}-{max(gains):.2f})", flush=True)
        hosted.close()
        second.close()


if __name__ == "__main__":
    main()
