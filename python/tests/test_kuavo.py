"""The Kuavo environments; skipped without MuJoCo."""

import gymnasium
import numpy as np
import pytest
from forked import errors_in_a_fork
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv

import dp_bench
from dp_bench import kuavo

IDS = [f"dp_bench/Kuavo{task}-v0" for task in ("PickPlace", "BimanualLift", "WeighRelay")]


@pytest.fixture(autouse=True, scope="module")
def needs_mujoco():
    pytest.importorskip("mujoco", reason="the extra dp_bench[kuavo] is not installed")


def actions(env, n_steps):
    """Small motions around the pose after the reset."""
    state = env.reset(seed=1)[0]["observation.state"]
    offsets = np.random.default_rng(0).uniform(-0.1, 0.1, (n_steps, 16))
    return np.clip(state + offsets, env.action_space.low, env.action_space.high).astype(np.float32)


@pytest.mark.parametrize("env_id", IDS)
def test_keeps_gymnasiums_contract(env_id):
    env = gymnasium.make(env_id)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == env.unwrapped._spec["max_steps"]
    assert env.metadata["render_fps"] == env.unwrapped._spec["control_hz"]


def test_the_same_seed_and_actions_give_the_same_episode():
    first, second = dp_bench.KuavoEnv(), dp_bench.KuavoEnv()
    second.reset(seed=99)
    second.step(actions(second, 1)[0])
    first.reset(seed=5), second.reset(seed=5)
    for action in actions(dp_bench.KuavoEnv(), 20):
        a, b = first.step(action), second.step(action)
        assert all(a[0][key].tobytes() == b[0][key].tobytes() for key in a[0]) and a[1:] == b[1:]
    assert np.abs(a[0]["observation.state"]).max() > 0.1


def test_other_seeds_place_the_objects_elsewhere():
    env = dp_bench.KuavoEnv()
    starts = [env.reset(seed=seed)[0]["observation.environment_state"] for seed in (0, 1, None, None)]
    assert len(np.unique(starts, axis=0)) == 4


@pytest.mark.parametrize("obs_type", ["rgb", "rgbd"])
def test_images(obs_type):
    env = dp_bench.KuavoEnv(obs_type=obs_type, image_width=64, image_height=48)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    head = obs["observation.images.head_cam_h"]
    assert head.shape == (48, 64, 3) and head.std() > 5
    if obs_type == "rgbd":
        depth = obs["observation.depth.depth_h"]
        assert depth.shape == (48, 64, 1) and depth.dtype == np.uint16
        assert 200 < np.median(depth) < 3000, "millimetres to the table"


def test_render_draws_a_frame():
    env = dp_bench.KuavoEnv(visualization_width=160, visualization_height=120)
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (120, 160, 3) and frame.std() > 5


def test_an_async_vector_env():
    envs = AsyncVectorEnv([lambda: gymnasium.make("dp_bench:dp_bench/KuavoPickPlace-v0")] * 2)
    try:
        obs, _ = envs.reset(seed=3)
        single = dp_bench.KuavoEnv()
        for i in range(2):
            expected, _ = single.reset(seed=3 + i)
            for key in expected:
                assert np.array_equal(obs[key][i], expected[key])
    finally:
        envs.close()


def test_a_forked_process_says_that_it_cannot_draw():
    env = dp_bench.KuavoEnv(obs_type="rgb", image_width=64, image_height=48)
    env.reset(seed=0)
    (message,) = errors_in_a_fork(RuntimeError, lambda: env.reset(seed=1))
    assert "start processes another way (in Python: 'spawn' or 'forkserver')" in message


def make_with_images():
    return gymnasium.make("dp_bench:dp_bench/KuavoPickPlace-v0", obs_type="rgb", image_width=64, image_height=48)


def test_an_async_vector_env_with_images_after_one_was_drawn():
    single = make_with_images()
    expected = single.reset(seed=3)[0]["observation.images.head_cam_h"]
    envs = AsyncVectorEnv([make_with_images], context="forkserver")
    try:
        assert np.array_equal(envs.reset(seed=3)[0]["observation.images.head_cam_h"][0], expected)
    finally:
        envs.close()


def test_errors_say_what_was_expected():
    env = dp_bench.KuavoEnv()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(16))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected an action of shape \(16,\), found shape \(3,\)"):
        env.step(np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        env.step(np.full(16, np.nan))
    with pytest.raises(ValueError, match="expected task to be one of 'pick_place', .*found 'fold'"):
        dp_bench.KuavoEnv(task="fold")
    with pytest.raises(ValueError, match="lihgt"):
        dp_bench.KuavoEnv(randomization={"lihgt": 0.5})


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(kuavo, "_MUJOCO", "libmujoco.so.1.2.3")
    with pytest.raises(DependencyNotInstalled, match=r"expected libmujoco.so.1.2.3 .*pip install 'dp_bench\[kuavo\]'"):
        dp_bench.KuavoEnv()
