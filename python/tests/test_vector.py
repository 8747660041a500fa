"""The vector environment: equal to Gymnasium's SyncVectorEnv over the single environment."""

import pickle

import gymnasium
import numpy as np
import pytest
from equality import assert_equal
from forked import errors_in_a_fork
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


def test_a_forked_process_says_that_the_threads_are_not_there():
    envs = [make(num_threads=2)]
    envs[0].reset(seed=0)
    # it must not wait for threads where it is freed
    (message,) = errors_in_a_fork(RuntimeError, lambda: envs[0].step(actions(1)[0]), envs.clear)
    assert "create another here" in message
    envs[0].step(actions(1)[0])


def test_refuses_a_bad_state_to_reset_to():
    with pytest.raises(ValueError, match=r"of shape \(5,\) or \(5, 5\)"):
        make().reset(options={"reset_to_state": np.zeros((2, 5))})


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
