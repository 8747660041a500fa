"""Other projects' policy servers with one scripted policy of PushT: what the policy `remote` has to get along with.

vla_eval is the server of its package. openpi's and GR00T's are not on PyPI: these speak with the packages of their clients
(openpi_client.msgpack_numpy; zmq, msgpack and msgpack_numpy), message by message as their repositories do.

Usage: peer_servers.py vla_eval|openpi|groot, started by policy.params.command
"""

from __future__ import annotations

import os
import sys
import traceback

import numpy as np

N_ACTIONS = 8


def scripted(agent_pos: np.ndarray, keypoint: np.ndarray) -> np.ndarray:
    """Actions [N_ACTIONS, 2] from agent_pos [2] and keypoint [9, 2]: the pusher goes to the block's middle."""
    fractions = np.arange(1, N_ACTIONS + 1, dtype=np.float32)[:, None] / N_ACTIONS
    return agent_pos + fractions * (keypoint.mean(axis=0) - agent_pos)


def tell(port: int) -> None:
    os.write(int(os.environ["DP_BENCH_PORT_FD"]), f"{port}\n".encode())


def vla_eval() -> None:
    import anyio
    from vla_eval.model_servers.base import ModelServer
    from vla_eval.model_servers.serve import serve_async

    class Scripted(ModelServer):
        async def on_episode_start(self, config, ctx) -> None:
            assert config["task"]["name"].startswith("Push the T"), config

        async def on_observation(self, obs, ctx) -> None:
            assert obs["task_description"].startswith("Push the T"), obs["task_description"]
            await ctx.send_action({"actions": scripted(obs["state"], obs["keypoint"])[0]})

    async def main() -> None:
        async with anyio.create_task_group() as group:
            tell(await group.start(serve_async, Scripted(), "127.0.0.1", 0))

    anyio.run(main)


def openpi() -> None:
    from openpi_client import msgpack_numpy
    from websockets.sync.server import serve

    def converse(socket) -> None:
        packer = msgpack_numpy.Packer()
        socket.send(packer.pack({"action_horizon": N_ACTIONS}))
        for message in socket:
            try:
                obs = msgpack_numpy.unpackb(message)
                assert obs["prompt"].startswith("Push the T"), obs["prompt"]
                actions = scripted(obs["agent_pos"], obs["keypoint"])
                socket.send(packer.pack({"actions": actions, "server_timing": {"infer_ms": 0.1}}))
            except Exception:
                socket.send(traceback.format_exc())
                raise

    with serve(converse, "127.0.0.1", 0, compression=None, max_size=None) as server:
        tell(server.socket.getsockname()[1])
        server.serve_forever()


def groot() -> None:
    import msgpack
    import msgpack_numpy
    import zmq

    socket = zmq.Context().socket(zmq.REP)
    tell(socket.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        request = msgpack.unpackb(socket.recv(), object_hook=msgpack_numpy.decode)
        if request["endpoint"] == "ping":
            answer = {"status": "ok", "message": "Server is running"}
        else:
            obs = request["data"]["observation"]
            assert obs["language"]["task"][0][0].startswith("Push the T"), obs["language"]
            state = obs["state"]  # of each key [B, T, ...]
            answer = [{"action": scripted(state["agent_pos"][0, -1], state["keypoint"][0, -1])[None]}, {}]
        socket.send(msgpack.packb(answer, default=msgpack_numpy.encode))


if __name__ == "__main__":
    {"vla_eval": vla_eval, "openpi": openpi, "groot": groot}[sys.argv[1]]()
