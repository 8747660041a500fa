"""The vector environment: equal to Gymnasium's SyncVectorEnv over the single environment."""

import os
import pickle

import gymnasium
import numpy as np
import pytest
from equality import assert_equal
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

import dp_bench

N = 5
OBS_TYPES = ["state", "environment_state_agent_pos", "pixels", "pixels_agent_pos"]


def make(num_envs=N, **kwargs):
    return gymnasium.make_vec("dp_bench/PushT-v0", num_envs=num_envs, **kwargs)


def actions(n_steps, num_envs=N, seed=0):
    return np.random.default_rng(seed).uniform(0, 512, (n_steps, num_envs, 2)).astype(np.float32)


def play(env, n_steps, seed=3, seed_of_actions=0):
    """Results of a reset and of steps, copied."""
    results = [env.reset(seed=seed)]
    results += [env.step(a) for a in actions(n_steps, env.num_envs, seed_of_actions)]
    return pickle.loads(pickle.dumps(results))


@pytest.mark.parametrize("seeding", ["gym_pusht", "diffusion_policy"])
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("obs_type", OBS_TYPES)
def test_equals_a_sync_vector_env(obs_type, mode, seeding):
    kwargs = {"obs_type": obs_type, "seeding": seeding}
    spec = gymnasium.spec("dp_bench/PushT-v0")
    peer = SyncVectorEnv([lambda: gymnasium.make(spec, max_episode_steps=9, **kwargs)] * N, autoreset_mode=mode)
    ours = make(max_episode_steps=9, autoreset_mode=mode, num_threads=2, **kwargs)
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    assert ours.metadata["autoreset_mode"] is mode

    # env 2 starts at the goal, so its first episode ends before the others
    start = {"reset_to_state": [100, 100, 256 - 45 * np.sqrt(0.5), 211 + 45 * np.sqrt(0.5), np.pi / 4]}
    mask = np.arange(N) == 2
    assert_equal(ours.reset(seed=3), peer.reset(seed=3), "reset")
    assert_equal(
        ours.reset(options=start | {"reset_mask": mask}), peer.reset(options=start | {"reset_mask": mask}), "goal"
    )
    n_ended = 0
    for i, action in enumerate(actions(25)):
        result = ours.step(action)
        assert_equal(result, peer.step(action), f"step {i}")
        ended = result[2] | result[3]
        n_ended += int(ended.sum())
        if mode is AutoresetMode.DISABLED and ended.any():
            assert_equal(*[env.reset(options={"reset_mask": ended}) for env in (ours, peer)], f"reset after step {i}")
        # corners of the block may lie outside of gym-pusht's space, where a wall is pressed
        assert obs_type == "environment_state_agent_pos" or result[0] in ours.observation_space
    assert n_ended >= 2 * N


@pytest.mark.parametrize("obs_type", ["state", "pixels_agent_pos"])
def test_results_do_not_depend_on_threads(obs_type):
    expected = play(make(64, obs_type=obs_type, num_threads=1), 40)
    for num_threads in (2, 4):
        actual = play(make(64, obs_type=obs_type, num_threads=num_threads), 40)
        for step, (a, b) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(a, b, f"{num_threads} threads, step {step}")


def test_results_do_not_depend_on_the_number_of_envs():
    many, one = make(33, max_episode_steps=7), make(1, max_episode_steps=7)
    seeds = list(range(50, 83))
    for env in (0, 17, 32):
        observations = [many.reset(seed=seeds)[0][env], *[many.step(a)[0][env] for a in actions(30, 33)]]
        single = [one.reset(seed=seeds[env])[0][0], *[one.step(a[env : env + 1])[0][0] for a in actions(30, 33)]]
        assert np.array_equal(observations, single)


def test_copies_stay_valid_and_views_alternate():
    copies, views = make(obs_type="pixels_agent_pos"), make(obs_type="pixels_agent_pos", copy=False)
    expected, actual = copies.reset(seed=0)[0], views.reset(seed=0)[0]
    kept, addresses = expected["pixels"].copy(), []
    for action in actions(6):
        latest = views.step(action)[0]
        addresses.append(latest["pixels"].ctypes.data)
        assert_equal(latest, copies.step(action)[0], "views")
    assert np.array_equal(expected["pixels"], kept)
    assert addresses[0::2] == [addresses[0]] * 3 and addresses[1::2] == [addresses[1]] * 3
    assert addresses[0] != addresses[1]
    assert actual["pixels"].ctypes.data in addresses


def test_a_mask_resets_only_its_envs():
    env = make()
    env.reset(seed=0)
    before = env.step(actions(1)[0])[0]
    mask = np.array([True, False, True, False, False])
    after, infos = env.reset(seed=[10, None, 12, 99, 99], options={"reset_mask": mask})
    assert np.array_equal(after[~mask], before[~mask])
    single = dp_bench.PushTEnv()
    for i in (0, 2):
        assert np.array_equal(after[i], single.reset(seed=10 + i)[0])
    assert np.array_equal(infos["_pos_agent"], mask)
    assert env.np_random_seed == (10, 1, 12, 3, 4)


def test_disabled_autoreset_waits_for_a_reset():
    env = make(autoreset_mode="Disabled", max_episode_steps=2)
    env.reset(seed=0)
    env.step(actions(1)[0])
    env.reset(options={"reset_mask": np.arange(N) == 3})
    truncated = env.step(actions(1)[0])[3]
    assert truncated.tolist() == [True, True, True, False, True]
    with pytest.raises(RuntimeError, match="the episode of env 0 has ended; reset it"):
        env.step(actions(1)[0])
    env.reset(options={"reset_mask": truncated})
    assert env.step(actions(1)[0])[3].tolist() == [False, False, False, True, False]


def test_an_unseeded_first_reset_differs_between_envs_and_instances():
    first, second = make().reset()[0], make().reset()[0]
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 2 * N


def test_a_loop_of_random_actions_ends_and_restarts_episodes():
    env = make(16, max_episode_steps=20)
    env.action_space.seed(0)
    env.reset(seed=0)
    finished, length, lengths = np.zeros(16), np.zeros(16), []
    for _ in range(105):
        _, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        is_reset = ~infos["_coverage"]
        assert (rewards[is_reset] == 0).all()
        length = np.where(is_reset, 0, length + 1)
        lengths += length[truncated].tolist()
        finished += terminated | truncated
    assert (finished == 5).all() and set(lengths) == {20.0}


def test_equals_an_async_vector_env():
    make_env = lambda: gymnasium.make("dp_bench:dp_bench/PushT-v0")
    peer = AsyncVectorEnv([make_env] * 2)
    ours = make(2)
    try:
        assert_equal(ours.reset(seed=4), peer.reset(seed=4), "reset")
        for action in actions(5, 2):
            assert_equal(ours.step(action), peer.step(action), "step")
    finally:
        peer.close()


def test_works_under_gymnasiums_vector_wrappers():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(make(max_episode_steps=6))
    env = gymnasium.wrappers.vector.ClipReward(env, max_reward=0.5)
    env.reset(seed=0)
    for action in actions(6):
        infos = env.step(action)[4]
    assert infos["episode"]["l"].tolist() == [6] * N


def test_the_spec_survives_pickling():
    env = make(3, obs_type="pixels")
    spec = pickle.loads(pickle.dumps(env.spec))
    assert spec.kwargs["num_envs"] == 3 and spec.kwargs["obs_type"] == "pixels"
    assert env.single_observation_space.shape == (96, 96, 3)
    assert env.observation_space == batch_space(env.single_observation_space, 3)


def test_render_gives_one_frame_per_env():
    env = make(visualization_width=64, visualization_height=48)
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == N and all(frame.shape == (48, 64, 3) for frame in frames)
    single = dp_bench.PushTEnv(visualization_width=64, visualization_height=48)
    single.reset(seed=1)
    assert np.array_equal(frames[1], single.render())


def test_a_forked_process_says_that_the_threads_are_not_there():
    env = make(num_threads=2)
    env.reset(seed=0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        message = "no error"
        try:
            env.step(actions(1)[0])
        except RuntimeError as error:
            message = str(error)
        os.write(write, message.encode())
        del env  # must not wait for threads
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert b"create another here" in os.read(read, 1000)
    env.step(actions(1)[0])


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.zeros((N, 3)), r"expected actions of shape \(5, 2\), found shape \(5, 3\)"),
        (np.zeros(2), r"found shape \(2,\)"),
        (np.where(np.arange(2 * N).reshape(N, 2) == 7, np.nan, 1.0), "expected a finite action for env 3, found"),
    ],
)
def test_refuses_bad_actions_before_any_env_steps(bad, message):
    env, expected = make(), make()
    env.reset(seed=0), expected.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(bad)
    assert_equal(env.step(actions(1)[0])[0], expected.step(actions(1)[0])[0], "state")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"seed": [1, 2]}, "expected 5 seeds, found 2"),
        ({"seed": -1}, "expected seeds from 0 to 2"),
        ({"options": {"reset_mask": [True] * N}}, "as a numpy array of 5 bools"),
        ({"options": {"reset_mask": np.zeros(N, bool)}}, "at least one True"),
        ({"options": {"reset_to_state": np.zeros((2, 5))}}, r"of shape \(5,\) or \(5, 5\)"),
    ],
)
def test_refuses_a_bad_reset(arguments, message):
    env = make()
    with pytest.raises(ValueError, match=message):
        env.reset(**arguments)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"num_envs": 0}, "expected at least 1 environment, found num_envs=0"),
        ({"num_threads": -2}, "expected num_threads of at least 0, found -2"),
        ({"max_episode_steps": 0}, "expected max_episode_steps of at least 1 or None, found 0"),
        ({"obs_type": "depth"}, "expected obs_type to be one of"),
        ({"render_mode": "human"}, "expected render_mode to be one of None, 'rgb_array'"),
        ({"autoreset_mode": "Never"}, "'Never' is not a valid AutoresetMode"),
    ],
)
def test_refuses_a_bad_argument(kwargs, message):
    with pytest.raises(ValueError, match=message):
        dp_bench.PushTVectorEnv(**{"num_envs": N} | kwargs)


def test_a_closed_env_says_so():
    env = make(num_threads=2)
    env.reset(seed=0)
    env.close()
    for call in (lambda: env.step(actions(1)[0]), env.reset, env.render):
        with pytest.raises(ClosedEnvironmentError, match="create another one"):
            call()


def test_needs_a_reset_of_all_envs_first():
    env = make()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(actions(1)[0])
    with pytest.raises(RuntimeError, match="env 1 has no episode"):
        env.reset(seed=0, options={"reset_mask": np.arange(N) == 0})
