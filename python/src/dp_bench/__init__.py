"""Environments of dp_bench for Python.

Importing the package registers its environments with Gymnasium. `gymnasium.make("dp_bench:dp_bench/PushT-v0")` imports
it by itself.
"""

from importlib.metadata import version as _version

from gymnasium.envs.registration import register as _register

from dp_bench.kuavo import KuavoEnv
from dp_bench.pusht import PushTEnv
from dp_bench.pusht_vector import PushTVectorEnv

__all__ = ["KuavoEnv", "PushTEnv", "PushTVectorEnv"]
__version__ = _version("dp_bench")

_register(
    id="dp_bench/PushT-v0",
    entry_point="dp_bench.pusht:PushTEnv",
    vector_entry_point="dp_bench.pusht_vector:PushTVectorEnv",
    max_episode_steps=300,
    kwargs={"obs_type": "state"},
)
for _name, _task, _max_episode_steps in (
    ("PickPlace", "pick_place", 150),
    ("BimanualLift", "bimanual_lift", 150),
    ("WeighRelay", "weigh_relay", 300),
):
    _register(
        id=f"dp_bench/Kuavo{_name}-v0",
        entry_point="dp_bench.kuavo:KuavoEnv",
        max_episode_steps=_max_episode_steps,
        kwargs={"task": _task, "obs_type": "state"},
    )
