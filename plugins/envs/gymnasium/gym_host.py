"""Runs one Gymnasium environment for the env plugin `gymnasium`.

The plugin starts this file with the interpreter of `env.params.python`, which needs gymnasium and numpy only:

    gym_host.py SOCKET MEMORY PARENT      two inherited descriptors, and the id of the process that started it

It speaks the protocol of harness/src/plugin/env_message.h: fixed-size requests and answers over the socket, arrays in
shared memory in the layout of harness/src/plugin/shared_memory.h. By hand:

    gym_host.py --spaces ID [KWARGS]      prints the spaces and a proposal for the mapping, as JSON
"""

import ctypes
import json
import math
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, OWN_FOLDER)
sys.dont_write_bytecode, writes_bytecode = True, sys.dont_write_bytecode  # not beside the plugins
try:
    import numpy as np
    from gym_parts import CONFIG, ENV, FLOAT32, LOW_DIM, HostError, dotted, keys_of, parts_of, proposal, short, space_of, undeclared
    from gym_success import Success, flag, note, reward_of
    from gym_world import Expert, World, draw_without_display, filled, make_env, versions

    missing = None
except ModuleNotFoundError as error:  # it is the answer to every request
    missing = f"params.python: {sys.executable} has no module '{error.name}'; its environment needs gymnasium and the env's package"
sys.dont_write_bytecode = writes_bytecode
sys.path.remove(OWN_FOLDER)

REQUEST = struct.Struct("=IiiiQddQQQ")
ANSWER = struct.Struct("=i???xdQ")
METRICS = struct.Struct("=ddd")
QUIT, DESCRIBE, CREATE, RESET, STEP, OBSERVE, RENDER = range(7)
BEGIN, ACT = 9, 10
NO_ERROR, CONFIG_ERROR = -1, 1
LAST = 2  # Aggregate
ALIGNMENT = 64
MAX_TEXT = 64 << 10
EAGER_S = 200e-6  # how long to look for the next request before sleeping: steps follow each other at once
PR_SET_PDEATHSIG = 1


class Host:
    """One environment, and the memory that it shares with dp_bench."""

    def __init__(self, memory_fd):
        self.memory_fd = memory_fd
        self.memory = None
        self.action = None  # views of the memory
        self.world = None
        self.success = None
        self.is_created = False
        self.is_running = False  # between reset and the end of the episode

    def handle(self, request):
        """The packet that answers one request. Every exception becomes an answer too."""
        output = request[8]
        if missing:
            self.map_memory(request[9])
            return self.failure(output, CONFIG_ERROR, missing)
        try:
            self.map_memory(request[9])
            return self.step(output) if request[0] == STEP else self.execute(request)
        except HostError as error:
            return self.failure(output, error.code, str(error))
        except Exception as error:  # of the environment; its traceback goes to the log
            traceback.print_exc()
            sys.stderr.flush()
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
            text = f"{type(error).__name__}: {str(error) or frames[-1].line} ({place})"
            return self.failure(output, ENV, text if self.is_created else f"{text}, with {versions(frames)}")

    def map_memory(self, size):
        if self.memory is None or len(self.memory) < size:
            self.memory = mmap.mmap(self.memory_fd, size)
            self.action = None
        if self.action is None and self.is_created:
            self.view_memory()

    def execute(self, request):
        command, _, width, height, seed, _, _, input_size, output, _ = request
        if command in (DESCRIBE, CREATE):
            return self.answer(size=self.put(output, json.dumps(self.start(input_size, command == DESCRIBE)).encode()))
        if command == RESET:
            self.reset(seed)
            return self.answer(has_observation=not self.has_cameras)
        if not self.is_begun:
            raise HostError(ENV, "expected Reset first, found no episode")
        if command == BEGIN and self.expert:
            self.expert.begin(self.values["observation"], self.values["info"])
        elif command == ACT and self.expert:
            self.put(output, self.expert_action())
        elif command == RENDER:
            self.put(output, self.world.frame(width, height))
        elif command == OBSERVE:  # other observations are there since the last Reset or Step
            self.observe(is_of_cameras=True)
        else:
            raise HostError(ENV, f"expected a call that a Gymnasium environment has, found command {command}")
        return self.answer()

    @staticmethod
    def answer(is_over=False, success=False, has_observation=False, reward=0.0, size=0, code=NO_ERROR):
        return ANSWER.pack(code, is_over, success, has_observation, reward, size)

    def failure(self, output, code, text):
        encoded = text.encode(errors="replace")[:MAX_TEXT]
        return self.answer(code=code, size=self.put(output, encoded))

    def expert_action(self):
        action = np.asarray(self.expert.action(self.values["observation"], self.values["info"]), np.float32).ravel()
        if action.size != self.action_size or not np.isfinite(action).all():
            raise HostError(ENV, f"expected {self.action_size} finite numbers from the expert, found {action.tolist()}")
        return np.clip(action, self.world.low, self.world.high).astype(np.float32)

    def observe(self, is_of_cameras):
        """Puts keys where dp_bench reads them. It asks for what cameras see, because a policy observes only a few steps."""
        for view, key in zip(self.obs_views, self.keys):
            if key.source != "camera":
                key.write(self.values[key.source], view)
            elif is_of_cameras:
                key.write(self.world.image(key.camera, *key.size), view)

    def put(self, offset, data):
        data = memoryview(data).cast("B")
        self.memory[offset : offset + len(data)] = data
        return len(data)

    def start(self, input_size, is_description):
        """Makes the environment that the request describes; returns an EnvOffer."""
        wanted = json.loads(self.memory[:input_size])
        wanted = filled(wanted, wanted.get("task", ""))
        self.world = World(wanted)
        self.action_size = len(self.world.bounds)
        self.keys = keys_of({"observation": self.world.env.observation_space, "info": self.info_space(wanted)}, wanted["obs"])
        self.has_cameras = any(key.source == "camera" for key in self.keys)
        self.success = Success(wanted["success"], wanted.get("success_hold", 1), wanted.get("success_when", "any"))
        self.expert = Expert(wanted, self.world) if wanted["expert"] or wanted.get("experts") else None
        self.is_begun = False
        self.sum_of_rewards = None
        self.lay_out()
        self.is_created = True
        if is_description:
            self.tell_doubts()
        return {"params": "{}", "spec": self.spec(wanted)}

    def info_space(self, wanted):
        is_read = any(part.get("source") == "info" for part in wanted["obs"].values())
        return space_of(self.world.reset(0)[1]) if is_read else None

    def tell_doubts(self):
        if self.world.why_blind:
            note("videos", f"there are no videos, because the environment draws no images: {self.world.why_blind}")
        for key in self.keys:
            if key.is_doubtful:
                note(key.name, f"'{key.name}' is {key.found}, and read as numbers. {key.if_meant_otherwise}")

    def spec(self, wanted):
        max_steps, control_hz = self.world.max_steps(), self.world.control_hz()
        told = (("max_steps", max_steps), ("control_hz", control_hz))
        missing = [f"params.{name}" for name, value in told if not value or not math.isfinite(value)]
        if missing:
            raise HostError(CONFIG, f"{' and '.join(missing)}: expected a number, because the environment does not tell it; found none")
        self.max_steps = int(max_steps)
        last = ("last_reward", "sum_of_rewards", "success_at_end")
        return {
            "shape_meta": {
                "obs": [key.spec for key in self.keys],
                "action": {"name": "action", "type": LOW_DIM, "shape": [self.action_size], "dtype": FLOAT32},
            },
            "action_low": self.world.low.tolist(),
            "action_high": self.world.high.tolist(),
            "control_hz": float(control_hz),
            "max_steps": self.max_steps,
            "metrics": [{"name": name, "aggregate": LAST} for name in last],
            "moves_without_actions": wanted["moves_without_actions"],
            "tasks": wanted.get("tasks", []),
            "obs_modes": [],
            "instruction": wanted["instruction"] or str(getattr(self.world.core, "task_description", "")),
            "perturbations": [],
            "abilities": {"has_expert": self.expert is not None},
        }

    def lay_out(self):
        """As LayOut in shared_memory.cc, without a state."""

        def aligned(size):
            return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

        end = aligned(4 * self.action_size)
        self.obs_offsets = []
        for key in self.keys:
            self.obs_offsets.append(end)
            end += aligned(key.n_bytes)

    def view_memory(self):
        """Arrays over the shared memory: action and observations."""

        def view(dtype, shape, offset):
            return np.frombuffer(self.memory, dtype, int(np.prod(shape)), offset).reshape(shape)

        self.action = view(np.float32, (self.action_size,), 0)
        self.obs_views = [view(key.dtype, key.storage_shape, offset) for offset, key in zip(self.obs_offsets, self.keys)]

    def reset(self, seed):
        self.is_running = self.is_begun = False
        self.success.end(is_cut=True)
        result = self.world.reset(seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise HostError(ENV, f"expected (observation, info) from reset, found {short(result)}")
        self.values = dict(zip(("observation", "info"), result))
        if self.sum_of_rewards is None:
            extra = [dotted(path) for path in undeclared(self.world.env.observation_space, result[0])]
            if extra:
                note("space", f"observations hold {extra}, which the observation space does not have; they are not read")
        self.success.begin()
        self.sum_of_rewards = 0.0
        self.n_steps = 0
        self.observe(is_of_cameras=False)
        self.is_running = self.is_begun = True

    def close(self):
        if self.success is not None:
            self.success.end(is_cut=True)
        if self.world is not None:
            self.world.env.close()

    def step(self, output):
        if not self.is_running:
            raise HostError(ENV, "Step before Reset, or after the episode ended; call Reset")
        result = self.world.step(self.world.clip(self.action.tolist()))
        if not isinstance(result, tuple) or len(result) != 5:
            raise HostError(ENV, f"expected (observation, reward, terminated, truncated, info) from step, found {short(result)}")
        self.values["observation"], reward, terminated, truncated, info = result
        self.values["info"] = info
        reward = reward_of(reward)
        terminated = flag(terminated, "terminated")
        truncated = flag(truncated, "truncated")
        self.observe(is_of_cameras=False)
        self.sum_of_rewards += reward
        has_success = self.success.holds(reward, self.sum_of_rewards, terminated, info)
        METRICS.pack_into(self.memory, output, reward, self.sum_of_rewards, has_success)
        self.n_steps += 1
        # dp_bench itself ends an episode after max_steps, and then calls it a timeout
        is_over = terminated or (truncated and self.n_steps < self.max_steps)
        is_last = is_over or self.n_steps == self.max_steps
        if is_last:
            self.success.end()
        self.is_running = not is_over
        success = has_success and (is_last or self.success.when == "any")
        return self.answer(is_over, success, not self.has_cameras, reward, METRICS.size)


def end_with_host(channel, parent):
    """Ends this process with the one that started it, even if the environment hangs."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

    def watch():
        poll = select.poll()
        poll.register(channel, 0)  # reports only that the other end was closed
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def close_others(kept):
    """Closes the other files that were inherited, such as logs."""
    first = 3
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
        os.set_inheritable(number, False)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


class Requests:
    """Waits for requests. To sleep and be woken takes as long as a tenth of a fast step, so a request that is likely to come at
    once, as the last one did, is looked for without sleeping."""

    def __init__(self, channel):
        self.channel = channel
        self.is_eager = False

    def next(self):
        begin = time.perf_counter()
        packet = self.look(begin + EAGER_S) if self.is_eager else None
        packet = self.channel.recv(REQUEST.size) if packet is None else packet
        self.is_eager = time.perf_counter() < begin + EAGER_S
        return packet

    def look(self, end):
        while time.perf_counter() < end:
            try:
                return self.channel.recv(REQUEST.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
        return None


def serve(socket_fd, memory_fd, parent):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # dp_bench decides when to stop
    os.dup2(2, 1)  # what the environment prints is not a result of dp_bench
    channel = socket.socket(fileno=socket_fd)
    end_with_host(channel, parent)
    host = Host(memory_fd)
    requests = Requests(channel)
    while True:
        packet = requests.next()
        if len(packet) != REQUEST.size:
            return
        request = REQUEST.unpack(packet)
        if request[0] == QUIT:
            host.close()
            return
        channel.send(host.handle(request))


def print_spaces(env_id, kwargs):
    env, _ = make_env({"id": env_id, "kwargs": kwargs})
    parts = {dotted(path): f"{space}" for path, space in parts_of(env.observation_space)}
    print(json.dumps({"observation": parts, "action": str(env.action_space), "obs": proposal(env.observation_space)}, indent=2))


def main(arguments):
    if not missing:
        draw_without_display()
    if not getattr(sys.flags, "safe_path", False):
        try:
            sys.path[0] = os.getcwd()  # as `python -m`: modules beside the user's files are found
        except FileNotFoundError:  # the folder was removed
            pass
    if missing and len(arguments) != 3:
        sys.exit(missing)
    if arguments[:1] == ["--spaces"] and len(arguments) in (2, 3):
        print_spaces(arguments[1], json.loads(arguments[2]) if len(arguments) == 3 else {})
    elif len(arguments) == 3:
        serve(*map(int, arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads of the environment must not keep the process
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3] if text.isdigit()]
    if len(numbers) == 2:
        close_others(numbers)
    main(sys.argv[1:])
