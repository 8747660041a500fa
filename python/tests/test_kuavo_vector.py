"""The Kuavo vector environment: equal to Gymnasium's SyncVectorEnv over the single environment."""

import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from equality import assert_equal
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dp_bench

N = 3
ID = "dp_bench/KuavoPickPlace-v0"
IMAGES = {"obs_type": "rgbd", "image_width": 32, "image_height": 24}
RANDOM = {"depth_dtype": "float32", "randomization": {"light": 0.5, "action_noise": 0.01}, "perturb": {"light": 0.3}}


@pytest.fixture(autouse=True, scope="module")
def needs_mujoco():
    pytest.importorskip("mujoco", reason="the extra dp_bench[kuavo] is not installed")


def make(num_envs=N, **kwargs):
    return gymnasium.make_vec(ID, num_envs=num_envs, **kwargs)


def actions(n_steps, num_envs=N):
    """Small motions around a pose of the arms."""
    state = dp_bench.KuavoEnv().reset(seed=1)[0]["observation.state"]
    offsets = np.random.default_rng(0).uniform(-0.1, 0.1, (n_steps, num_envs, 16))
    space = dp_bench.KuavoEnv().action_space
    return np.clip(state + offsets, space.low, space.high).astype(np.float32)


def play(env, n_steps, num_envs, seed=3):
    results = [env.reset(seed=seed), *[env.step(action) for action in actions(n_steps, num_envs)]]
    return pickle.loads(pickle.dumps(results))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("kwargs", [{"num_threads": 1}, {}, IMAGES | RANDOM], ids=["one thread", "state", "rgbd"])
def test_equals_a_sync_vector_env(mode, kwargs):
    single = {key: value for key, value in kwargs.items() if key != "num_threads"}
    peer = SyncVectorEnv([lambda: gymnasium.make(ID, max_episode_steps=3, **single)] * N, autoreset_mode=mode)
    ours = make(max_episode_steps=3, autoreset_mode=mode, **{"num_threads": 2} | kwargs)
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    assert ours.metadata == peer.metadata
    assert_equal(ours.reset(seed=3), peer.reset(seed=3), "reset")
    assert ours.np_random_seed == peer.np_random_seed
    ended, n_ended = np.zeros(N, bool), 0
    for i, action in enumerate(actions(9)):
        if i == 1 or (mode is AutoresetMode.DISABLED and ended.any()):
            mask = ended if i > 1 else np.arange(N) == 1  # its episodes end at other steps from now on
            seeds = [None, 77, None]
            results = [env.reset(seed=seeds, options={"reset_mask": mask}) for env in (ours, peer)]
            assert_equal(*results, f"mask before step {i}")
        result = ours.step(action)
        assert_equal(result, peer.step(action), f"step {i}")
        assert result[0] in ours.observation_space
        ended = result[2] | result[3]
        n_ended += int(ended.sum())
    assert n_ended >= 2 * N


@pytest.mark.parametrize("env_id", [f"dp_bench/Kuavo{task}-v0" for task in ("BimanualLift", "WeighRelay")])
def test_other_tasks_equal_a_sync_vector_env(env_id):
    peer = SyncVectorEnv([lambda: gymnasium.make(env_id)] * 2)
    ours = gymnasium.make_vec(env_id, num_envs=2)
    assert_equal(ours.reset(seed=[9, 4]), peer.reset(seed=[9, 4]), "reset")
    for action in actions(2, 2):
        assert_equal(ours.step(action), peer.step(action), "step")


def test_results_depend_on_neither_threads_nor_the_number_of_envs():
    many = play(make(8, num_threads=1), 12, 8)
    for step, (a, b) in enumerate(zip(many, play(make(8, num_threads=3), 12, 8), strict=True)):
        assert_equal(a, b, f"step {step}")
    one = make(1)
    first = one.reset(seed=3 + 5)[0]
    for key, array in first.items():
        assert np.array_equal(array[0], many[0][0][key][5]), key
    for i, action in enumerate(actions(12, 8)):
        state = one.step(action[5:6])[0]["observation.state"]
        assert np.array_equal(state[0], many[i + 1][0]["observation.state"][5]), i


def test_a_reset_without_a_seed_continues_each_generator():
    env, single = make(2), dp_bench.KuavoEnv()
    env.reset(seed=[5, 6])
    seeds = env.reset()[1]["seed"].tolist() + env.reset()[1]["seed"].tolist()
    expected = [np.random.default_rng(seed).integers(2**63, size=2).tolist() for seed in (5, 6)]
    assert seeds == [expected[0][0], expected[1][0], expected[0][1], expected[1][1]]
    single.reset(seed=5)
    assert single.reset()[1]["seed"] == seeds[0]
    assert len({*make().reset()[1]["seed"], *make().reset()[1]["seed"]}) == 2 * N, "random without any seed"


def test_every_task_has_a_vector_env_with_its_limit():
    for name in ("KuavoPickPlace", "KuavoBimanualLift", "KuavoWeighRelay"):
        env = gymnasium.make_vec(f"dp_bench/{name}-v0", num_envs=1)
        assert env._spec["max_steps"] == gymnasium.spec(f"dp_bench/{name}-v0").max_episode_steps
        spec = pickle.loads(pickle.dumps(env.spec))
        assert gymnasium.make_vec(spec, num_envs=1).single_observation_space == env.single_observation_space


def test_seeds_have_63_bits():
    with pytest.raises(ValueError, match=r"expected seeds from 0 to 2\*\*63 - 1, found"):
        make().reset(seed=2**63)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_error_of_a_simulation_is_raised(num_threads):
    """In a process where images cannot be drawn."""
    code = (
        "import dp_bench\n"
        f"env = dp_bench.KuavoVectorEnv(2, obs_type='rgb', num_threads={num_threads})\n"
        "for _ in range(2):\n"
        "    try:\n        env.reset(seed=0)\n"
        "    except RuntimeError as error:\n        print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"MUJOCO_GL": "glfw"}, capture_output=True, text=True, check=True
    )
    assert result.stdout.count("MUJOCO_GL is 'glfw'") == 2


def test_refuses_bad_arguments():
    for kwargs, message in (
        ({"num_envs": 0}, "expected at least 1 environment"),
        ({"task": "fold"}, "expected task to be one of 'pick_place'"),
        ({"max_episode_steps": 0}, "expected max_episode_steps of at least 1 or None"),
        ({"perturb": {"wind": 1}}, "wind"),
    ):
        with pytest.raises(ValueError, match=message):
            dp_bench.KuavoVectorEnv(**{"num_envs": N} | kwargs)
