"""Runs one Gymnasium environment for the env plugin `gymnasium`.

The plugin starts this file with the interpreter of `env.params.python`, which needs gymnasium and numpy only:

    gym_host.py SOCKET MEMORY PARENT      two inherited descriptors, and the id of the process that started it

It speaks the protocol of harness/src/plugin/env_message.h: fixed-size requests and answers over the socket, arrays in
shared memory in the layout of harness/src/plugin/shared_memory.h. By hand:

    gym_host.py --spaces ID [KWARGS]      prints the spaces and a proposal for the mapping, as JSON
"""

import ctypes
import importlib
import json
import math
import mmap
import os
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import warnings

try:
    import gymnasium
except ModuleNotFoundError as error:
    sys.exit(f"params.python: {sys.executable} has no module '{error.name}'; its environment needs gymnasium and the env's package")
import numpy as np
from gymnasium import spaces

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, OWN_FOLDER)
sys.dont_write_bytecode, writes_bytecode = True, sys.dont_write_bytecode  # not beside the plugins
from gym_parts import CONFIG, ENV, FLOAT32, LOW_DIM, NUMERIC, PLUGIN, HostError, dotted, keys_of, parts_of, proposal, short, undeclared  # noqa: E402

sys.dont_write_bytecode = writes_bytecode
sys.path.remove(OWN_FOLDER)

REQUEST = struct.Struct("=IiiiQddQQQ")
ANSWER = struct.Struct("=i???xdQ")
METRICS = struct.Struct("=dd")
QUIT, DESCRIBE, CREATE, RESET, STEP, OBSERVE, RENDER = range(7)
BEGIN, ACT = 9, 10
NO_ERROR = -1
LAST = 2  # Aggregate
ALIGNMENT = 64
MAX_TEXT = 64 << 10
EAGER_S = 200e-6  # how long to look for the next request before sleeping: steps follow each other at once
PR_SET_PDEATHSIG = 1


def to_cbor(value):
    """The bytes of a JSON-like value in CBOR (RFC 8949), which keeps every bit of a number."""

    def head(kind, number):
        for size, form in ((23, None), (0xFF, ">BB"), (0xFFFF, ">BH"), (0xFFFFFFFF, ">BI"), (1 << 64, ">BQ")):
            if number <= size:
                break
        if form is None:
            return bytes([kind << 5 | number])
        return struct.pack(form, kind << 5 | {">BB": 24, ">BH": 25, ">BI": 26, ">BQ": 27}[form], number)

    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xFB, value)
    if isinstance(value, str):
        text = value.encode()
        return head(3, len(text)) + text
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(to_cbor, value))
    return head(5, len(value)) + b"".join(to_cbor(k) + to_cbor(v) for k, v in value.items())


def make_env(env_id, kwargs):
    """The environment of `id` or `module:id`, and why it draws no images, or None. A package gym_x is imported for its
    ids `gym_x/...`."""
    namespace = env_id.split("/")[0]
    if ":" not in env_id and "/" in env_id and namespace not in {spec.namespace for spec in gymnasium.registry.values()}:
        try:
            importlib.import_module(namespace)
        except ModuleNotFoundError as error:
            if error.name != namespace:
                raise
            raise HostError(
                CONFIG,
                f"params.id: expected a registered environment, found '{env_id}', and {sys.executable} has no module "
                f"'{namespace}'. Install its package there, or give module:id.",
            ) from None

    def make(**more):
        # the first steps of the checker would be slower than the others
        return gymnasium.make(env_id, disable_env_checker=True, **kwargs, **more)

    if kwargs.get("render_mode"):
        return make(), None
    if "render_mode" in kwargs:
        del kwargs["render_mode"]
        return make(), "kwargs.render_mode is null"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*render_mode.*")  # said below
            return make(render_mode="rgb_array"), None
    except Exception as error:  # a class may not take render_mode, or not this one
        cause = error.__cause__ or error
        if "render" not in f"{cause} {traceback.extract_tb(cause.__traceback__)[-1].line}":
            raise
        try:
            return make(), f"its class does not take render_mode='rgb_array' ({type(cause).__name__}: {cause})"
        except Exception:
            raise error from None


def plain(value):
    """The Python value of a numpy number, or of an array or a tensor that holds one."""
    try:
        return value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return value


def flag(value, name):
    """A truth value: true, false, or exactly 0 or 1. NaN, None and texts are not."""
    if value is True or value is False:
        return value
    found = plain(value)
    if isinstance(found, (bool, int, float)) and found in (0, 1):
        return bool(found)
    raise HostError(ENV, f"expected True, False, 0 or 1 as {name}, found {short(value)}")


def reward_of(value):
    found = value if type(value) is float else plain(value)
    if not isinstance(found, (bool, int, float)):
        raise HostError(ENV, f"expected a number as reward, found {short(value)}")
    if not -sys.float_info.max <= found <= sys.float_info.max:
        raise HostError(NUMERIC, f"expected a finite reward, found {short(value)}")
    return float(found)


class Success:
    """`params.success`: 'terminated', 'reward>=X', or a key of info, which may be there in some steps only."""

    def __init__(self, rule):
        self.rule = rule
        self.is_told = False
        threshold = re.fullmatch(r"reward>=(.+)", rule)
        try:
            self.threshold = float(threshold[1]) if threshold else None
        except ValueError:
            self.threshold = math.nan
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise HostError(CONFIG, f"params.success: expected a number after reward>=, found '{rule}'")
        self.begin()

    def begin(self):
        self.is_given = self.rule == "terminated" or self.threshold is not None  # in this episode
        self.n_steps = 0
        self.names = []

    def holds(self, reward, terminated, info):
        self.n_steps += 1
        if self.rule == "terminated":
            return terminated
        if self.threshold is not None:
            return reward >= self.threshold
        if not isinstance(info, dict):
            raise HostError(ENV, f"expected a dict as info, found {short(info)}")
        if self.rule not in info:
            self.names = sorted(map(str, info))
            return False
        self.is_given = True
        return flag(info[self.rule], f"info['{self.rule}']")

    def end(self, tells):
        """At the end of an episode. That its key never came may be right: some environments give it on success only."""
        if self.is_given:
            return
        text = f"params.success: expected the key '{self.rule}' in info, found {self.names} and no such key in {self.n_steps} steps"
        advice = "Give another key, 'terminated' or 'reward>=X'."
        if any("success" in name.lower() for name in self.names):
            raise HostError(ENV, f"{text}. {advice}")
        if tells and not self.is_told:
            note(f"{text}. The episode counts as a failure. If the environment never gives the key: {advice}")
            self.is_told = True


def note(text):
    print(f"gymnasium: note: {text}", file=sys.stderr, flush=True)


class Expert:
    """`params.expert`: 'module:name' of a class with get_action(observation), made for every episode, or of a function of
    the observation."""

    def __init__(self, name):
        module, _, path = name.partition(":")
        try:
            self.made_by = importlib.import_module(module)
            for part in path.split("."):
                self.made_by = getattr(self.made_by, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise HostError(CONFIG, f"params.expert: expected module:name of an expert, found '{name}' ({error})") from error
        self.action_for = None

    def begin(self):
        expert = self.made_by() if isinstance(self.made_by, type) else self.made_by
        self.action_for = getattr(expert, "get_action", expert)
        if not callable(self.action_for):
            raise HostError(PLUGIN, f"params.expert: expected a function or get_action, found {type(expert).__name__}")


class Host:
    """One environment, and the memory that it shares with dp_bench."""

    def __init__(self, memory_fd):
        self.memory_fd = memory_fd
        self.memory = None
        self.action = None  # views of the memory
        self.env = None
        self.is_created = False
        self.is_running = False  # between reset and the end of the episode

    def handle(self, request):
        """The packet that answers one request. Every exception becomes an answer too."""
        output = request[8]
        try:
            self.map_memory(request[9])
            return self.step(output) if request[0] == STEP else self.execute(request)
        except HostError as error:
            return self.failure(output, error.code, str(error))
        except Exception as error:  # of the environment; its traceback goes to the log
            traceback.print_exc()
            sys.stderr.flush()
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({os.path.basename(frame.filename)}:{frame.lineno})"
            return self.failure(output, ENV, text)

    def map_memory(self, size):
        if self.memory is None or len(self.memory) < size:
            self.memory = mmap.mmap(self.memory_fd, size)
            self.action = None
        if self.action is None and self.is_created:
            self.view_memory()

    def execute(self, request):
        command, _, width, height, seed, _, _, input_size, output, _ = request
        if command in (DESCRIBE, CREATE):
            return self.answer(size=self.put(output, to_cbor(self.start(input_size, command == DESCRIBE))))
        if command == RESET:
            self.reset(seed)
            return self.answer(has_observation=True)
        if not self.is_begun:
            raise HostError(ENV, "expected Reset first, found no episode")
        if command == BEGIN and self.expert:
            self.expert.begin()
        elif command == ACT and self.expert:
            self.put(output, self.expert_action())
        elif command == RENDER:
            self.put(output, self.picture(width, height))
        elif command != OBSERVE:  # the observation is there since the last Reset or Step
            raise HostError(PLUGIN, f"expected a call that a Gymnasium environment has, found command {command}")
        return self.answer()

    @staticmethod
    def answer(code=NO_ERROR, is_over=False, success=False, has_observation=False, reward=0.0, size=0):
        return ANSWER.pack(code, is_over, success, has_observation, reward, size)

    def failure(self, output, code, text):
        encoded = text.encode(errors="replace")[:MAX_TEXT]
        return self.answer(code, size=self.put(output, encoded))

    def expert_action(self):
        if self.expert.action_for is None:
            raise HostError(ENV, "the expert acts before it began an episode")
        action = np.asarray(self.expert.action_for(self.observation), np.float32).ravel()
        if action.size != self.action_size or not np.isfinite(action).all():
            raise HostError(ENV, f"expected {self.action_size} finite numbers from the expert, found {action.tolist()}")
        return np.clip(action, self.action_space.low.ravel(), self.action_space.high.ravel()).astype(np.float32)

    def observe(self):
        """Puts every key where dp_bench reads it."""
        for view, key in zip(self.obs_views, self.keys):
            key.write(self.observation, view)

    def put(self, offset, data):
        data = memoryview(data).cast("B")
        self.memory[offset : offset + len(data)] = data
        return len(data)

    def start(self, input_size, is_description):
        """Makes the environment that the request describes; returns an EnvOffer."""
        wanted = json.loads(self.memory[:input_size])
        self.tells = wanted["tells"]  # whether to print notes: one process of a program does
        self.env, self.why_blind = make_env(wanted["id"], wanted["kwargs"])
        space = self.env.action_space
        if not isinstance(space, spaces.Box):
            raise HostError(PLUGIN, f"expected a Box as action space, found {space}")
        self.action_space = space
        self.action_bounds = list(zip(space.low.ravel().tolist(), space.high.ravel().tolist()))
        self.action_size = int(np.prod(space.shape))
        self.keys = keys_of(self.env.observation_space, wanted["obs"])
        self.success = Success(wanted["success"])
        self.expert = Expert(wanted["expert"]) if wanted["expert"] else None
        self.is_begun = False
        self.sum_of_rewards = None
        self.lay_out()
        self.is_created = True
        if self.tells and is_description:
            self.tell_doubts()
        return {"params": "{}", "spec": self.spec(wanted)}

    def tell_doubts(self):
        if self.why_blind:
            note(f"there are no films, because the environment draws no images: {self.why_blind}")
        for key in self.keys:
            if key.is_doubtful:
                note(f"'{key.name}' is {key.found}, and read as numbers. For an image, give params.obs.<key>.layout")

    def spec(self, wanted):
        registered = self.env.spec.max_episode_steps if self.env.spec else None
        max_steps = wanted["max_steps"] or registered
        control_hz = wanted["control_hz"] or self.env.metadata.get("render_fps")
        for name, value in (("max_steps", max_steps), ("control_hz", control_hz)):
            if not value:
                raise HostError(CONFIG, f"params.{name}: expected a number, because the environment does not tell it; found none")
        self.max_steps = int(max_steps)
        low, high = self.action_space.low.ravel(), self.action_space.high.ravel()
        return {
            "shape_meta": {
                "obs": [key.spec for key in self.keys],
                "action": {"name": "action", "type": LOW_DIM, "shape": [self.action_size], "dtype": FLOAT32},
            },
            "action_low": low.astype(float).tolist(),
            "action_high": high.astype(float).tolist(),
            "control_hz": float(control_hz),
            "max_steps": self.max_steps,
            "metrics": [{"name": "last_reward", "aggregate": LAST}, {"name": "sum_of_rewards", "aggregate": LAST}],
            "tasks": [],
            "obs_modes": [],
            "instruction": wanted["instruction"] or str(getattr(self.env.unwrapped, "task_description", "")),
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
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise HostError(ENV, f"expected (observation, info) from reset, found {short(result)}")
        self.observation, _ = result
        if self.tells and self.sum_of_rewards is None:
            extra = [dotted(path) for path in undeclared(self.env.observation_space, self.observation)]
            if extra:
                note(f"observations hold {extra}, which the observation space does not have; they are not read")
        self.success.begin()
        self.sum_of_rewards = 0.0
        self.n_steps = 0
        self.observe()
        self.is_running = self.is_begun = True

    def step(self, output):
        if not self.is_running:
            raise HostError(ENV, "Step before Reset, or after the episode ended; call Reset")
        result = self.env.step(self.clipped_action())
        if not isinstance(result, tuple) or len(result) != 5:
            raise HostError(ENV, f"expected (observation, reward, terminated, truncated, info) from step, found {short(result)}")
        self.observation, reward, terminated, truncated, info = result
        reward = reward_of(reward)
        terminated = flag(terminated, "terminated")
        truncated = flag(truncated, "truncated")
        self.observe()
        self.sum_of_rewards += reward
        METRICS.pack_into(self.memory, output, reward, self.sum_of_rewards)
        success = self.success.holds(reward, terminated, info)
        self.n_steps += 1
        # dp_bench itself ends an episode after max_steps, and then calls it a timeout
        is_over = terminated or (truncated and self.n_steps < self.max_steps)
        if is_over or self.n_steps == self.max_steps:
            self.success.end(self.tells)
        self.is_running = not is_over
        return self.answer(is_over=is_over, success=success, has_observation=True, reward=reward, size=METRICS.size)

    def clipped_action(self):
        """The action, in the type and shape of the space. For few numbers, Python is faster than numpy."""
        values = self.action.tolist()
        if not math.isfinite(sum(values)):
            raise HostError(NUMERIC, f"expected a finite action, found {values}")
        clipped = [min(max(value, low), high) for value, (low, high) in zip(values, self.action_bounds)]
        if self.action_space.dtype.kind in "iu":
            clipped = [round(value) for value in clipped]
        return np.array(clipped, self.action_space.dtype).reshape(self.action_space.shape)

    def picture(self, width, height):
        """What the environment renders, at the wanted size: each pixel is that of the nearest place."""
        if self.why_blind:
            raise HostError(ENV, f"the environment draws no images: {self.why_blind}")
        drawn = self.env.render()
        if not isinstance(drawn, np.ndarray) or drawn.ndim != 3 or drawn.shape[2] != 3 or drawn.dtype != np.uint8:
            found = f"{drawn.dtype} {drawn.shape}" if isinstance(drawn, np.ndarray) else type(drawn).__name__
            raise HostError(ENV, f"expected render to return a uint8 image [height, width, 3], found {found}")
        rows = (np.arange(height) * 2 + 1) * drawn.shape[0] // (2 * height)
        columns = (np.arange(width) * 2 + 1) * drawn.shape[1] // (2 * width)
        return np.ascontiguousarray(drawn[rows[:, None], columns])


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


def receive(channel):
    """The next request. To sleep and be woken takes as long as a tenth of a fast step."""
    end = time.perf_counter() + EAGER_S
    while time.perf_counter() < end:
        try:
            return channel.recv(REQUEST.size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
    return channel.recv(REQUEST.size)


def serve(socket_fd, memory_fd, parent):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # dp_bench decides when to stop
    os.dup2(2, 1)  # what the environment prints is not a result of dp_bench
    channel = socket.socket(fileno=socket_fd)
    end_with_host(channel, parent)
    host = Host(memory_fd)
    while True:
        packet = receive(channel)
        if len(packet) != REQUEST.size:
            return
        request = REQUEST.unpack(packet)
        if request[0] == QUIT:
            if host.env is not None:
                host.env.close()
            return
        channel.send(host.handle(request))


def print_spaces(env_id, kwargs):
    env, _ = make_env(env_id, kwargs)
    parts = {dotted(path): f"{space}" for path, space in parts_of(env.observation_space)}
    print(json.dumps({"observation": parts, "action": str(env.action_space), "obs": proposal(env.observation_space)}, indent=2))


def main(arguments):
    if not getattr(sys.flags, "safe_path", False):
        try:
            sys.path[0] = os.getcwd()  # as `python -m`: modules beside the user's files are found
        except FileNotFoundError:  # the folder was removed
            pass
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
