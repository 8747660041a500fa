"""Policy servers side by side, asked by openpi's client as its package is.

Overhead: a policy that answers at once, two 224 x 224 images. Ours is bench_serve; the peer is a server as openpi's
(websocket_policy_server.py): websockets, openpi_client.msgpack_numpy and one event loop that also runs the policy. "no
server" only takes the bytes and has its answer ready (bench_serve --floor): what the client itself takes.
Throughput: `dp_bench serve` with 1, 2, 4 and 8 clients, each in a process of its own.

Usage: serve_bench.py --bench build/dev/bin/bench_serve --program build/release/bin/dp_bench --checkpoint FOLDER
Needs openpi-client 0.1.2.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import multiprocessing.connection
import statistics
import subprocess
import time
from multiprocessing.synchronize import Barrier

import numpy as np
import websockets.asyncio.server
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy

QUESTION = {
    "image": np.zeros((224, 224, 3), np.uint8),
    "wrist_image": np.zeros((224, 224, 3), np.uint8),
    "state": np.zeros(14, np.float32),
    "prompt": "put the red block into the drawer",
}
ACTIONS = np.zeros((10, 14), np.float32)


def client_of(address: str) -> WebsocketClientPolicy:
    host, port = address.rsplit(":", 1)
    return WebsocketClientPolicy(host, int(port))


def start_peer() -> str:
    """A server in a process of its own; its address."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    multiprocessing.Process(target=run_peer, args=(sender,), daemon=True).start()
    return f"ws://127.0.0.1:{receiver.recv()}"


def run_peer(sender: multiprocessing.connection.Connection) -> None:
    async def handle(connection: websockets.asyncio.server.ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        async for message in connection:
            msgpack_numpy.unpackb(message)
            await connection.send(packer.pack({"actions": ACTIONS, "server_timing": {"infer_ms": 0.0}}))

    async def main() -> None:
        async with websockets.asyncio.server.serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
            sender.send(server.sockets[0].getsockname()[1])
            await server.serve_forever()

    asyncio.run(main())


def overhead(bench: str, n_rounds: int = 7, n_asked: int = 300) -> None:
    processes = [
        subprocess.Popen([bench, role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for role in ("--serve", "--floor")
    ]
    ours, floor = (client_of(process.stdout.readline().strip()) for process in processes if process.stdout)
    servers = {"dp_bench": ours, "as openpi's": client_of(start_peer()), "no server": floor}
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for _ in range(n_rounds):
        for name, client in servers.items():
            times = []
            for _ in range(n_asked):
                start = time.perf_counter()
                client.infer(QUESTION)
                times.append(1e3 * (time.perf_counter() - start))
            rounds[name].append((statistics.median(times), float(np.percentile(times, 99))))
    for name, results in rounds.items():
        p50, p99 = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"{name:12} p50 {p50:.3f} ms  p99 {p99:.3f} ms, openpi's client included")
    for process in processes:
        process.kill()


def ask(address: str, n_asked: int, barrier: Barrier, results: multiprocessing.Queue) -> None:
    client = client_of(address)
    keys = client.get_server_metadata()["dp_bench"]["keys"]["obs"]
    random = np.random.default_rng(0)
    question = {
        key["key"]: random.uniform(100, 400, key["shape"]).astype(np.float32)
        if key["dtype"] == "float32"
        else random.integers(0, 255, key["shape"], dtype=np.uint8)
        for key in keys.values()
    }
    client.infer({**question, "seed": 0, "step": 0})
    barrier.wait()
    start = time.perf_counter()
    for step in range(n_asked):
        answer = client.infer({**question, "seed": 0, "step": step})
    results.put((time.perf_counter() - start, answer["actions"].tobytes()))


def throughput(program: str, checkpoint: str, n_asked: int = 60) -> None:
    command = [program, "serve", "--checkpoint", checkpoint, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    alone = 0.0
    last = b""
    for n_clients in (1, 2, 4, 8):
        rates = []
        for _ in range(3):
            barrier = multiprocessing.Barrier(n_clients)
            results: multiprocessing.Queue = multiprocessing.Queue()
            clients = [
                multiprocessing.Process(target=ask, args=(address, n_asked, barrier, results)) for _ in range(n_clients)
            ]
            for client in clients:
                client.start()
            answers = [results.get() for _ in clients]
            for client in clients:
                client.join()
            last = last or answers[0][1]
            assert all(answer[1] == last for answer in answers), "an answer depends on companions"
            rates.append(n_clients * n_asked / max(answer[0] for answer in answers))
        rate = statistics.median(rates)
        alone = alone or rate
        print(f"{n_clients} clients: {rate:.1f} answers/s ({rate / alone:.1f} times one client), equal bytes")
    server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench")
    parser.add_argument("--program")
    parser.add_argument("--checkpoint")
    options = parser.parse_args()
    if options.bench:
        overhead(options.bench)
    if options.program:
        throughput(options.program, options.checkpoint)


if __name__ == "__main__":
    main()
