"""A policy server under clients that leave, stall and talk nonsense, and under kills: no wrong answer, no lost one, flat memory.

Runs for MINUTES with 64 clients; not part of ctest. Every answer is compared with that of the same question asked before the
crowd came. Every third minute the server is killed and started again on the same port, and all clients connect again.

Usage: serve_soak.py <dp_bench program> <checkpoint> [MINUTES]
Needs openpi-client 0.1.2.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

PROGRAM, CHECKPOINT = sys.argv[1:3]
MINUTES = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
N_CLIENTS = 64
N_QUESTIONS = 16


def start_server(port: int) -> subprocess.Popen:
    command = [PROGRAM, "serve", "--checkpoint", CHECKPOINT, "--port", str(port), "--max-clients", "80", "--max-queue", "48"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    assert server.stdout.readline(), "the server did not start"
    return server


def rss_mib(server: subprocess.Popen) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def question(number: int) -> dict:
    generator = np.random.default_rng(number)
    return {
        "agent_pos": generator.uniform(100, 400, (2, 2)).astype(np.float32),
        "keypoint": generator.uniform(100, 400, (2, 9, 2)).astype(np.float32),
        "seed": number,
        "step": 8 * number,
    }


class Soak:
    def __init__(self, port: int) -> None:
        self.port = port
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.ends = time.monotonic() + 60 * MINUTES
        self.is_restarting = False
        client = self.connect()
        self.expected = [client.infer(question(i))["actions"].tobytes() for i in range(N_QUESTIONS)]

    def connect(self) -> WebsocketClientPolicy:
        return WebsocketClientPolicy("127.0.0.1", self.port)

    def good_client(self, seed: int) -> None:
        """Asks, leaves at random, and comes back."""
        chance = random.Random(seed)
        while time.monotonic() < self.ends:
            try:
                client = self.connect()
                for _ in range(chance.randrange(1, 200)):
                    number = chance.randrange(N_QUESTIONS)
                    try:
                        actions = client.infer(question(number))["actions"].tobytes()
                    except RuntimeError as error:
                        self.counts["overloaded"] += 1
                        if "overloaded: " not in str(error):
                            self.faults.append(str(error))
                        time.sleep(0.2 * chance.random())
                        continue
                    self.counts["answers"] += 1
                    if actions != self.expected[number]:
                        self.faults.append(f"question {number} got another answer")
                    if time.monotonic() > self.ends:
                        break
                if chance.random() < 0.5:  # leaves with a question open
                    client._ws.send(client._packer.pack(question(0)))
                    self.counts["left open"] += 1
                client._ws.socket.close()
            except Exception as error:  # any is right during a restart, and none at other times
                self.counts["reconnects"] += 1
                if not self.is_restarting and time.monotonic() - self.restarted > 5:
                    self.faults.append(f"lost without a restart: {error!r}")
                time.sleep(0.1)

    def bad_client(self, seed: int) -> None:
        """Half a request, half a frame, no HTTP, or silence."""
        chance = random.Random(seed)
        upgrade = (
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        while time.monotonic() < self.ends:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as raw:
                    kind = chance.randrange(4)
                    if kind == 0:
                        raw.sendall(upgrade[: chance.randrange(len(upgrade))])
                    elif kind == 1:
                        raw.sendall(upgrade)
                        raw.recv(4096)
                        raw.sendall(b"\x82\xfe\x40\x00mask" + bytes(chance.randrange(1000)))
                    elif kind == 2:
                        raw.sendall(chance.randbytes(chance.randrange(1, 5000)))
                    time.sleep(3 * chance.random())
                    self.counts["bad clients"] += 1
            except OSError:
                time.sleep(0.1)

    def run(self, server: subprocess.Popen) -> None:
        self.restarted = time.monotonic()
        threads = [threading.Thread(target=self.good_client, args=(i,)) for i in range(N_CLIENTS - 8)]
        threads += [threading.Thread(target=self.bad_client, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        memory: list[float] = []
        while time.monotonic() < self.ends:
            time.sleep(10)
            assert server.poll() is None, f"the server ended with {server.returncode}"
            memory.append(rss_mib(server))
            print(f"{memory[-1]:.0f} MiB, {dict(self.counts)}, {len(self.faults)} faults", flush=True)
            if time.monotonic() - self.restarted > 180 and self.ends - time.monotonic() > 60:
                self.is_restarting = True
                server.send_signal(signal.SIGKILL)
                server.wait()
                server = start_server(self.port)
                self.restarted = time.monotonic()
                self.is_restarting = False
                memory.clear()
        for thread in threads:
            thread.join()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
        assert not self.faults, self.faults[:5]
        assert self.counts["answers"] > 100 * MINUTES
        settled = memory[len(memory) // 2 :]
        assert max(settled) - min(settled) < 0.05 * max(settled) + 8, memory
        print("no wrong answer, none lost, memory flat")


def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = start_server(port)
    Soak(port).run(server)


if __name__ == "__main__":
    main()
