"""dp_bench for Python: its environments, and the dp_bench program with its runs.

Importing the package registers its environments with Gymnasium. `gymnasium.make("dp_bench:dp_bench/PushT-v0")` imports
it by itself. `run`, `train`, `evaluate`, `compare` and `gate` need the installed program (`find_program`).
"""

from importlib.metadata import version as _version

from gymnasium.envs.registration import register as _register

from dp_bench.commands import evaluate, run, train
from dp_bench.comparison import Comparison, GateResult, Verdict, compare, gate, update_baseline
from dp_bench.errors import (
    DataError,
    EpisodeError,
    Error,
    InternalError,
    InterruptedRunError,
    NotComparableError,
    NumericError,
    OutOfMemoryError,
    ProgramError,
    UsageError,
)
from dp_bench.interval import wilson_interval
from dp_bench.kuavo import MAX_EPISODE_STEPS as _LIMITS
from dp_bench.kuavo import KuavoEnv, KuavoVectorEnv
from dp_bench.plugin import PluginEnv, PluginVectorEnv
from dp_bench.policy import Policy, load_policy
from dp_bench.program import Progress, find_program
from dp_bench.pusht import PushTEnv, PushTVectorEnv
from dp_bench.run_folder import Episode, Episodes, RunFolder
from dp_bench.serving import serve_policy

__all__ = [
    "Comparison",
    "DataError",
    "Episode",
    "EpisodeError",
    "Episodes",
    "Error",
    "GateResult",
    "InternalError",
    "InterruptedRunError",
    "KuavoEnv",
    "KuavoVectorEnv",
    "NotComparableError",
    "NumericError",
    "OutOfMemoryError",
    "PluginEnv",
    "PluginVectorEnv",
    "Policy",
    "ProgramError",
    "Progress",
    "PushTEnv",
    "PushTVectorEnv",
    "RunFolder",
    "UsageError",
    "Verdict",
    "compare",
    "evaluate",
    "find_program",
    "gate",
    "load_policy",
    "run",
    "serve_policy",
    "train",
    "update_baseline",
    "wilson_interval",
]
__version__ = _version("dp_bench")

_register(
    id="dp_bench/PushT-v0",
    entry_point="dp_bench.pusht:PushTEnv",
    vector_entry_point="dp_bench.pusht:PushTVectorEnv",
    max_episode_steps=300,
    kwargs={"obs_type": "state"},
)
for _task, _limit in _LIMITS.items():
    _register(
        id=f"dp_bench/Kuavo{_task.title().replace('_', '')}-v0",
        entry_point="dp_bench.kuavo:KuavoEnv",
        vector_entry_point="dp_bench.kuavo:KuavoVectorEnv",
        max_episode_steps=_limit,
        kwargs={"task": _task, "obs_type": "state"},
    )
_register(
    id="dp_bench/Plugin-v0",
    entry_point="dp_bench.plugin:PluginEnv",
    vector_entry_point="dp_bench.plugin:PluginVectorEnv",
)
