"""Policies that act in Python. They need a package that was built with an installation of dp_bench."""

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from forked import errors_in_a_fork

import dp_bench

CHECKPOINT = pathlib.Path(__file__).parents[2] / "models/pusht_unet_hybrid"
IS_BUILT = importlib.util.find_spec("dp_bench._policy") is not None
needs_policies = pytest.mark.skipif(not IS_BUILT, reason="the package was built without an installation of dp_bench")
OBS = {"agent_pos": [100.0, 200.0], "keypoint": np.full((9, 2), 250.0)}
DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8}


def read_safetensors(file):
    data = file.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + n + begin : 8 + n + end], DTYPES[entry["dtype"]])
        arrays[name] = values.reshape(entry["shape"])
    return arrays


@pytest.fixture(scope="module")
def policy():
    return dp_bench.load_policy(CHECKPOINT)


def test_a_package_without_policies_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(dp_bench.ProgramError, match="--config-settings cmake.define.dp_bench_DIR="):
        dp_bench.load_policy(CHECKPOINT)


@needs_policies
@pytest.mark.skipif(not os.environ.get("DP_BENCH_PROGRAM"), reason="DP_BENCH_PROGRAM names no dp_bench program")
@pytest.mark.parametrize("micro_batch", [0, 1])
def test_acts_bit_for_bit_as_in_an_evaluation(tmp_path, micro_batch):
    overrides = {"env_runner.n_train": 0, "env_runner.n_test": 1, "env_runner.n_videos": 0}
    overrides |= {
        "env_runner.record_traces": True,
        "env_runner.max_steps": 10,
        "env_runner.check_batch_invariance": False,
    }
    if micro_batch:
        overrides["env_runner.micro_batch"] = micro_batch
    run = dp_bench.evaluate(CHECKPOINT, overrides, output=tmp_path / "run", progress=False)
    seed = run.episodes[0].seed
    trace = read_safetensors(run.path / f"traces/test_{seed}.safetensors")
    assert len(trace["action"]) == 10  # two plans

    policy = dp_bench.load_policy(CHECKPOINT, micro_batch=micro_batch)
    policy.reset(seed)
    row = 0  # an evaluation observes only the steps that a plan reads
    for step, expected in enumerate(trace["action"]):
        while row + 1 < len(trace["obs_step"]) and trace["obs_step"][row + 1] <= step:
            row += 1
        action = policy.act({key: trace[f"obs.{key}"][row] for key in policy.obs})
        assert action.tobytes() == expected.tobytes(), f"step {step}"


@needs_policies
def test_says_what_it_reads(policy):
    assert policy.obs["keypoint"] == dp_bench.policy.ObsKey((9, 2), "float32")
    assert (policy.action_dim, policy.horizon, policy.n_obs_steps, policy.n_action_steps) == (2, 16, 2, 8)


@needs_policies
def test_an_episode_depends_on_its_seed_alone(policy):
    def episode(seed):
        policy.reset(seed)
        return np.stack([policy.act(OBS) for _ in range(10)])

    first, other = episode(1), episode(2)
    assert np.array_equal(episode(1), first) and not np.array_equal(other, first)
    assert policy.timing.act_s > 0


@needs_policies
def test_a_batch_gets_the_first_plans_of_its_episodes(policy):
    def window(i):
        return {"agent_pos": np.full(2, 100.0 + i, np.float32), "keypoint": np.full((9, 2), 250.0 - i, np.float32)}

    seeds = [7, 8, 7]
    expected = []
    for i, seed in enumerate(seeds):
        policy.reset(seed)
        expected.append(np.stack([policy.act(window(i)) for _ in range(policy.n_action_steps)]))
    policy.reset(9)
    before = policy.act(OBS)
    batch = {key: np.stack([np.stack([window(i)[key]] * 2) for i in range(3)]) for key in policy.obs}
    chunks = policy.predict(batch, seeds)
    assert chunks.shape == (3, 8, 2)
    assert chunks.tobytes() == np.stack(expected).tobytes()
    after = policy.act(OBS)  # the second action of the same plan
    policy.reset(9)
    assert np.array_equal(policy.act(OBS), before) and np.array_equal(policy.act(OBS), after)
    assert policy.predict({key: value[:0] for key, value in batch.items()}, []).shape == (0, 8, 2)


@needs_policies
def test_rows_may_be_at_any_step_of_an_episode(policy):
    begin = {key: np.zeros((2, 2, *spec.shape), np.float32) for key, spec in policy.obs.items()}
    chunks = policy.predict(begin, [7, 7], [0, 8])
    assert np.array_equal(chunks[0], policy.predict(begin, [7, 7])[0])
    assert not np.array_equal(chunks[0], chunks[1])  # the noise of another step
    with pytest.raises(dp_bench.UsageError, match="there are 1 steps, expected 2"):
        policy.predict(begin, [7, 7], [0])


POLICY_FILE = """
import sys
import numpy as np
import dp_bench

loaded = dp_bench.load_policy(sys.argv[1], micro_batch=2)

def policy(observation, *, seed, step):
    return loaded.predict({key: observation[key][None] for key in loaded.obs}, [seed], [step])[0]

dp_bench.serve_policy(policy)
"""


@needs_policies
@pytest.mark.skipif(not os.environ.get("DP_BENCH_PROGRAM"), reason="DP_BENCH_PROGRAM names no dp_bench program")
def test_a_checkpoint_behind_serve_policy_plays_the_episodes_of_eval(tmp_path):
    pytest.importorskip("websockets")
    pytest.importorskip("msgpack")
    runner = {"n_train": 0, "n_test": 2, "n_videos": 0, "max_steps": 40, "micro_batch": 2}
    overrides = [f"env_runner.{key}={value}" for key, value in runner.items()]
    (tmp_path / "policy.py").write_text(POLICY_FILE)
    command = json.dumps([sys.executable, str(tmp_path / "policy.py"), str(CHECKPOINT)])
    program = [os.environ["DP_BENCH_PROGRAM"], "eval", "--output"]
    of_policy = {
        "own": ["--checkpoint", str(CHECKPOINT)],
        "remote": ["--policy", "remote", "--env", "pusht", f"policy.params.command={command}"],
    }
    hashes = {}
    for name, options in of_policy.items():
        subprocess.run([*program, str(tmp_path / name), *options, *overrides], check=True)
        rows = (tmp_path / name / "episodes.jsonl").read_text().splitlines()
        hashes[name] = [json.loads(row)["trace_hash"] for row in rows]
    assert hashes["own"] == hashes["remote"]


@needs_policies
def test_wrong_batches_are_explained(policy):
    batch = {key: np.zeros((2, 2, *spec.shape)) for key, spec in policy.obs.items()}
    with pytest.raises(dp_bench.UsageError, match=r"expected \[3, 2, ...\]"):
        policy.predict(batch, [1, 2, 3])
    with pytest.raises(dp_bench.UsageError, match="keypoint"):
        policy.predict({"agent_pos": batch["agent_pos"]}, [1, 2])
    with pytest.raises(dp_bench.NumericError, match="nan"):
        policy.predict({**batch, "agent_pos": np.full((2, 2, 2), np.nan)}, [1, 2])
    with pytest.raises(ValueError, match="expected seeds from 0"):
        policy.predict(batch, [1, -1])


@needs_policies
def test_arrays_may_have_any_strides(policy):
    policy.reset(3)
    expected = policy.act({"agent_pos": [1.0, 2.0], "keypoint": np.arange(18.0).reshape(9, 2)})
    policy.reset(3)
    strided = np.arange(18, dtype=np.float32).reshape(9, 2)[::-1].copy()[::-1]
    assert strided.strides[0] < 0
    assert np.array_equal(policy.act({"agent_pos": np.float32([1, 0, 2])[::2], "keypoint": strided}), expected)


@needs_policies
def test_wrong_observations_are_explained_and_forgotten(policy):
    with pytest.raises(ValueError, match="expected a seed from 0"):
        policy.reset(-1)
    policy.reset(4)
    first = policy.act(OBS)
    policy.reset(4)
    for wrong, kind, message in [
        ({"agent_pos": [0, 0]}, dp_bench.UsageError, "'keypoint' is missing"),
        (OBS | {"other": [0]}, dp_bench.UsageError, "other"),
        (OBS | {"agent_pos": [0, 0, 0]}, dp_bench.UsageError, r"agent_pos.*\[3\]"),
        (OBS | {"agent_pos": [float("nan"), 0]}, dp_bench.NumericError, "agent_pos"),
        (OBS | {"agent_pos": np.zeros([1] * 9)}, dp_bench.UsageError, "8|eight"),
        (OBS | {"other": np.zeros(2, np.complex64)}, dp_bench.UsageError, "expected uint8, uint16 or float32"),
    ]:
        with pytest.raises(kind, match=message):
            policy.act(wrong)
    assert np.array_equal(policy.act(OBS), first)


@needs_policies
def test_what_cannot_be_loaded_is_explained(tmp_path):
    with pytest.raises(dp_bench.DataError, match="is not a folder; expected that of a checkpoint"):
        dp_bench.load_policy(tmp_path / "nowhere")
    with pytest.raises(dp_bench.DataError, match="is neither a checkpoint"):
        dp_bench.load_policy(tmp_path)
    with pytest.raises(dp_bench.UsageError, match="expected ema or model"):
        dp_bench.load_policy(CHECKPOINT, weights="best")


@needs_policies
def test_pythons_lock_is_free_while_a_policy_computes(policy):
    ticks, is_done = [], threading.Event()

    def tick():
        while not is_done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    policy.reset(5)
    begin = time.perf_counter()
    policy.act(OBS)  # plans
    end = time.perf_counter()
    is_done.set()
    thread.join()
    assert policy.timing.plan_s > 0.002
    assert sum(begin < tick < end for tick in ticks) >= 3


@needs_policies
def test_two_threads_take_turns(policy):
    policy.reset(6)
    threads = [threading.Thread(target=lambda: [policy.act(OBS) for _ in range(20)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    policy.reset(6)
    assert policy.act(OBS).shape == (2,)


@needs_policies
@pytest.mark.parametrize("latency_steps", [0, 2])
def test_a_forked_process_says_that_the_threads_are_not_there(latency_steps):
    policies = [dp_bench.load_policy(CHECKPOINT, latency_steps=latency_steps)]
    policies[0].reset(0)
    first = policies[0].act(OBS)
    # it must not wait for threads where it is freed either
    calls = (lambda: policies[0].reset(0), lambda: policies[0].act(OBS), policies.clear)
    messages = errors_in_a_fork(dp_bench.UsageError, *calls)
    assert len(messages) == 2 and all("'spawn' or 'forkserver'" in message for message in messages)
    policies[0].reset(0)
    assert np.array_equal(policies[0].act(OBS), first)


@needs_policies
def test_another_libtorch_in_the_process_is_refused(tmp_path):
    # any library of that name counts
    source = tmp_path / "empty.c"
    source.touch()
    library = tmp_path / "libtorch_cpu.so"
    subprocess.run(["cc", "-shared", "-o", library, source], check=True)
    script = f"import ctypes, dp_bench; ctypes.CDLL({str(library)!r}); dp_bench.load_policy({str(CHECKPOINT)!r})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"found {library} in this process" in result.stderr
