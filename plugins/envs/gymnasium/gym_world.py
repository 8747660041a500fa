"""The environment of a request: how it is made and seeded, its rate, its actions and what cameras see. Part of gym_host.py."""

import contextlib
import copy
import importlib
import importlib.metadata
import inspect
import math
import os
import random
import sys
import traceback
import warnings

import gymnasium
import numpy as np
from gym_parts import CONFIG, ENV, NUMERIC, PLUGIN, HostError
from gymnasium import spaces

# where MuJoCo's model and data are found: Gymnasium, OGBench, robosuite, dm_control
MUJOCO = (("model", "data"), ("_model", "_data"), ("sim.model._model", "sim.data._data"), ("physics.model.ptr", "physics.data.ptr"),
          ("_env.physics.model.ptr", "_env.physics.data.ptr"))  # fmt: skip
PERIODS = ("control_timestep", "_control_timestep", "_env.control_timestep")  # [s]
RATES = ("control_freq",)  # [Hz]
ABSENT = object()


def find(found, path):
    """An attribute, or a key of a dict, with dots; ABSENT if there is none."""
    for part in path.split("."):
        found = found.get(part, ABSENT) if isinstance(found, dict) else getattr(found, part, ABSENT)
    return found


def load(name, param, what):
    """What 'module:path' names."""
    module, _, path = name.partition(":")
    try:
        found = find(importlib.import_module(module), path)
        reason = f"{module} has no {path or 'name after a colon'}"
    except (ImportError, ValueError) as error:
        found, reason = ABSENT, str(error)
    if found is ABSENT:
        raise HostError(CONFIG, f"params.{param}: expected module:name of {what}, found '{name}' ({reason}; the interpreter is {sys.executable})")
    return found


def import_for(env_id):
    """A package gym_x is imported for its ids `gym_x/...`."""
    namespace = env_id.split("/")[0]
    if ":" in env_id or "/" not in env_id or namespace in {spec.namespace for spec in gymnasium.registry.values()}:
        return
    try:
        importlib.import_module(namespace)
    except ModuleNotFoundError as error:
        if error.name != namespace:
            raise
        raise HostError(
            CONFIG,
            f"params.id: expected a registered environment, found '{env_id}', and {sys.executable} has no module "
            f"'{namespace}'. Install its package there, give module:id, or name the module that registers it in params.imports.",
        ) from None


def make_registered(env_id, **kwargs):
    try:
        # the first steps of the checker would be slower than the others
        return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except gymnasium.error.UnregisteredEnv as error:
        raise HostError(
            CONFIG, f"params.id: {error} Give the module that registers it, as module:id or in params.imports; the interpreter is {sys.executable}"
        ) from error


def make_env(wanted):
    """The environment, and why it draws no images, or None."""
    for module in wanted.get("imports", ()):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise HostError(CONFIG, f"params.imports: {sys.executable} cannot import '{module}' ({error})") from error
    kwargs = dict(wanted["kwargs"])
    if wanted.get("entry"):
        made_by = load(wanted["entry"], "entry", "a class or function that makes the environment")
        base = lambda **more: made_by(**kwargs, **more)  # noqa: E731
    else:
        import_for(wanted["id"])
        if wanted.get("max_steps"):  # or else the registered limit would end an episode before it
            kwargs.setdefault("max_episode_steps", wanted["max_steps"] * wanted.get("action_repeat", 1))
        base = lambda **more: make_registered(wanted["id"], **kwargs, **more)  # noqa: E731
    wrappers = [load(name, "wrappers", "a wrapper") for name in wanted.get("wrappers", ())]

    def make(**more):
        env = base(**more)
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    if kwargs.get("render_mode") or wanted.get("camera"):
        return make(), None
    if "render_mode" in kwargs:
        del kwargs["render_mode"]
        return make(), "kwargs.render_mode is null"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*render_mode.*")  # said below
            return make(render_mode="rgb_array"), None
    except Exception as error:  # a class may not take render_mode, or not this one
        cause = error.__cause__ or error
        if "render" not in f"{cause} {traceback.extract_tb(cause.__traceback__)[-1].line}":
            raise
        try:
            return make(), f"its class does not take render_mode='rgb_array' ({type(cause).__name__}: {cause})"
        except Exception:
            raise error from None


def filled(value, task):
    """A request with the name of the task in its texts."""
    if isinstance(value, dict):
        return {name: filled(part, task) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, task) for part in value]
    return value.replace("{task}", task) if isinstance(value, str) else value


class World:
    """One environment. What differs from package to package is here: env.params says it, or it is found."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.env, self.why_blind = make_env(wanted)
        self.core = getattr(self.env, "unwrapped", self.env)
        self.n_repeats = wanted.get("action_repeat", 1)
        self.camera = wanted.get("camera")
        self.seeding = wanted.get("seeding") or {}
        self.renderers = {}
        self.set_bounds(self.env.action_space)

    def set_bounds(self, space):
        if not isinstance(space, spaces.Box):
            raise HostError(PLUGIN, f"expected a Box as action space, found {space}")
        self.action_space = space
        self.low, self.high = space.low.ravel().astype(float), space.high.ravel().astype(float)
        for name, bounds in (("action_low", self.low), ("action_high", self.high)):
            given = np.asarray(self.wanted.get(name) or [], float)
            unbounded = np.flatnonzero(~np.isfinite(bounds))
            if given.size not in (0, 1, bounds.size):
                raise HostError(CONFIG, f"params.{name}: expected 1 or {bounds.size} numbers, found {given.size}")
            if given.size:
                bounds[unbounded] = np.broadcast_to(given, bounds.shape)[unbounded]
            elif unbounded.size:
                raise HostError(CONFIG, f"params.{name}: expected the bounds of actions, because the action space is not finite at {unbounded.tolist()}; "
                                        "found none")  # fmt: skip
        self.bounds = list(zip(self.low.tolist(), self.high.tolist()))

    def reset(self, seed):
        """(observation, info). What the environment draws from comes from the seed, as far as `params.seeding` says it."""
        if self.seeding.get("global"):
            random.seed(seed)
            np.random.seed(seed % (1 << 32))
        for path, value in self.seeding.get("attributes", {}).items():
            self.set_attribute(path, copy.deepcopy(value))  # the environment may change a list
        for path in self.seeding.get("generators", ()):
            self.set_attribute(path, np.random.default_rng(seed))
        if self.seeding.get("method"):
            self.find(self.seeding["method"], "seeding.method")(seed)
        options = self.wanted.get("reset_options")
        return self.env.reset(seed=seed, options=options) if options else self.env.reset(seed=seed)

    def find(self, path, param):
        found = find(self.core, path)
        if found is ABSENT:
            raise HostError(CONFIG, f"params.{param}: expected an attribute of {type(self.core).__name__}, found no '{path}'")
        return found

    def set_attribute(self, path, value):
        self.find(path, "seeding")
        owner, _, name = path.rpartition(".")
        setattr(self.find(owner, "seeding") if owner else self.core, name, value)

    def step(self, action):
        """As Gymnasium's step, `action_repeat` times: the rewards are added."""
        result = self.env.step(action)
        for _ in range(self.n_repeats - 1):
            if not isinstance(result, tuple) or len(result) != 5 or result[2] or result[3]:
                break
            before = result[1]
            result = self.env.step(action)
            result = (result[0], result[1] + before, *result[2:])
        return result

    def clip(self, values):
        """The action, in the type and shape of the space. For few numbers, Python is faster than numpy."""
        if not math.isfinite(sum(values)):
            raise HostError(NUMERIC, f"expected a finite action, found {values}")
        clipped = [min(max(value, low), high) for value, (low, high) in zip(values, self.bounds)]
        if self.action_space.dtype.kind in "iu":
            clipped = [round(value) for value in clipped]
        return np.array(clipped, self.action_space.dtype).reshape(self.action_space.shape)

    def max_steps(self):
        spec = getattr(self.env, "spec", None)
        registered = spec.max_episode_steps if spec else None
        return self.wanted["max_steps"] or (registered and math.ceil(registered / self.n_repeats))

    def control_hz(self):
        """Of the environment's own time step, or else its render_fps, which some packages use for their videos alone."""
        if self.wanted["control_hz"]:
            return self.wanted["control_hz"]
        rate = (getattr(self.env, "metadata", None) or {}).get("render_fps")
        found = [(find(self.core, path), True) for path in PERIODS] + [(find(self.core, path), False) for path in RATES]
        if find(self.core, "frame_skip") is not ABSENT:  # MuJoCo envs of Gymnasium; elsewhere dt may be that of the physics
            found.append((find(self.core, "dt"), True))
        for value, is_period in found:
            value = value() if callable(value) else value
            if isinstance(value, (int, float)) and value > 0:
                rate = round(1 / value, 6) if is_period else value
                break
        return rate and rate / self.n_repeats

    def frame(self, width, height):
        """What a video shows, uint8 [height, width, 3]."""
        if self.camera:
            return self.image(self.camera, height, width)
        if self.why_blind:
            raise HostError(ENV, f"the environment draws no images: {self.why_blind}")
        drawn = self.env.render()
        if not isinstance(drawn, np.ndarray) or drawn.ndim != 3 or drawn.shape[2] != 3 or drawn.dtype != np.uint8:
            found = f"{drawn.dtype} {drawn.shape}" if isinstance(drawn, np.ndarray) else type(drawn).__name__
            raise HostError(ENV, f"expected render to return a uint8 image [height, width, 3], found {found}")
        rows = (np.arange(height) * 2 + 1) * drawn.shape[0] // (2 * height)
        columns = (np.arange(width) * 2 + 1) * drawn.shape[1] // (2 * width)
        return np.ascontiguousarray(drawn[rows[:, None], columns])  # each pixel is that of the nearest place

    def mujoco(self):
        for paths in MUJOCO:
            model, data = (find(self.core, path) for path in paths)
            if type(model).__name__ == "MjModel":
                return model, data
        raise HostError(CONFIG, f"params: a camera needs an environment of MuJoCo, and {type(self.core).__name__} has no MjModel at "
                                f"{', '.join(paths[0] for paths in MUJOCO)}")  # fmt: skip

    def image(self, camera, height, width):
        """What a camera of the MuJoCo model sees, uint8 [height, width, 3]. It changes nothing in the environment."""
        import mujoco

        model, data = self.mujoco()
        of, renderer, seen = self.renderers.get((height, width), (None, None, None))
        if of is not model:
            if renderer:
                renderer.close()
            screen = model.vis.global_
            screen.offwidth, screen.offheight = max(screen.offwidth, width), max(screen.offheight, height)
            renderer, seen = mujoco.Renderer(model, height, width), mujoco.MjData(model)
            for effect in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                renderer.scene.flags[effect] = self.wanted.get("camera_effects", True)
            self.renderers[height, width] = model, renderer, seen
        self.camera_id(model, camera)
        positions = model.cam_pos.copy()
        for name, position in self.wanted.get("camera_positions", {}).items():
            model.cam_pos[self.camera_id(model, name)] = position
        # in `data` itself the places of bodies may be those before a reset moved them: Meta-World moves goals without computing them
        seen.qpos[:], seen.mocap_pos[:], seen.mocap_quat[:] = data.qpos, data.mocap_pos, data.mocap_quat
        for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight, mujoco.mj_flex, mujoco.mj_tendon):
            compute(model, seen)
        model.cam_pos[:] = positions  # the environment may draw with it
        renderer.update_scene(seen, camera)
        image = renderer.render()
        return np.ascontiguousarray(image[::-1, ::-1]) if camera in self.wanted.get("upside_down_cameras", ()) else image

    @staticmethod
    def camera_id(model, name):
        import mujoco

        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)
        if number < 0:
            names = [model.camera(i).name for i in range(model.ncam)]
            raise HostError(CONFIG, f"params: expected a camera of the model, one of {names}, found '{name}'")
        return number


class Expert:
    """`params.expert`: 'module:name' of a class that is made for every episode, or of a function. Its arguments are
    `expert_kwargs`, and the environment if it takes `env`. It acts by get_action, select_action or a call, from the observation,
    and from info if it takes two values. With `expert_by`, a part of info says which of several it is."""

    def __init__(self, wanted, world):
        self.by, names = wanted.get("expert_by"), wanted.get("experts") or {"": wanted["expert"]}
        self.made_by = {value: load(name, "experts" if self.by else "expert", "an expert") for value, name in names.items()}
        self.kwargs = dict(wanted.get("expert_kwargs") or {})
        self.env = world.env
        self.action_for = None

    def make(self, info):
        value = str(info.get(self.by)) if self.by else ""
        if value not in self.made_by:
            raise HostError(ENV, f"params.experts: expected the expert of '{value}', which is '{self.by}' in info; found those of {sorted(self.made_by)}")
        made_by = self.made_by[value]
        if not isinstance(made_by, type):
            return made_by
        takes_env = any("env" in inspect.signature(base.__init__).parameters for base in made_by.__mro__[:-1])
        return made_by(**self.kwargs, **({"env": self.env} if takes_env else {}))

    def begin(self, observation, info):
        expert = self.make(info)
        if hasattr(expert, "reset"):
            expert.reset(*self.taken(expert.reset, observation, info))
        act = next((getattr(expert, name) for name in ("get_action", "select_action") if hasattr(expert, name)), expert)
        if not callable(act):
            raise HostError(PLUGIN, f"params.expert: expected a function, get_action or select_action, found {type(expert).__name__}")
        n = len(self.taken(act, observation, info))
        self.action_for = lambda *values: act(*values[:n])

    @staticmethod
    def taken(function, *values):
        """As many of the values as a function has parameters for."""
        try:
            kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        except ValueError:  # of a function in C
            return values[:1]
        n = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
        return values[: len(values) if inspect.Parameter.VAR_POSITIONAL in kinds else n]

    def action(self, observation, info):
        if self.action_for is None:
            raise HostError(ENV, "the expert acts before it began an episode")
        return self.action_for(observation, info)


def versions(frames):
    """Of Python and of the packages in these frames of a traceback, for error messages."""
    packages = [frame.filename.partition("site-packages/")[2].partition("/")[0] for frame in frames]
    found = [f"Python {sys.version.split()[0]}"]
    for package in dict.fromkeys(["gymnasium", "mujoco", *packages]):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(found)


def draw_without_display():
    """MuJoCo and PyOpenGL choose how to draw when they are imported."""
    if not any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")):
        os.environ["MUJOCO_GL"] = "egl"
