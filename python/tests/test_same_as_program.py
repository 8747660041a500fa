"""Episodes that the dp_bench program recorded, again in Python. DP_BENCH_PROGRAM names the program."""

import json
import os
import subprocess

import numpy as np
import pytest

import dp_bench

PROGRAM = os.environ.get("DP_BENCH_PROGRAM")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="DP_BENCH_PROGRAM names no dp_bench program")


def collect(env, folder):
    """Seeds, and for each episode its arrays, of two demonstrations of the env's expert."""
    zarr = pytest.importorskip("zarr")
    path = folder / f"{env}.zarr"
    command = [PROGRAM, "collect", "--env", env, "--episodes", "2", "--output", path]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    data = zarr.open(str(path), mode="r")
    seeds = json.loads((path / ".zattrs").read_text())["episodes"]["seed"]
    ends = data["meta/episode_ends"][:]
    starts = [0, *ends[:-1]]
    arrays = {key: data[f"data/{key}"][:] for key in data["data"]}
    episodes = [{key: rows[a:b] for key, rows in arrays.items()} for a, b in zip(starts, ends, strict=True)]
    return zip(seeds, episodes, strict=True)


def test_pusht_with_diffusion_policys_seeds(tmp_path):
    env = dp_bench.PushTEnv(seeding="diffusion_policy")
    for seed, episode in collect("pusht", tmp_path):
        state, _ = env.reset(seed=seed)
        for agent_pos, action in zip(episode["agent_pos"], episode["action"], strict=True):
            assert np.array_equal(state[:2].astype(np.float32), agent_pos)
            state, _, terminated, _, info = env.step(action)
        # the expert's pushes solve the task here too
        assert terminated and info["is_success"]


def test_kuavo(tmp_path):
    pytest.importorskip("mujoco", reason="the extra dp_bench[kuavo] is not installed")
    env = dp_bench.KuavoEnv()
    for seed, episode in collect("kuavo_dualarm", tmp_path):
        obs, _ = env.reset(seed=seed)
        actions = episode.pop("action")
        for step, action in enumerate(actions):
            assert set(obs) == set(episode)
            for key, rows in episode.items():
                assert obs[key].tobytes() == rows[step].tobytes(), f"{key} at step {step}"
            obs, _, terminated, _, info = env.step(action)
        assert terminated and info["is_success"]
