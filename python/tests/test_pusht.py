"""The single environment: Gymnasium's contract, gym-pusht's numbers, and errors."""

import hashlib
import json
import pathlib
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import dp_bench

OBS_TYPES = ["state", "environment_state_agent_pos", "pixels", "pixels_agent_pos"]
GOLDEN = json.loads((pathlib.Path(__file__).parents[2] / "tests/golden/pusht_gymnasium.json").read_text())


def make(**kwargs):
    return dp_bench.PushTEnv(**kwargs)


@pytest.mark.parametrize("seeding", ["gym_pusht", "diffusion_policy"])
@pytest.mark.parametrize("obs_type", OBS_TYPES)
def test_keeps_gymnasiums_contract(obs_type, seeding):
    env = gymnasium.make("dp_bench/PushT-v0", obs_type=obs_type, seeding=seeding)
    env.unwrapped.reset()  # draws a seed of its own
    # the check resets without a seed too, and about 1 % of gym-pusht's starts lie outside its own observation space
    env.unwrapped.reset(seed=0), env.action_space.seed(0)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.reset(seed=3)[0] in env.observation_space


def test_the_spec_survives_pickling():
    spec = pickle.loads(pickle.dumps(gymnasium.spec("dp_bench/PushT-v0")))
    env = gymnasium.make(spec)
    assert env.spec.max_episode_steps == 300
    assert gymnasium.make(pickle.loads(pickle.dumps(env.spec))).unwrapped.obs_type == "state"


def test_draws_the_starts_of_gym_pusht():
    env = make()
    draws = np.empty((GOLDEN["n_draws"], 3))
    for seed in range(len(draws)):
        _, info = env.reset(seed=seed)
        draws[seed] = [*info["pos_agent"], info["block_pose"][2]]
    # integers and angles are exact on every machine; the block's position contains a sine
    assert hashlib.sha256(draws.tobytes()).hexdigest() == GOLDEN["draws_sha256"]


def test_resets_to_the_states_of_gym_pusht():
    env = make()
    for seed, state in GOLDEN["reset_states"].items():
        np.testing.assert_allclose(env.reset(seed=int(seed))[0], state, rtol=0, atol=1e-12)


def test_an_unseeded_reset_continues_the_generator():
    env = make()
    env.reset(seed=7)
    for state in GOLDEN["continued_states"]:
        np.testing.assert_allclose(env.reset()[0], state, rtol=0, atol=1e-12)


def test_resets_to_the_states_of_diffusion_policy():
    env = make(seeding="diffusion_policy")
    for seed, state in GOLDEN["legacy_states"].items():
        np.testing.assert_allclose(env.reset(seed=int(seed))[0], state, rtol=0, atol=1e-12)


def test_follows_gym_pusht():
    env = make(obs_type="environment_state_agent_pos")
    for trace in GOLDEN["traces"]:
        env.reset(seed=trace["seed"])
        for action, state, corner, reward, n_contacts in zip(
            trace["actions"], trace["states"], trace["last_corners"], trace["rewards"], trace["n_contacts"], strict=True
        ):
            obs, actual_reward, terminated, truncated, info = env.step(np.array(action, np.float32))
            # 1e-4 px: Box2D finds contacts in float32
            np.testing.assert_allclose(info["pos_agent"], state[:2], rtol=0, atol=1e-9)
            np.testing.assert_allclose(info["block_pose"], state[2:], rtol=0, atol=1e-4)
            np.testing.assert_allclose(obs["environment_state"][-2:], corner, rtol=0, atol=2e-4)
            assert actual_reward == pytest.approx(reward, abs=1e-5)
            assert info["n_contacts"] == n_contacts
            assert not terminated and not truncated
        assert sum(trace["n_contacts"]) > 0


def test_resets_to_a_given_state():
    env = make()
    state, info = env.reset(options={"reset_to_state": [0.0, 10.0, 20.0, 30.0, 1.0]})
    # the example in gym-pusht's documentation
    np.testing.assert_allclose(state, [0, 10, 57.866196, 50.686398, 1], atol=1e-6)
    assert info["is_success"] is False and "coverage" not in info


def test_the_episode_ends_when_the_block_covers_the_goal():
    env = make()
    # turned about its centre of gravity, the block arrives at the goal's pose
    c = s = np.sqrt(0.5)
    env.reset(options={"reset_to_state": [100, 100, 256 - 45 * s, 256 - 45 + 45 * c, np.pi / 4]})
    _, reward, terminated, truncated, info = env.step([100.0, 100.0])
    assert reward == 1.0 and terminated and not truncated
    assert info["is_success"] is True and info["coverage"] > 0.999


def test_the_time_limit_truncates():
    env = gymnasium.make("dp_bench/PushT-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(np.zeros(2, np.float32))[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("action", [[100, 200], (100.0, 200.0), np.array([100, 200]), np.array([100, 200], np.float32)])
def test_takes_actions_of_every_numeric_type(action):
    env = make()
    env.reset(seed=1)
    expected = make()
    expected.reset(seed=1)
    assert np.array_equal(env.step(action)[0], expected.step(np.array([100.0, 200.0]))[0])


def test_results_stay_valid_after_further_steps():
    env = make()
    first, _ = env.reset(seed=0)
    kept = first.copy()
    _, _, _, _, info = env.step([0.0, 0.0])
    position = info["pos_agent"].copy()
    env.step([500.0, 500.0])
    assert np.array_equal(first, kept) and np.array_equal(info["pos_agent"], position)


def test_images_show_the_state():
    pixels = make(obs_type="pixels")
    image, _ = pixels.reset(seed=42)
    state, _ = make().reset(seed=42)
    column, row = (state[:2] * 96 / 512).astype(int)
    assert image[row, column].tolist() == [78, 126, 255], "the agent is blue"
    frame = pixels.render()
    assert frame.shape == (680, 680, 3) and frame.dtype == np.uint8
    column, row = (state[:2] * 680 / 512).astype(int)
    assert frame[row, column, 2] > frame[row, column, 0] + 100


def test_human_mode_shows_the_frame(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    arguments = {"visualization_width": 128, "visualization_height": 96}
    env, frames = make(render_mode="human", **arguments), make(**arguments)
    env.reset(seed=3), frames.reset(seed=3)
    env.step([1.0, 2.0]), frames.step([1.0, 2.0])
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    assert np.array_equal(shown, frames.render())
    assert env.render() is None
    env.close()


def test_render_does_not_change_the_episode():
    drawn, plain = make(visualization_width=64, visualization_height=48), make()
    drawn.reset(seed=5), plain.reset(seed=5)
    for action in np.random.default_rng(0).uniform(0, 512, (20, 2)):
        assert drawn.render().shape == (48, 64, 3)
        assert np.array_equal(drawn.step(action)[0], plain.step(action)[0])


@pytest.mark.parametrize(
    "action, message",
    [
        ([1.0], r"expected an action of shape \(2,\), found shape \(1,\)"),
        ([[1.0, 2.0]], r"found shape \(1, 2\)"),
        (np.zeros((2, 1), np.float32), r"found shape \(2, 1\)"),
        ([1.0, float("nan")], "expected a finite action, found"),
        (np.array([np.inf, 0], np.float32), "expected a finite action, found"),
    ],
)
def test_refuses_a_bad_action(action, message):
    env = make()
    before, _ = env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    assert np.array_equal(env.step(before[:2])[0][2:], before[2:]), "the refused action moved nothing"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"reset_to_state": [1, 2, 3]}, r"of shape \(5,\) .*found shape \(3,\)"),
        ({"reset_to_state": [1, 2, 3, 4, float("nan")]}, "expected finite"),
    ],
)
def test_refuses_a_bad_option(options, message):
    with pytest.raises(ValueError, match=message):
        make().reset(options=options)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"obs_type": "pixel"}, "expected obs_type to be one of 'state', .*found 'pixel'"),
        ({"seeding": "numpy"}, "expected seeding to be one of"),
        ({"render_mode": "ansi"}, "expected render_mode to be one of"),
        ({"observation_width": 84}, "expected observation_width and observation_height 96, found 84 and 96"),
    ],
)
def test_refuses_a_bad_argument(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(**kwargs)


def test_needs_a_reset_before_a_step_or_a_frame():
    for call in (lambda env: env.step([0, 0]), lambda env: env.render()):
        with pytest.raises(ResetNeeded, match="call reset"):
            call(make())


def test_large_seeds_draw_numpys_numbers():
    env = make(seeding="diffusion_policy")
    for seed in (0, 2**32 - 1, 2**32, 2**40 + 7, 2**64 - 1):
        random = np.random.RandomState([seed % 2**32, seed >> 32] if seed >= 2**32 else seed)
        start = [random.randint(50, 450), random.randint(50, 450), random.randint(100, 400), random.randint(100, 400)]
        start.append(random.randn() * 2 * np.pi - np.pi)
        assert np.array_equal(env.reset(seed=seed)[0], env.reset(options={"reset_to_state": start})[0])
