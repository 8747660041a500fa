"""The Kuavo vector environment: equal to Gymnasium's SyncVectorEnv over the single environment."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dp_bench
from equality import assert_equal

N = 3
ID = "dp_bench/KuavoPickPlace-v0"
PICTURES = {"obs_type": "rgbd", "image_width": 32, "image_height": 24}


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


@pytest.mark.parametrize("kwargs", [{}, PICTURES], ids=["state", "rgbd"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_equals_a_sync_vector_env(mode, kwargs):
    spec = gymnasium.spec(ID)
    peer = SyncVectorEnv([lambda: gymnasium.make(spec, max_episode_steps=4, **kwargs)] * N, autoreset_mode=mode)
    ours = make(max_episode_steps=4, autoreset_mode=mode, num_threads=2, **kwargs)
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    assert ours.metadata["autoreset_mode"] is mode
    assert_equal(ours.reset(seed=3), peer.reset(seed=3), "reset")
    mask = {"reset_mask": np.arange(N) == 1}
    n_ended = 0
    for i, action in enumerate(actions(11)):
        if i == 2:  # its episodes end at other steps from now on
            assert_equal(ours.reset(options=mask), peer.reset(options=dict(mask)), "mask")
        result = ours.step(action)
        assert_equal(result, peer.step(action), f"step {i}")
        n_ended += int(result[3].sum())
    assert n_ended >= 2 * N


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


def test_copies_stay_valid_and_views_alternate():
    copies, views = make(), make(copy=False)
    kept = copies.reset(seed=0)[0]["observation.state"]
    expected = kept.copy()
    views.reset(seed=0)
    addresses = []
    for action in actions(4):
        latest = views.step(action)[0]
        addresses.append(latest["observation.state"].ctypes.data)
        assert_equal(latest, copies.step(action)[0], "views")
    assert np.array_equal(kept, expected)
    assert addresses[0] == addresses[2] != addresses[1] == addresses[3]


def test_disabled_autoreset_waits_for_a_reset():
    env = make(autoreset_mode="Disabled", max_episode_steps=1)
    env.reset(seed=0)
    assert env.step(actions(1)[0])[3].all()
    env.reset(seed=[7, None, None], options={"reset_mask": np.arange(N) == 0})
    assert env.np_random_seed == (7, 1, 2)
    with pytest.raises(RuntimeError, match="the episode of env 1 has ended; reset it"):
        env.step(actions(1)[0])
    env.reset()
    assert env.step(actions(1)[0])[3].all()


def test_every_task_has_a_vector_env_with_its_limit():
    for name in ("KuavoPickPlace", "KuavoBimanualLift", "KuavoWeighRelay"):
        env = gymnasium.make_vec(f"dp_bench/{name}-v0", num_envs=1)
        assert env._spec["max_steps"] == gymnasium.spec(f"dp_bench/{name}-v0").max_episode_steps
        spec = pickle.loads(pickle.dumps(env.spec))
        assert gymnasium.make_vec(spec, num_envs=1).single_observation_space == env.single_observation_space


def test_render_gives_one_frame_per_env():
    env = make(2, visualization_width=64, visualization_height=48)
    with pytest.raises(RuntimeError, match="env 0 was never reset"):
        env.render()
    env.reset(seed=0)
    single = dp_bench.KuavoEnv(visualization_width=64, visualization_height=48)
    single.reset(seed=1)
    assert np.array_equal(env.render()[1], single.render())


def test_refuses_bad_actions_before_any_env_steps():
    env, expected = make(), make()
    env.reset(seed=0), expected.reset(seed=0)
    bad = actions(1)[0]
    bad[2, 5] = np.nan
    with pytest.raises(ValueError, match="expected a finite action for env 2, found nan in dimension 5"):
        env.step(bad)
    with pytest.raises(ValueError, match=r"expected actions of shape \(3, 16\), found shape \(3, 2\)"):
        env.step(np.zeros((N, 2)))
    assert_equal(env.step(actions(1)[0]), expected.step(actions(1)[0]), "step")


def test_refuses_bad_arguments():
    for kwargs, message in (
        ({"num_envs": 0}, "expected at least 1 environment"),
        ({"task": "fold"}, "expected task to be one of 'pick_place'"),
        ({"max_episode_steps": 0}, "expected max_episode_steps of at least 1 or None"),
        ({"perturb": {"wind": 1}}, "wind"),
    ):
        with pytest.raises(ValueError, match=message):
            dp_bench.KuavoVectorEnv(**{"num_envs": N} | kwargs)
    with pytest.raises(ResetNeeded, match="call reset"):
        make().step(actions(1)[0])
