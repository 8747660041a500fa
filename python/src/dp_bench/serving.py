"""A policy in Python behind a server, which dp_bench evaluates: `serve_policy`.

The server speaks openpi's protocol: MessagePack over WebSocket, metadata first, then an answer to each observation. It
needs the packages of `pip install 'dp_bench[serve]'`.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_bench.errors import ProgramError

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import Server, ServerConnection

Observation = dict[str, Any]
Player = Callable[[Observation, int, int], Any]  # of observation, seed and step

_USUAL_PORT = 8000
_PORT_VARIABLE = "DP_BENCH_PORT_FD"  # the descriptor to which the port is written: harness/src/remote/server_process.h
_MAX_MESSAGE_BYTES = 64 << 20
_KINDS = "biuf"  # of numpy: bool, integers, floats
_LACKS_PACKAGES = "serve_policy needs websockets and msgpack: pip install 'dp_bench[serve]'"


def serve_policy(
    policy: Any,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    metadata: Mapping[str, Any] | None = None,
    n_obs_steps: int | None = None,
) -> None:
    """Answers questions about actions until the process ends.

    `dp_bench eval --policy remote policy.params.command="python my_policy.py"` starts a program that calls this, and
    ends it. By hand, start the program yourself and give `policy.params.url=ws://127.0.0.1:8000`.

    Args:
        policy: One of

            - a function `policy(observation)`, which may also have the parameters `seed` (of the episode) and `step` (env
              steps since its beginning). Use it for policies whose actions depend on the observation alone; draw noise
              from a generator made of (seed, step), so that an evaluation can be repeated.
            - a class, or a functools.partial of one, with `reset(seed)` and `act(observation)`. Each episode has an
              object of its own, so that it may remember what it saw.
            - an object with `reset(seed)` and `act(observation)`. It can play one episode after the other
              (`env_runner.n_envs=1`); questions about two at a time are errors.

            An observation is a dict of arrays, one for each key of the env, [n_obs_steps, ...], oldest first: numbers are
            float32, images uint8 [n_obs_steps, height, width, channels]. `prompt` is a string, if there is an
            instruction. Clients of openpi send what they like.

            The result is an array [H, action_dim], or [action_dim] for one action, in the env's units. dp_bench executes
            the first `n_action_steps` of it.
        port: Where to listen; 0: a free one. None: a free one if dp_bench has started this program, else 8000.
        host: "0.0.0.0" lets in other machines.
        metadata: What the policy says about itself, which is kept with the results: {"checkpoint": "mine.pt"}.
        n_obs_steps: How many steps the policy observes. An evaluation with another number is then refused.

    If the policy raises an exception or calls sys.exit, that episode fails with its text as the reason, and the server
    keeps running. Only one thread at a time calls the policy.

    Raises:
        ProgramError: websockets or msgpack is missing.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the usual end is no reason for a shell to say anything
    with make_server(policy, port=port, host=host, metadata=metadata, n_obs_steps=n_obs_steps) as server:
        _tell_port(host, server.socket.getsockname()[1])
        server.serve_forever()


def make_server(
    policy: Any,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    metadata: Mapping[str, Any] | None = None,
    n_obs_steps: int | None = None,
) -> Server:
    """The server of `serve_policy`, which listens; its `serve_forever` answers, and its `shutdown` ends that."""
    try:
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.server import serve
    except ModuleNotFoundError as error:
        raise ProgramError(_LACKS_PACKAGES) from error
    if port is None:
        port = 0 if _PORT_VARIABLE in os.environ else _USUAL_PORT
    new_player, traits = _players_of(policy)
    own: dict[str, Any] = {"windows": True, "stateful": True, "micro_batch": 1, **traits}
    if n_obs_steps is not None:
        own["n_obs_steps"] = n_obs_steps
    greeting = pack({**(metadata or {}), "dp_bench": own})
    lock = threading.Lock()

    def converse(connection: ServerConnection) -> None:
        connection.send(greeting)
        session: _Session | None = None
        for message in connection:
            try:
                with lock:
                    session = session or _Session(new_player)
                    answer: bytes | str = session.answer(message)
            except (Exception, SystemExit) as error:  # noqa: BLE001 (the author sees all of it, the client its last line)
                traceback.print_exc()
                sys.stderr.flush()
                answer = "".join(traceback.format_exception_only(error)).strip()
            try:
                connection.send(answer)
            except ConnectionClosed:  # the client waits no longer
                return

    return serve(
        converse,
        host,
        port,
        process_request=_answer_health,
        origins=[None],  # web pages are refused
        compression=None,
        max_size=_MAX_MESSAGE_BYTES,
    )


def pack(value: Any) -> bytes:
    """A message of openpi. Arrays hold numbers; others are a TypeError."""
    try:
        import msgpack
    except ModuleNotFoundError as error:
        raise ProgramError(_LACKS_PACKAGES) from error

    def to_map(array: Any) -> dict[bytes, Any]:
        if not isinstance(array, np.ndarray | np.generic):
            raise TypeError(f"expected arrays, numbers, strings, lists and dicts, found {type(array).__name__}")
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"expected an array of numbers, found {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if isinstance(array, np.generic):
            return {b"__npgeneric__": True, b"data": array.item(), b"dtype": array.dtype.str}
        return {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": array.shape}

    packed: bytes = msgpack.packb(value, default=to_map)
    return packed


def unpack(message: bytes) -> Any:
    """The value of a message of openpi. Arrays are writable. What is no message is a ValueError."""
    import msgpack

    def from_map(entries: dict[Any, Any]) -> Any:
        if b"__ndarray__" not in entries and b"__npgeneric__" not in entries:
            return entries
        dtype = np.dtype(str(entries[b"dtype"]))
        if dtype.kind not in _KINDS:
            raise ValueError(f"expected an array of numbers, found {dtype}")
        if b"__npgeneric__" in entries:
            return dtype.type(entries[b"data"])
        shape = tuple(entries[b"shape"])
        return np.frombuffer(entries[b"data"], dtype).reshape(shape).copy()

    return msgpack.unpackb(message, object_hook=from_map)


def _players_of(policy: Any) -> tuple[Callable[[], Player], dict[str, bool]]:
    """How to make a player for an episode, and what dp_bench must know about the players."""
    made = policy.func if isinstance(policy, functools.partial) else policy
    if inspect.isclass(made):
        _require_acting(made)
        return lambda: _Episodes(policy()), {}
    if hasattr(policy, "act"):
        _require_acting(policy)
        shared = _Episodes(policy)
        return lambda: shared, {"one_episode": True}  # at a time
    if callable(policy):
        ask = _with_wanted_numbers(policy)
        return lambda: ask, {"stateful": False}  # it may be asked twice about a step
    raise TypeError(f"expected a function, or a class or object with reset and act, found {policy!r}")


class _Episodes:
    """The episodes of an object with reset and act, one after the other."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._seed: int | None = None

    def __call__(self, observation: Observation, seed: int, step: int) -> Any:
        if step == 0:
            self._policy.reset(seed)
            self._seed = seed
        elif seed != self._seed:
            raise RuntimeError(
                f"the object plays the episode with seed {self._seed} and was asked about that with seed {seed}; "
                "give serve_policy its class instead, so that each episode has an object"
            )
        return self._policy.act(observation)


class _Session:
    """A connection: at a time, one episode of a policy with memory."""

    def __init__(self, new_player: Callable[[], Player]) -> None:
        self._new_player = new_player
        self._player = new_player()
        self._seed = 0
        self._step = 0
        self._has_played = False

    def answer(self, message: bytes | str) -> bytes:
        if isinstance(message, str):
            raise TypeError("expected a binary message, found text")
        observation = unpack(message)
        if not isinstance(observation, dict):
            raise TypeError(f"expected a dict, found {type(observation).__name__}")
        self._seed = int(observation.pop("seed", self._seed))
        if observation.pop("endpoint", "infer") == "reset":
            self._step = 0
            return pack({"status": "reset successful"})
        self._step = int(observation.pop("step", self._step))
        if self._step == 0 and self._has_played:
            self._player = self._new_player()
        self._has_played = True
        begin = time.perf_counter()
        actions = _require_actions(self._player(observation, self._seed, self._step))
        milliseconds = 1e3 * (time.perf_counter() - begin)
        self._step += 1  # of clients that do not count
        return pack({"actions": actions, "server_timing": {"infer_ms": milliseconds}})


def _require_acting(policy: Any) -> None:
    missing = [name for name in ("reset", "act") if not callable(getattr(policy, name, None))]
    if missing:
        raise TypeError(f"expected a policy with reset and act, found {policy!r} without {' and '.join(missing)}")


def _with_wanted_numbers(policy: Callable[..., Any]) -> Player:
    """The function, which gets seed and step if it has parameters of these names."""
    parameters = inspect.signature(policy).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}
    wanted = [name for name in ("seed", "step") if takes_all or name in named]

    def ask(observation: Observation, seed: int, step: int) -> Any:
        numbers = {"seed": seed, "step": step}
        return policy(observation, **{name: numbers[name] for name in wanted})

    return ask


def _require_actions(result: Any) -> NDArray[np.float32]:
    actions = np.asarray(result)
    if actions.dtype.kind not in "iuf" or actions.ndim not in (1, 2):
        raise TypeError(f"expected actions as numbers [H, action_dim], found {actions.dtype} {list(actions.shape)}")
    actions = np.ascontiguousarray(actions, np.float32)
    if not np.isfinite(actions).all():
        raise ValueError("the policy's actions are not finite")
    return actions


def _answer_health(connection: ServerConnection, request: Request) -> Response | None:
    return connection.respond(200, "OK\n") if request.path == "/healthz" else None


def _tell_port(host: str, port: int) -> None:
    """To the program that started this one, or to the user."""
    descriptor = os.environ.pop(_PORT_VARIABLE, None)
    if descriptor is None:
        print(f"ws://{host}:{port}", flush=True)
        return
    os.write(int(descriptor), f"{port}\n".encode())
    os.close(int(descriptor))
