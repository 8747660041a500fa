"""What all environments share: simulations that step in C++, as one Gymnasium environment or as a vector environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

Observation = NDArray[Any] | dict[str, NDArray[Any]]
Infos = dict[str, Any]
Spaces = tuple[spaces.Space[Any], spaces.Box]
MakeBatch = Callable[[Any, Any], Any]  # from an extension module and its BatchOptions
Limit = int | None | Literal["env"]  # steps of an episode: none, or the env's own limit

_ONE = np.ones(1, np.bool_)
_NO_SEED = np.zeros(1, np.uint64)


def require_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises ValueError unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"expected {name} to be one of {listed}, found {value!r}")


def spaces_of(spec: Mapping[str, Any]) -> Spaces:
    """The spaces of observations and actions, from the spec of a batch."""
    low, high = (np.array(spec[name], np.float32) for name in ("action_low", "action_high"))
    observation = spaces.Dict({key: _space(tuple(shape), dtype) for key, shape, dtype in spec["obs"]})
    return observation, spaces.Box(low, high, dtype=np.float32)


def _space(shape: tuple[int, ...], dtype: str) -> spaces.Box:
    if dtype.startswith("float"):
        return spaces.Box(-np.inf, np.inf, shape, np.dtype(dtype).type)
    limits = np.iinfo(dtype)
    return spaces.Box(limits.min, limits.max, shape, np.dtype(dtype).type)


def _number(limit: Limit) -> int:
    return -1 if limit == "env" else limit or 0


class Output:
    """The arrays that one step or reset writes, [num_envs, ...] each."""

    def __init__(self, module: Any, batch: Any, num_envs: int, space: spaces.Space[Any]) -> None:
        spec: dict[str, Any] = batch.spec()
        arrays: dict[str, NDArray[Any]] = {
            key: np.empty((num_envs, *shape), dtype) for key, shape, dtype in spec["obs"]
        }
        self.obs: Observation = arrays if isinstance(space, spaces.Dict) else next(iter(arrays.values()))
        self.infos = np.empty((num_envs, len(spec["metrics"])))
        self.rewards = np.empty(num_envs)
        flags = [np.empty(num_envs, np.bool_) for _ in range(4)]
        self.is_success, self.is_reset, self.terminated, self.truncated = flags
        self.seeds = np.zeros(num_envs, np.int64)  # as Gymnasium stacks them
        self.rows = module.Rows(batch, list(arrays.values()), self.infos, self.rewards, flags)

    def observation(self, env: int) -> Observation:
        """A copy of the observation of one env."""
        if isinstance(self.obs, dict):
            return {key: array[env].copy() for key, array in self.obs.items()}
        row: NDArray[Any] = self.obs[env].copy()
        return row


class SimulatedEnv(gymnasium.Env[Any, NDArray[Any]]):
    """A simulation as one environment.

    A class says how `make_batch` makes its batch, and what an info has.
    """

    def __init__(
        self,
        module: Any,
        make_batch: MakeBatch,
        spaces_: Spaces | None,
        render_mode: str | None,
        size: tuple[int, int],
        limit: Limit = None,
    ) -> None:
        self.render_mode = render_mode
        self.visualization_width, self.visualization_height = size
        self._batch = make_batch(module, module.BatchOptions(1, 1, "NONE", _number(limit)))
        self._spec: dict[str, Any] = self._batch.spec()
        self.observation_space, self.action_space = spaces_ or spaces_of(self._spec)
        self._out = Output(module, self._batch, 1, self.observation_space)
        # views of what each step overwrites
        self._numbers = self._out.infos[0]
        obs = self._out.obs
        self._row = {key: array[0] for key, array in obs.items()} if isinstance(obs, dict) else obs[0]
        self._action = np.empty((1, *self.action_space.shape))
        self._is_started = False

    def _begin(self, seed: int, state: NDArray[np.float64] | None = None) -> Observation:
        """Starts the episode of a seed, or in a state [1, state_size]."""
        self._batch.reset(self._out.rows, _ONE, np.array([seed], np.uint64), state)
        self._is_started = True
        return self._observe()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Infos]:
        """Starts the episode of `seed`, from 0 to 2**64 - 1. Without it, the next seed comes from `np_random`."""
        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**63)) if seed is None else seed
        return self._begin(episode), {"is_success": False, "seed": episode}

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, Infos]:
        """Steps once."""
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed: NDArray[Any] = action if isinstance(action, np.ndarray) else np.asarray(action, dtype=np.float64)
        if parsed.shape != self.action_space.shape:
            raise ValueError(f"expected an action of shape {self.action_space.shape}, found shape {parsed.shape}")
        self._action[0] = parsed
        out = self._out
        self._batch.step(self._action, _NO_SEED, None, out.rows, out.rows)  # it never resets by itself
        info = self._step_info()
        info["is_success"] = out.is_success.item(0)
        return self._observe(), out.rewards.item(0), out.terminated.item(0), out.truncated.item(0), info

    def render(self) -> NDArray[np.uint8] | None:
        """A frame, uint8 [height, width, 3]."""
        if not self._is_started:
            raise ResetNeeded("render() before the first episode; call reset() first")
        if self.render_mode is None:
            return None
        frame = np.empty((self.visualization_height, self.visualization_width, 3), np.uint8)
        self._batch.render(0, frame)
        return frame

    def _observe(self) -> Observation:
        row = self._row
        return {key: array.copy() for key, array in row.items()} if isinstance(row, dict) else row.copy()

    def _step_info(self) -> Infos:
        """What the info of a step has: the env's metrics."""
        return dict(zip(self._spec["metrics"], self._numbers.tolist(), strict=True))


def masked(mask: NDArray[np.bool_], infos: Infos) -> Infos:
    """Infos with their masks. Rows outside of the mask become zero, in copies."""
    if not mask.all():
        infos = {key: _zero_outside(mask, array) for key, array in infos.items()}
    return infos | {f"_{key}": mask for key in infos}


def _zero_outside(mask: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[Any]:
    kept = np.zeros_like(array)
    kept[mask] = array[mask]
    return kept


class SimulatedVectorEnv(VectorEnv[Any, Any, Any]):
    """Simulations that step together on a thread pool, as a vector environment.

    Observations, rewards and infos equal those of gymnasium.vector.SyncVectorEnv over the single environments, bit for
    bit. They depend on the seeds and actions alone, not on the number of environments or threads.

    Args:
        num_envs: The number of environments.
        max_episode_steps: Episodes are truncated after this many steps; None means never, "env" at the env's own limit.
        autoreset_mode: gymnasium.vector.AutoresetMode or its value. DISABLED needs resets with
            options={"reset_mask": mask}.
        copy: True returns new arrays. False returns views of two sets of arrays that are written in turn: a result is
            valid until the second call of `step` or `reset` after it.
        num_threads: Threads that step, with the caller's; 0 means one per processor that the process may use.

    Raises:
        ValueError: An argument, action or option has a wrong value or shape. The message names both. No environment
            has stepped then.
    """

    _seed_bits = 63  # seeds are below 2**_seed_bits; those in infos are signed
    _next_states: NDArray[np.float64] | None = None  # where the next episodes start, if not from seeds

    def __init__(
        self,
        num_envs: int,
        module: Any,
        make_batch: MakeBatch,
        spaces_: Spaces | None,
        metadata: Mapping[str, Any],
        max_episode_steps: Limit,
        autoreset_mode: AutoresetMode | str,
        copy: bool,
        num_threads: int,
        render_mode: str | None,
        size: tuple[int, int],
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"expected at least 1 environment, found num_envs={num_envs}")
        if num_threads < 0:
            raise ValueError(f"expected num_threads of at least 0, found {num_threads}")
        if isinstance(max_episode_steps, int) and max_episode_steps < 1:
            raise ValueError(f"expected max_episode_steps of at least 1 or None, found {max_episode_steps}")
        self.num_envs = num_envs
        self.copy = copy
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = render_mode
        self.visualization_width, self.visualization_height = size
        n_threads = min(num_threads or len(os.sched_getaffinity(0)), num_envs)
        options = module.BatchOptions(num_envs, n_threads, self.autoreset_mode.name, _number(max_episode_steps))
        self._module = module
        self._batch = make_batch(module, options)
        self._spec: dict[str, Any] = self._batch.spec()
        self._outputs: list[Output] = []
        self._seeds: list[int | None] = [None] * num_envs
        self._random = [np.random.default_rng(0)] * num_envs  # replaced before the first episode
        self._next_seeds = np.zeros(num_envs, np.uint64)
        self._is_started = False

        self.metadata = {**metadata, "render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = spaces_ or spaces_of(self._spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._final = self._make_output()  # of the episodes that end in SAME_STEP

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The latest seed of each environment; None before the first reset."""
        return tuple(self._seeds)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Infos]:
        """Starts episodes.

        Args:
            seed: Environment i gets seed + i, or the i-th of a list. None lets its generator continue.
            options: "reset_mask", bool [num_envs]: resets only these.
        """
        self._require_open()
        options = options or {}
        mask = self._parse_mask(options.get("reset_mask"))
        seeds, is_seeded = self._parse_seeds(seed, mask)
        states = self._parse_states(options)
        for env in map(int, np.flatnonzero(is_seeded)):
            seed = self._seeds[env] = int(seeds[env])
            self._random[env] = np.random.default_rng(seed)
            self._draw_next(env, seed if states is None else None)
        out = self._next_output()
        self._batch.reset(out.rows, mask, self._next_seeds, self._next_states if states is None else states)
        if states is None:
            self._note_starts(out)
        self._is_started = True
        return out.obs, self._reset_infos(out, mask)

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all environments. `actions`: [num_envs, ...]."""
        self._require_open()
        if not self._is_started:
            raise ResetNeeded("step() before the first episode; call reset() first")
        parsed = np.ascontiguousarray(actions, dtype=np.float64)
        if parsed.shape != self.action_space.shape:
            raise ValueError(f"expected actions of shape {self.action_space.shape}, found shape {parsed.shape}")
        out = self._next_output()
        out.is_reset[:] = False
        try:
            self._batch.step(parsed, self._next_seeds, self._next_states, out.rows, self._final.rows)
        finally:
            self._note_starts(out)
        infos = self._step_infos(out, np.ones(self.num_envs, np.bool_), ~out.is_reset)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            has_ended = out.terminated | out.truncated
            self._add_final(infos, has_ended, self._step_infos(self._final, has_ended, has_ended))
        return out.obs, out.rewards, out.terminated, out.truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One frame per environment, uint8 [height, width, 3] each."""
        self._require_open()
        if self.render_mode is None:
            return None
        frames = np.empty((self.num_envs, self.visualization_height, self.visualization_width, 3), np.uint8)
        for env, frame in enumerate(frames):
            self._batch.render(env, frame)
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and frees the simulations. Results stay valid."""
        self._batch = None

    def _draw_next(self, env: int, seed: int | None) -> None:
        """Sets the next episode of an environment: that of a seed, or of its generator."""
        self._next_seeds[env] = self._random[env].integers(2**63) if seed is None else seed

    def _note_starts(self, out: Output) -> None:
        """Writes the seeds of the episodes that began, and draws the next ones."""
        np.multiply(self._next_seeds.view(np.int64), out.is_reset, out=out.seeds)
        for env in map(int, np.flatnonzero(out.is_reset)):
            self._draw_next(env, None)

    def _reset_infos(self, out: Output, mask: NDArray[np.bool_]) -> Infos:
        return masked(mask, {"is_success": out.is_success, "seed": out.seeds})

    def _step_infos(self, out: Output, mask: NDArray[np.bool_], stepped: NDArray[np.bool_]) -> Infos:
        """Infos of the envs in `mask`. Those that are not in `stepped` were reset."""
        infos = masked(mask, {"is_success": out.is_success})
        infos |= masked(stepped, dict(zip(self._spec["metrics"], out.infos.T, strict=True)))
        return infos if out is self._final else infos | masked(~stepped, {"seed": out.seeds})

    def _parse_states(self, options: Mapping[str, Any]) -> NDArray[np.float64] | None:
        """The states to start in, from the options of a reset."""
        return None

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("this vector environment is closed; create another one")

    def _make_output(self) -> Output:
        return Output(self._module, self._batch, self.num_envs, self.single_observation_space)

    def _next_output(self) -> Output:
        """New arrays, or one of two sets in turn if results may be views."""
        if self.copy:
            return self._make_output()
        if not self._outputs:
            self._outputs = [self._make_output() for _ in range(2)]
        self._outputs.reverse()
        return self._outputs[0]

    def _add_final(self, infos: Infos, has_ended: NDArray[np.bool_], final_info: Infos) -> None:
        """Adds the last observations and infos of the episodes that ended."""
        ended = np.flatnonzero(has_ended)
        if ended.size == 0:
            return
        final_obs = np.full(self.num_envs, None, dtype=object)
        for env in ended:
            final_obs[env] = self._final.observation(int(env))
        infos["final_obs"] = final_obs
        infos["final_info"] = {key: array.copy() for key, array in final_info.items()}
        infos["_final_obs"] = infos["_final_info"] = has_ended

    def _parse_mask(self, mask: object) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(
                f"expected options['reset_mask'] as a numpy array of {self.num_envs} bools, found {mask!r}"
            )
        if not mask.any():
            raise ValueError("expected at least one True in options['reset_mask'], found none")
        return np.ascontiguousarray(mask)

    def _parse_seeds(
        self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Seeds, and which environments get one. One that never had a seed gets a random one."""
        if seed is None or isinstance(seed, (int, np.integer)):
            given = [None if seed is None else int(seed) + env for env in range(self.num_envs)]
        else:
            given = list(seed)
        if len(given) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, found {len(given)}")
        seeds = np.random.default_rng().integers(2**self._seed_bits, size=self.num_envs, dtype=np.uint64)
        is_seeded = np.zeros(self.num_envs, np.bool_)
        for env in np.flatnonzero(mask):
            value = given[env]
            if value is not None:
                if not 0 <= value < 2**self._seed_bits:
                    limit = f"2**{self._seed_bits} - 1"
                    raise ValueError(f"expected seeds from 0 to {limit}, found {value} for env {env}")
                seeds[env] = value
            is_seeded[env] = value is not None or self._seeds[env] is None
        return seeds, is_seeded
