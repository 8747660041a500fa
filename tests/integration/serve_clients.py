"""Other projects' clients, as their packages are, ask `dp_bench serve`: all get the same actions.

Usage: serve_clients.py <dp_bench program> <checkpoint>
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import msgpack
import msgpack_numpy
import numpy as np
import zmq
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from vla_eval.connection import Connection
from websockets.sync.client import connect

PROGRAM, CHECKPOINT = sys.argv[1:3]
SEED = 100003


@contextlib.contextmanager
def serve(protocol: str, *options: str, end: int = signal.SIGTERM) -> Iterator[str]:
    """A server, and its address; it must end without an error."""
    command = [PROGRAM, "serve", "--checkpoint", CHECKPOINT, "--protocol", protocol, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        address = server.stdout.readline().strip()
        try:
            assert address, server.stderr.read()
            yield address
        finally:
            server.send_signal(end)
            _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors


def observation(step: int) -> dict[str, np.ndarray]:
    """Of PushT with keypoints, in the names of its policy."""
    random = np.random.default_rng(step)
    return {
        "agent_pos": random.uniform(100, 400, 2).astype(np.float32),
        "keypoint": random.uniform(100, 400, (9, 2)).astype(np.float32),
    }


def page(address: str, path: str) -> str:
    with urllib.request.urlopen(address.replace("ws://", "http://") + path, timeout=10) as answer:
        return answer.read().decode()


def openpi() -> list[np.ndarray]:
    """The chunks of three observations, the same for a second client, and in parts by the broker."""
    with serve("openpi") as address:
        assert page(address, "/healthz") == "OK\n"
        host, port = address.rsplit(":", 1)
        first, second = WebsocketClientPolicy(host, int(port)), WebsocketClientPolicy(host, int(port))
        own = first.get_server_metadata()["dp_bench"]
        assert own["deterministic"] and own["n_obs_steps"] == 2 and own["n_action_steps"] == 8, own
        chunks = []
        for step in range(3):
            asked = {**observation(step), "prompt": "push the T", "seed": SEED, "step": step}
            answers = [client.infer(asked) for client in (first, second, second)][:2]
            assert answers[0]["actions"].shape == (8, 2) and answers[0]["actions"].dtype == np.float32
            chunks.append(answers[0]["actions"])
            if step == 0:
                np.testing.assert_array_equal(answers[0]["actions"], answers[1]["actions"])
        broker = ActionChunkBroker(WebsocketClientPolicy(host, int(port)), action_horizon=8)
        actions = [broker.infer({**observation(0), "seed": SEED, "step": 0})["actions"] for _ in range(8)]
        np.testing.assert_array_equal(np.stack(actions), chunks[0])
        with contextlib.suppress(RuntimeError):
            first.infer({"agent_pos": np.zeros(2, np.float32)})
            raise AssertionError("an observation without keypoint was accepted")
        assert "dp_bench_rows_total" in page(address, "/metrics")
    return chunks


def vla_eval_actions() -> np.ndarray:
    """The first eight actions of an episode with a constant observation: one chunk."""

    async def run(address: str) -> np.ndarray:
        async with Connection(address) as connection:
            assert connection.server_info["model_server"] == "dp_bench", connection.server_info
            await connection.start_episode({"task": {"name": "pusht", "seed": SEED}})
            seen = observation(0)
            asked = {"state": seen["agent_pos"], "keypoint": seen["keypoint"], "task_description": "push"}
            actions = [(await connection.act(asked))["actions"] for _ in range(8)]
            await connection.end_episode({"metrics": {"success": False}, "steps": 8, "elapsed_sec": 1.0})
            return np.stack(actions)

    with serve("vla_eval") as address:
        assert page(address, "/health") == '{"status": "ok"}\n'
        return asyncio.run(run(address))


def starvla() -> np.ndarray:
    """starVLA's client is no package of its own: its messages, with openpi's arrays."""
    from openpi_client import msgpack_numpy as codec

    with serve("starvla") as address, connect(address, compression=None, max_size=None) as socket:
        metadata = codec.unpackb(socket.recv())
        assert metadata["action_chunk_size"] == 8, metadata
        socket.send(codec.packb({"type": "ping", "request_id": "a"}))
        assert codec.unpackb(socket.recv())["ok"]
        payload = {**observation(0), "seed": SEED, "step": 0}
        socket.send(codec.packb({"type": "infer", "request_id": "b", "payload": payload}))
        answer = codec.unpackb(socket.recv())
        assert answer["status"] == "ok" and answer["request_id"] == "b", answer
        return answer["data"]["actions"][0]


def groot(codec: str) -> np.ndarray:
    """GR00T's client is no package of its own: its messages over a REQ socket, N1.6's or N1.7's arrays."""

    def to_npy(array: object) -> object:
        if not isinstance(array, np.ndarray):
            return array
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}

    def from_npy(value: dict) -> object:
        return np.load(io.BytesIO(value["as_npy"]), allow_pickle=False) if "as_npy" in value else value

    def ask(request: dict) -> object:
        if codec == "n1.6":
            socket.send(msgpack.packb(request, default=to_npy))
            return msgpack.unpackb(socket.recv(), object_hook=from_npy)
        socket.send(msgpack.packb(request, default=msgpack_numpy.encode))
        return msgpack.unpackb(socket.recv(), object_hook=msgpack_numpy.decode)

    with serve("groot") as address, zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.RCVTIMEO, 20000)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        assert ask({"endpoint": "ping"})["status"] == "ok"
        assert ask({"endpoint": "get_modality_config"})["action"]
        assert "error" in ask({"endpoint": "kill"})
        state = {key: array[None, None] for key, array in observation(0).items()}
        data = {"observation": {"state": state, "language": {"task": [["push"]]}}, "options": {"seed": SEED, "step": 0}}
        action, info = ask({"endpoint": "get_action", "data": data})
        assert info["infer_ms"] > 0 and action["action"].shape == (1, 8, 2), (info, action)
        assert ask({"endpoint": "reset", "data": {"options": None}}) == {}
        return action["action"][0]


def main() -> None:
    chunks = openpi()
    for name, actions in (
        ("vla_eval", vla_eval_actions()),
        ("starvla", starvla()),
        ("groot n1.6", groot("n1.6")),
        ("groot n1.7", groot("n1.7")),
    ):
        np.testing.assert_array_equal(actions, chunks[0], err_msg=name)
        print(f"{name}: the actions of openpi's client, bit for bit")


if __name__ == "__main__":
    main()
