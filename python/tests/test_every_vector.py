"""What every vector environment promises, whatever it simulates."""

import gymnasium
import numpy as np
import pytest
from equality import assert_equal
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

import dp_bench

N = 3


class PushT:
    id, single, key, options = "dp_bench/PushT-v0", dp_bench.PushTEnv, "pixels", {"obs_type": "pixels_agent_pos"}

    def actions(self, n_steps):
        return np.random.default_rng(0).uniform(0, 512, (n_steps, N, 2)).astype(np.float32)


class Kuavo:
    id, single, key, options = "dp_bench/KuavoPickPlace-v0", dp_bench.KuavoEnv, "observation.state", {}

    def actions(self, n_steps):
        """Small motions around a pose of the arms."""
        state = dp_bench.KuavoEnv().reset(seed=1)[0]["observation.state"]
        return (state + np.random.default_rng(0).uniform(-0.1, 0.1, (n_steps, N, 16))).astype(np.float32)


@pytest.fixture(params=[PushT, Kuavo])
def kind(request):
    if request.param is Kuavo:
        pytest.importorskip("mujoco", reason="the extra dp_bench[kuavo] is not installed")
    return request.param()


@pytest.fixture
def make(kind):
    return lambda **kwargs: gymnasium.make_vec(kind.id, num_envs=N, **kind.options | kwargs)


def test_copies_stay_valid_and_views_alternate(kind, make):
    copies, views = make(), make(copy=False)
    expected, actual = copies.reset(seed=0)[0], views.reset(seed=0)[0]
    kept, addresses = expected[kind.key].copy(), []
    for action in kind.actions(6):
        latest = views.step(action)[0]
        addresses.append(latest[kind.key].ctypes.data)
        assert_equal(latest, copies.step(action)[0], "views")
    assert np.array_equal(expected[kind.key], kept)
    assert addresses[0::2] == [addresses[0]] * 3 and addresses[1::2] == [addresses[1]] * 3
    assert addresses[0] != addresses[1]
    assert actual[kind.key].ctypes.data in addresses


def test_disabled_autoreset_waits_for_a_reset(kind, make):
    env, (action,) = make(autoreset_mode="Disabled", max_episode_steps=2), kind.actions(1)
    env.reset(seed=0)
    env.step(action)
    env.reset(seed=[9, 9, 7], options={"reset_mask": np.arange(N) == 2})
    assert env.np_random_seed == (0, 1, 7)
    truncated = env.step(action)[3]
    assert truncated.tolist() == [True, True, False]
    with pytest.raises(RuntimeError, match="the episode of env 0 has ended; reset it"):
        env.step(action)
    env.reset(options={"reset_mask": truncated})
    assert env.step(action)[3].tolist() == [False, False, True]
    env.reset()
    assert not env.step(action)[3].any()


def test_render_gives_one_frame_per_env(kind, make):
    size = {"visualization_width": 64, "visualization_height": 48}
    env, single = make(**size), kind.single(**size)
    with pytest.raises(RuntimeError, match="env 0 has no episode"):
        env.render()
    env.reset(seed=0), single.reset(seed=1)
    frames = env.render()
    assert len(frames) == N and all(frame.shape == (48, 64, 3) for frame in frames)
    assert np.array_equal(frames[1], single.render())


def test_refuses_bad_actions_before_any_env_steps(kind, make):
    env, expected = make(), make()
    env.reset(seed=0), expected.reset(seed=0)
    action = kind.actions(1)[0]
    shape, last = rf"\({N}, {action.shape[1]}\)", action.shape[1] - 1
    bad = action.copy()
    bad[2, last] = np.nan
    for actions, message in (
        (np.zeros((N, 3)), rf"expected actions of shape {shape}, found shape \({N}, 3\)"),
        (np.zeros(2), r"found shape \(2,\)"),
        (bad, f"expected a finite action for env 2, found nan in dimension {last}"),
    ):
        with pytest.raises(ValueError, match=message):
            env.step(actions)
    assert_equal(env.step(action), expected.step(action), "step")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": [1, 2]}, "expected 3 seeds, found 2"),
        ({"seed": -1}, "expected seeds from 0 to 2"),
        ({"options": {"reset_mask": [True] * N}}, "as a numpy array of 3 bools"),
        ({"options": {"reset_mask": np.zeros(N, bool)}}, "at least one True"),
    ],
)
def test_refuses_a_bad_reset(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make().reset(**arguments)


def test_a_closed_env_says_so(kind, make):
    env = make(copy=False, num_threads=2)
    obs = env.reset(seed=0)[0][kind.key]
    env.close()
    env.close()
    assert np.isfinite(obs).all(), "results stay valid"
    for call in (lambda: env.step(kind.actions(1)[0]), env.reset, env.render):
        with pytest.raises(ClosedEnvironmentError, match="create another one"):
            call()


def test_needs_a_reset_of_all_envs_first(kind, make):
    env = make()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(kind.actions(1)[0])
    with pytest.raises(RuntimeError, match="env 1 has no episode"):
        env.reset(seed=0, options={"reset_mask": np.arange(N) == 0})
