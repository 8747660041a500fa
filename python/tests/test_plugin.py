"""Env plugins of the installation: as one environment and as a vector environment. Skipped without an installation."""

import importlib.util
import pathlib
import sys

import gymnasium
import numpy as np
import pytest
from equality import assert_equal
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dp_bench

ID = "dp_bench/Plugin-v0"
needs_installation = pytest.mark.skipif(
    importlib.util.find_spec("dp_bench._plugins") is None, reason="built without an installation of dp_bench"
)


@pytest.mark.skipif(importlib.util.find_spec("dp_bench._plugins") is not None, reason="built with an installation")
def test_says_what_a_package_without_an_installation_lacks():
    with pytest.raises(dp_bench.ProgramError, match="cmake.define.dp_bench_DIR="):
        dp_bench.PluginEnv("point_mass")


@needs_installation
def test_keeps_gymnasiums_contract():
    env = gymnasium.make(ID, plugin="point_mass")
    check_env(env.unwrapped, skip_render_check=True)
    assert env.unwrapped.metadata["render_fps"] == env.unwrapped._spec["control_hz"]
    assert env.unwrapped.render().std() > 5


@needs_installation
def test_an_episode_ends_at_the_limit_of_the_plugin():
    env = dp_bench.PluginEnv("pusht", {"max_steps": 3, "obs": ["state"]})
    env.reset(seed=0)
    truncated = [env.step([100.0, 100.0])[3] for _ in range(3)]
    assert truncated == [False, False, True]


@needs_installation
@pytest.mark.parametrize("mode", AutoresetMode)
def test_equals_a_sync_vector_env(mode):
    params = {"max_steps": 4, "obs": ["agent_pos", "image"]}
    peer = SyncVectorEnv([lambda: gymnasium.make(ID, plugin="pusht", params=params)] * 3, autoreset_mode=mode)
    ours = gymnasium.make_vec(ID, num_envs=3, plugin="pusht", params=params, autoreset_mode=mode, num_threads=2)
    assert ours.observation_space == peer.observation_space and ours.action_space == peer.action_space
    assert_equal(ours.reset(seed=3), peer.reset(seed=3), "reset")
    for i, action in enumerate(np.random.default_rng(0).uniform(0, 512, (9, 3, 2)).astype(np.float32)):
        result = ours.step(action)
        assert_equal(result, peer.step(action), f"step {i}")
        ended = result[2] | result[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            assert_equal(*[env.reset(options={"reset_mask": ended}) for env in (ours, peer)], f"reset {i}")


@needs_installation
def test_searches_the_folders_of_the_user(tmp_path):
    from dp_bench._installation import LIBRARIES

    name = "libdpb_env_point_mass.so"
    (tmp_path / name).write_bytes((pathlib.Path(LIBRARIES) / "dp_bench/plugins" / name).read_bytes())
    with pytest.raises(RuntimeError, match=f"two files offer the env plugin 'point_mass': {tmp_path}"):
        dp_bench.PluginEnv("point_mass", plugin_dirs=[tmp_path])


@needs_installation
def test_an_environment_may_have_a_process_of_its_own():
    params = {"id": "Pendulum-v1", "python": sys.executable, "success": "reward >= 0"}
    ours, peer = gymnasium.make(ID, plugin="gymnasium", params=params), gymnasium.make("Pendulum-v1")
    np.testing.assert_array_equal(ours.reset(seed=3)[0]["state"], peer.reset(seed=3)[0])
    action = np.array([0.5], np.float32)
    (seen, reward, *_), (wanted, wanted_reward, *_) = ours.step(action), peer.step(action)
    np.testing.assert_array_equal(seen["state"], wanted)
    assert reward == pytest.approx(wanted_reward)
    ours.close()


@needs_installation
def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="max_stesp"):
        dp_bench.PluginEnv("point_mass", {"max_stesp": 3})
    with pytest.raises((ValueError, RuntimeError), match="nowhere"):
        dp_bench.PluginEnv("nowhere")
