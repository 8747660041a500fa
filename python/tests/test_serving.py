"""serve_policy: its messages, and conversations with clients. Skipped without websockets and msgpack."""

import contextlib
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import pytest

from dp_bench.serving import make_server, pack, unpack

pytest.importorskip("msgpack")
client = pytest.importorskip("websockets.sync.client")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"

# made with openpi_client.msgpack_numpy 0.1.2 and msgpack 1.2.4
GOLDEN = [
    ({}, "80"),
    (
        {"state": np.array([[1, 2]], np.float32)},
        (
            "81a5737461746584c40b5f5f6e6461727261795f5fc3c40464617461c4080000803f00000040c4056474797065a33c6634c4057368617065"
            "920102"
        ),
    ),
    (
        {"actions": np.array([[1.0], [2.0]])},
        (
            "81a7616374696f6e7384c40b5f5f6e6461727261795f5fc3c40464617461c410000000000000f03f0000000000000040c4056474797065a3"
            "3c6638c4057368617065920201"
        ),
    ),
    (
        {"image": np.array([[[1, 2, 3]]], np.uint8), "prompt": "a"},
        (
            "82a5696d61676584c40b5f5f6e6461727261795f5fc3c40464617461c403010203c4056474797065a37c7531c405736861706593010103a6"
            "70726f6d7074a161"
        ),
    ),
    (
        np.float32(1.5),
        "83c40d5f5f6e7067656e657269635f5fc3c40464617461cb3ff8000000000000c4056474797065a33c6634",
    ),
    (
        np.array(7, np.int64),
        "84c40b5f5f6e6461727261795f5fc3c40464617461c4080700000000000000c4056474797065a33c6938c405736861706590",
    ),
    (
        np.array([True, False]),
        "84c40b5f5f6e6461727261795f5fc3c40464617461c4020100c4056474797065a37c6231c40573686170659102",
    ),
]


@contextlib.contextmanager
def serving(policy, **options):
    """Answers in a thread; gives a function that connects, and returns the connection and the metadata."""
    with make_server(policy, port=0, **options) as server, contextlib.ExitStack() as connections:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"

        def connect():
            connection = connections.enter_context(client.connect(url, compression=None, proxy=None))
            return connection, unpack(connection.recv())

        connect.url = url
        yield connect
        connections.close()
        server.shutdown()


def ask(connection, observation, **numbers):
    connection.send(pack({**observation, **numbers}))
    answer = connection.recv()
    return answer if isinstance(answer, str) else unpack(answer)


class Counting:
    """Returns its seed and how often it was asked."""

    def __init__(self, offset=0):
        self.offset = offset

    def reset(self, seed):
        self.seed, self.n = seed, self.offset

    def act(self, observation):
        self.n += 1
        return [[self.seed, self.n]]


@pytest.mark.parametrize(("value", "golden"), GOLDEN)
def test_messages_are_those_of_openpi(value, golden):
    assert pack(value).hex() == golden
    again = unpack(bytes.fromhex(golden))
    np.testing.assert_equal(again, value)
    assert pack(again).hex() == golden


def test_arrays_are_writable_and_little_endian():
    array = unpack(pack(np.array([1, 2], ">f4")))
    array += 1
    assert array.dtype.str == "<f4" and array.tolist() == [2, 3]


@pytest.mark.parametrize("array", [np.array([{}]), np.array(["a"]), np.array([1j]), np.zeros(1, "V3")])
def test_refuses_other_arrays(array):
    with pytest.raises(TypeError, match="expected an array of numbers"):
        pack(array)
    message = {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": [1]}
    with pytest.raises(ValueError, match="expected an array of numbers"):
        unpack(pack(message))
    with pytest.raises(TypeError, match="found object"):
        pack(object())


def test_a_function_gets_the_observation():
    seen = []

    def policy(observation):
        seen.append(observation)
        return observation["state"][-1:]

    with serving(policy, metadata={"name": "mine"}, n_obs_steps=2) as connect:
        connection, metadata = connect()
        assert metadata == {
            "name": "mine",
            "dp_bench": {"windows": True, "stateful": False, "micro_batch": 1, "n_obs_steps": 2},
        }
        answer = ask(connection, {"state": np.array([[1.0, 2.0], [3.0, 4.0]]), "prompt": "push"}, seed=7, step=8)
    assert answer["actions"].dtype == np.float32 and answer["actions"].tolist() == [[3.0, 4.0]]
    assert answer["server_timing"]["infer_ms"] >= 0
    assert seen[0].keys() == {"state", "prompt"} and seen[0]["prompt"] == "push"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (lambda observation, *, seed, step: [seed, step], [2**53, 8]),
        (lambda observation, step: [step], [8]),
        (lambda observation, **numbers: [numbers["seed"]], [2**53]),
    ],
)
def test_a_function_gets_the_numbers_that_it_wants(policy, expected):
    with serving(policy) as connect:
        assert ask(connect()[0], {}, seed=2**53, step=8)["actions"].tolist() == expected


def test_steps_are_counted_for_clients_that_do_not():
    with serving(lambda observation, seed, step: [seed, step]) as connect:
        connection, _ = connect()
        assert [ask(connection, {})["actions"].tolist() for _ in range(2)] == [[0, 0], [0, 1]]
        assert ask(connection, {}, endpoint="reset", seed=5) == {"status": "reset successful"}
        assert ask(connection, {})["actions"].tolist() == [5, 0]


@pytest.mark.parametrize(("policy", "first"), [(Counting, 1), (functools.partial(Counting, offset=10), 11)])
def test_a_class_has_an_object_for_each_connection(policy, first):
    with serving(policy) as connect:
        (one, metadata), (other, _) = connect(), connect()
        assert metadata["dp_bench"]["stateful"] and "one_episode" not in metadata["dp_bench"]
        assert ask(one, {}, seed=1, step=0)["actions"].tolist() == [[1, first]]
        assert ask(other, {}, seed=2, step=0)["actions"].tolist() == [[2, first]]
        assert ask(one, {}, seed=1, step=8)["actions"].tolist() == [[1, first + 1]]
        assert ask(one, {}, seed=3, step=0)["actions"].tolist() == [[3, first]]
        assert "was asked about that with seed 9" in ask(one, {}, seed=9, step=8)


def test_an_object_of_a_class_plays_one_episode():
    class Remembering(Counting):
        def __init__(self):
            self.n = 0

        def reset(self, seed):
            self.seed = seed

    with serving(Remembering) as connect:
        connection, _ = connect()
        answers = [ask(connection, {}, seed=seed, step=step) for seed, step in ((1, 0), (1, 8), (2, 0))]
        ask(connection, {}, endpoint="reset", seed=3)
        answers.append(ask(connection, {}))
    assert [answer["actions"].tolist() for answer in answers] == [[[1, 1]], [[1, 2]], [[2, 1]], [[3, 1]]]


def test_an_object_plays_one_episode_at_a_time():
    with serving(Counting()) as connect:
        (one, metadata), (other, _) = connect(), connect()
        assert metadata["dp_bench"]["one_episode"]
        assert ask(one, {}, seed=1, step=0)["actions"].tolist() == [[1, 1]]
        assert ask(other, {}, seed=1, step=8)["actions"].tolist() == [[1, 2]]
        assert ask(other, {}, seed=2, step=0)["actions"].tolist() == [[2, 1]]
        assert "give serve_policy its class" in ask(one, {}, seed=1, step=16)


def test_an_exception_is_an_answer(capfd):
    def policy(observation, *, step):
        if step == 3:
            raise ArithmeticError("no plan")
        return [[np.nan]] if step == 4 else [["text"]] if step == 5 else [[1.0]]

    with serving(policy) as connect:
        connection, _ = connect()
        assert ask(connection, {}, step=3) == "ArithmeticError: no plan"
        assert "not finite" in ask(connection, {}, step=4)
        assert "expected actions as numbers [H, action_dim]" in ask(connection, {}, step=5)
        connection.send("text")
        assert connection.recv() == "TypeError: expected a binary message, found text"
        connection.send(b"\xc1")
        assert isinstance(connection.recv(), str)
        assert ask(connection, {}, step=6)["actions"].tolist() == [[1.0]]
    errors = capfd.readouterr().err
    assert "Traceback" in errors and "ArithmeticError: no plan" in errors


def test_an_exit_of_the_policy_is_an_answer(capfd):
    def policy(observation):
        if observation:
            sys.exit("no weights")
        return [[1.0]]

    with serving(policy) as connect:
        connection, _ = connect()
        assert ask(connection, {"state": np.zeros(1)}) == "SystemExit: no weights"
        assert ask(connection, {})["actions"].tolist() == [[1.0]]
    assert "SystemExit: no weights" in capfd.readouterr().err


def test_a_class_that_cannot_be_made_says_why(capfd):
    class Unmade(Counting):
        def __init__(self):
            raise FileNotFoundError("weights.pt")

    with serving(Unmade) as connect:
        connection, metadata = connect()
        assert metadata["dp_bench"]["stateful"]
        assert ask(connection, {}, seed=1, step=0) == "FileNotFoundError: weights.pt"
        assert ask(connection, {}, endpoint="reset") == "FileNotFoundError: weights.pt"
    assert 'raise FileNotFoundError("weights.pt")' in capfd.readouterr().err


def test_one_thread_at_a_time_asks():
    inside = threading.Semaphore(1)

    def policy(observation):
        assert inside.acquire(blocking=False)
        threading.Event().wait(0.01)
        inside.release()
        return [1.0]

    with serving(policy) as connect:
        lines = [connect()[0] for _ in range(4)]
        for line in lines:
            line.send(pack({}))
        assert all(unpack(line.recv())["actions"].tolist() == [1.0] for line in lines)


def test_tells_its_health_and_refuses_web_pages():
    with serving(lambda observation: [1.0]) as connect:
        with urllib.request.urlopen(connect.url.replace("ws:", "http:") + "/healthz") as answer:
            assert answer.read() == b"OK\n"
        with pytest.raises(Exception, match="403"):
            client.connect(connect.url, origin="http://example.org", proxy=None)


def test_says_what_is_no_policy():
    with pytest.raises(TypeError, match="expected a function"):
        make_server(3, port=0)
    with pytest.raises(TypeError, match="without reset"):
        make_server(type("Half", (), {"act": lambda self, observation: [1.0]}), port=0)


def test_says_what_to_install(tmp_path):
    (tmp_path / "websockets.py").write_text("raise ModuleNotFoundError")
    command = [sys.executable, "-c", "import dp_bench; dp_bench.serve_policy(lambda observation: [1.0])"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert "pip install 'dp_bench[serve]'" in result.stderr


@contextlib.contextmanager
def started(file, *arguments):
    """Starts a program as dp_bench does, and gives a connection to it."""
    end, given = os.pipe()
    environment = os.environ | {"DP_BENCH_PORT_FD": str(given)}
    with subprocess.Popen([sys.executable, file, *arguments], env=environment, pass_fds=[given]) as program:
        os.close(given)
        with open(end) as pipe:
            port = int(pipe.read())
        with client.connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None) as connection:
            connection.recv()
            yield connection
        program.terminate()


def pusht(block):
    return {"agent_pos": np.zeros((2, 2), np.float32), "keypoint": np.full((2, 9, 2), block, np.float32)}


def test_a_started_program_tells_its_port():
    with started(EXAMPLES / "policy_scripted.py") as connection:
        actions = ask(connection, pusht(80))["actions"]
    np.testing.assert_array_equal(actions, np.repeat(np.arange(10, 81, 10, np.float32)[:, None], 2, axis=1))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_network_from_a_file_acts(tmp_path):
    file = tmp_path / "mlp.pt"
    subprocess.run([sys.executable, EXAMPLES / "policy_mlp.py", file, "--make"], check=True)
    with started(EXAMPLES / "policy_mlp.py", file) as connection:
        first, again, other = (ask(connection, pusht(block))["actions"] for block in (80, 80, 300))
    assert first.shape == (8, 2) and (first > 0).all() and (first < 512).all()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.skipif(importlib.util.find_spec("lerobot") is None, reason="lerobot is not installed")
@pytest.mark.parametrize("name", ["act", "diffusion"])
def test_policies_of_lerobot_act(name):
    n_obs_steps = 2 if name == "diffusion" else 1
    observation = {
        key: np.full((n_obs_steps, n), 80, np.float32) for key, n in (("agent_pos", 2), ("environment_state", 16))
    }
    with started(EXAMPLES / "policy_lerobot.py", name) as connection:
        first, again, later = (ask(connection, observation, seed=1, step=step)["actions"] for step in (0, 0, 8))
    assert first.shape[0] >= 8 and first.shape[1] == 2
    np.testing.assert_array_equal(first, again)
    assert (first != later).any() == (name == "diffusion")


def test_episodes_share_the_planted_queue():
    with started(pathlib.Path(__file__).parent / "shared_queue_policy.py") as connection:
        alone = [ask(connection, pusht(80), seed=1, step=step)["actions"][0, 0] for step in (0, 8)]
        mixed = [
            ask(connection, pusht(block), seed=block, step=step)["actions"][0, 0] for block, step in ((80, 0), (300, 8))
        ]
    assert alone == [80, 80]
    assert mixed == [80, 80]  # the second is about a block at 300
