"""The observations of a Gymnasium environment as the keys of dp_bench: which parts a space has, how each one is read, and
the checks of every array. Part of gym_host.py."""

import json
import math
import re

import numpy as np
from gymnasium import spaces

CONFIG, PLUGIN, SHAPE, ENV, NUMERIC = 1, 2, 4, 5, 8  # ErrorCode
LOW_DIM, RGB, DEPTH = 0, 1, 2  # KeyType
UINT8, UINT16, FLOAT32 = 0, 1, 4  # DType

READABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)  # as numbers
LAYOUTS = {  # what each one needs
    "HWC": "a uint8 Box [height, width, 3]",
    "CHW": "a uint8 Box [3, height, width]",
    "HW": "a uint8 Box [height, width], also with one channel,",
    "RGBA": "a uint8 Box [height, width, 4]",
    "depth": "a Box [height, width], also with one channel, of uint16 [mm] or floats [m]",
    "one_hot": "Discrete or MultiDiscrete with at most 4096 values",
}
MAX_ONE_HOT = 4096
KINDS = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}  # of a space's numbers, and of those that may come for them
EXACT = 1 << 24  # float32 holds every whole number up to this


class HostError(Exception):
    """A fault that the host found itself; `code` is an ErrorCode."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def short(value):
    return " ".join(repr(value).split())[:80]


def parts_of(space, path=()):
    """(path, space) of each part of an observation space; () is the whole observation."""
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
    else:
        yield path, space
        return
    for name, part in parts:
        yield from parts_of(part, (*path, name))


def undeclared(space, observation, path=()):
    """The paths of an observation that its space does not have."""
    if isinstance(space, spaces.Dict) and isinstance(observation, dict):
        for name, part in observation.items():
            if name in space.spaces:
                yield from undeclared(space.spaces[name], part, (*path, name))
            else:
                yield (*path, name)


def dotted(path):
    return ".".join(map(str, path))


def plane_of(shape):
    """(height, width) of one channel, or None."""
    if len(shape) == 3 and 1 in (shape[0], shape[2]):
        shape = shape[:2] if shape[2] == 1 else shape[1:]
    return shape if len(shape) == 2 else None


def image_size(layout, space):
    """(height, width) of a part in this layout, or None."""
    shape = space.shape
    if layout in ("vector", "one_hot") or not isinstance(space, spaces.Box):
        return None
    if layout == "depth":
        return plane_of(shape) if space.dtype == np.uint16 or space.dtype.kind == "f" else None
    if space.dtype != np.uint8:
        return None
    if layout == "HW":
        return plane_of(shape)
    if len(shape) != 3 or shape[0 if layout == "CHW" else 2] != (4 if layout == "RGBA" else 3):
        return None
    return shape[1:] if layout == "CHW" else shape[:2]


def likely_layout(space):
    """The layout of a part if none is given, and whether it may be meant otherwise. None: it cannot be read."""
    if not isinstance(space, READABLE):
        return None, False
    may_be_image = isinstance(space, spaces.Box) and sum(size >= 16 for size in space.shape) >= 2
    for layout in ("HWC", "CHW", "HW", "RGBA"):
        if image_size(layout, space) and (may_be_image or layout in ("HWC", "CHW")):
            return layout, layout in ("HW", "RGBA")
    return "vector", may_be_image


def proposal(space, kinds=READABLE):
    """A mapping of all parts of a space that are of these kinds: key -> {"path", "layout"}."""
    mapping = {}
    paths = [dotted(path) for path, _ in parts_of(space)]
    for path, part in parts_of(space):
        if not isinstance(part, kinds):
            continue
        layout, _ = likely_layout(part)
        name = re.sub(r"\W", "_", dotted(path)) or ("image" if layout in ("HWC", "CHW") else "state")
        name = f"obs_{name}" if name[0].isdigit() or name == "action" else name  # 'action' is the action's name
        while name in mapping:  # 'a.b' and 'a_b'
            name += "_"
        is_clear = paths.count(dotted(path)) == 1
        mapping[name] = {"path": dotted(path) if is_clear else [str(step) for step in path], "layout": layout}
    return mapping


def space_of(value):
    """A space that holds an example of a value of info. Values that are neither numbers nor texts are left out."""
    if isinstance(value, str):
        return spaces.Text(max(len(value), 1))
    if isinstance(value, dict):
        parts = {str(name): space_of(part) for name, part in value.items()}
        return spaces.Dict({name: part for name, part in parts.items() if part is not None})
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return None
    if array.dtype == np.uint8:
        return spaces.Box(0, 255, array.shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, array.shape, np.float64) if array.dtype.kind in "fiub" else None


def resize_weights(n_in, n_out):
    """[n_out, n_in]: how much of each old pixel is in each new one, by linear interpolation with anti-aliasing, as Pillow's BILINEAR."""
    support = max(n_in / n_out, 1.0)
    centres = (np.arange(n_out) + 0.5) * n_in / n_out
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(n_in) + 0.5 - centres[:, None]) / support)
    return weights / weights.sum(1, keepdims=True)


class Key:
    """One observation key of dp_bench: a part of the observation or of info, or what a camera sees."""

    def __init__(self, name, part, whole):
        path, layout, self.source, self.size = part["path"], part["layout"], part.get("source", "observation"), part.get("size")
        whole = whole[self.source]
        if self.source == "camera":
            self.camera, path = path, ""
            if not self.size:
                raise HostError(CONFIG, f"params.obs.{name}.size: expected [height, width] of what the camera sees, found none")
            whole = spaces.Box(0, 255, (*self.size, 3), np.uint8)
        parts = [p for p in parts_of(whole) if path == (dotted(p[0]) if isinstance(path, str) else [str(step) for step in p[0]])]
        advice = f"All parts, as a mapping: {json.dumps(proposal(whole))}"
        if len(parts) != 1:
            known = sorted(dotted(p) for p, space in parts_of(whole) if isinstance(space, READABLE))
            problem = f"several parts '{path}'; give the path as a list" if parts else f"'{path}'"
            raise HostError(CONFIG, f"params.obs.{name}.path: expected one of {known}, found {problem}. {advice}")
        self.path, space = parts[0]
        self.values = part.get("values")
        if self.values:
            if not isinstance(space, spaces.Text):
                raise HostError(CONFIG, f"params.obs.{name}.values: expected a text at '{dotted(self.path)}', found {space}")
            space, layout = spaces.Discrete(len(self.values)), "one_hot"
        likely, self.is_doubtful = likely_layout(space)
        if likely is None:
            raise HostError(
                CONFIG,
                f"params.obs.{name}: expected {', '.join(kind.__name__ for kind in READABLE)}, found {space} at "
                f"'{dotted(self.path)}'. To leave it out, name the parts to read in params.obs. {advice}",
            )
        self.found = f"{space.dtype} {list(space.shape)}"
        if layout == "auto" and self.is_doubtful and space.dtype == np.uint8:
            choices = " or ".join(sorted({likely, "vector"}))
            raise HostError(
                CONFIG,
                f"params.obs.{name}.layout: expected {choices} for {self.found}, which may be an image or numbers, found none. {advice}",
            )
        self.is_doubtful = self.is_doubtful and layout == "auto"
        self.if_meant_otherwise = (
            f"For depth, give params.obs.{name}.layout=depth"
            if image_size("depth", space)
            else "If it is an image, make it uint8 [height, width, 3] by a wrapper in params.wrappers"
        )
        self.name, self.shape, self.space_dtype = name, space.shape, space.dtype
        self.layout = likely if layout == "auto" else layout
        self.kinds = KINDS[space.dtype.kind]
        self.set_range(space)
        self.set_storage(space)
        if part.get("begin") or part.get("end") is not None:
            self.take(part.get("begin") or 0, part.get("end"))

    def set_range(self, space):
        """The values of a space that has finitely many, and where each number's begin in a one-hot vector."""
        self.low = self.high = None
        if isinstance(space, spaces.Box):
            return
        n = {spaces.Discrete: "n", spaces.MultiDiscrete: "nvec"}
        sizes = np.full(space.shape, next((getattr(space, n[kind]) for kind in n if isinstance(space, kind)), 2))
        self.low = np.zeros(space.shape, np.int64) + getattr(space, "start", 0)
        self.high = self.low + sizes - 1
        self.n_values = int(sizes.sum())
        self.first = np.cumsum(sizes.ravel()) - sizes.ravel() - self.low.ravel()

    def take(self, begin, end):
        """Only these numbers of a vector."""
        n = math.prod(self.shape)
        end = n if end is None else end
        if self.layout != "vector" or not 0 <= begin < end <= n:
            what = f"a part of its {n} numbers" if self.layout == "vector" else "the layout 'vector'"
            raise HostError(CONFIG, f"params.obs.{self.name}: begin and end: expected {what}, found {begin} to {end} and '{self.layout}'")
        self.storage_shape = self.spec["shape"] = [end - begin]
        self.n_bytes = (end - begin) * self.dtype.itemsize
        self.arranged = lambda array: array.ravel()[begin:end]

    def set_storage(self, space):
        """The array of dp_bench, and how it comes from the one of the environment."""
        size = image_size(self.layout, space)
        self.is_exact = size is not None and space.dtype.kind == "u"  # other numbers are no such image
        self.storage_shape = self.shape
        kind, shape, dtype = LOW_DIM, list(self.shape) or [1], FLOAT32
        self.arranged = lambda array: array
        if self.layout == "one_hot" and isinstance(space, READABLE[1:3]) and self.n_values <= MAX_ONE_HOT:
            shape = self.storage_shape = [self.n_values]
            self.arranged = self.one_hot
        elif size is not None:
            self.storage_shape = size if self.layout == "depth" else (*size, 3)
            kind, shape, dtype = (DEPTH, [1, *size], FLOAT32) if self.layout == "depth" else (RGB, [3, *size], UINT8)
            dtype = UINT16 if space.dtype == np.uint16 else dtype
            self.arranged = {
                "HWC": self.arranged,
                "CHW": lambda array: array.transpose(1, 2, 0),
                "HW": lambda array: array.reshape(*size, 1),
                "RGBA": lambda array: array[:, :, :3],
                "depth": lambda array: array.reshape(size),
            }[self.layout]
        elif self.layout != "vector":
            raise HostError(
                CONFIG,
                f"params.obs.{self.name}.layout: expected {LAYOUTS[self.layout]} for '{self.layout}', found {self.found}. "
                "Give the layout 'vector' to read it as numbers.",
            )
        self.dtype = np.dtype({UINT8: np.uint8, UINT16: np.uint16, FLOAT32: np.float32}[dtype])
        if self.size and kind != RGB:
            raise HostError(CONFIG, f"params.obs.{self.name}.size: expected an image, found the layout '{self.layout}'")
        if self.size and list(size) != list(self.size):
            self.resize_to(size, self.size)
            self.storage_shape, shape = (*self.size, 3), [3, *self.size]
        self.is_float = dtype == FLOAT32
        self.n_bytes = math.prod(shape) * self.dtype.itemsize
        self.spec = {"name": self.name, "type": kind, "shape": shape, "dtype": dtype}

    def resize_to(self, old, new):
        arranged, rows, columns = self.arranged, resize_weights(old[0], new[0]), resize_weights(old[1], new[1])

        def resized(array):
            image = np.tensordot(rows, arranged(array).astype(np.float64), 1)  # [new height, old width, channels]
            image = np.tensordot(image, columns, (1, 1)).transpose(0, 2, 1)
            return np.floor(image + (0.5 + 1e-6))  # halves are rounded up on every processor

        self.arranged = resized

    def one_hot(self, array):
        vector = np.zeros(self.n_values, np.float32)
        vector[self.first + array.ravel()] = 1
        return vector

    def fail(self, code, expected, found):
        raise HostError(code, f"observation '{self.name}': expected {expected}, found {found}")

    def array_in(self, observation):
        """The array of this key, of the shape and kind of its space."""
        value = observation
        try:
            for step in self.path:
                value = value[step]
        except (KeyError, IndexError, TypeError):
            names = sorted(map(str, value)) if isinstance(value, dict) else short(value)
            self.fail(SHAPE, f"the part '{dotted(self.path)}'", f"none in {names}")
        if self.values:
            if value not in self.values:
                self.fail(SHAPE, f"one of {self.values}", short(value))
            value = np.int64(self.values.index(value))
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            self.fail(SHAPE, "numbers that are not masked", short(value))
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            self.fail(SHAPE, f"{self.found} as in its space", short(value))
        dtype = array.dtype
        if dtype is not self.space_dtype and (dtype.kind not in self.kinds or (self.is_exact and dtype != self.space_dtype)):
            self.fail(SHAPE, f"{self.space_dtype} numbers as in its space", f"{dtype} {short(value)}")
        if array.shape != self.shape:
            self.fail(SHAPE, f"the shape {self.shape} of its space", array.shape)
        return array

    def write(self, observation, view):
        """Writes the array of this key, checked, into `view`, which has the layout of dp_bench's storage."""
        array = self.array_in(observation)
        if self.low is not None and ((array < self.low) | (array > self.high)).any():
            self.fail(SHAPE, f"values from {short(self.low)} to {short(self.high)} as in its space", short(array))
        view[...] = self.arranged(array)
        if not self.is_float:
            return
        if array.dtype.kind in "iu" and array.dtype.itemsize > 2:
            self.refuse_where((array > EXACT) | (array < -EXACT), array, f"whole numbers up to {EXACT}, which float32 holds exactly")
        elif not are_finite(view.ravel()):
            self.refuse_where(~np.isfinite(view), self.arranged(array), "finite float32 numbers")

    def refuse_where(self, is_wrong, array, expected):
        if is_wrong.any():
            index = int(np.flatnonzero(is_wrong)[0])
            self.fail(NUMERIC, expected, f"{array.flat[index]} at {index}")


def keys_of(spaces_of, wanted):
    """The keys of the mapping `wanted`, or of every part of the observation space. `spaces_of`: those of "observation" and "info"."""
    whole = spaces_of["observation"]
    if not wanted:
        wanted = {name: {**part, "layout": "auto"} for name, part in proposal(whole, spaces.Space).items()}
    if not wanted:
        raise HostError(PLUGIN, f"expected an observation space with parts, found {whole}")
    return [Key(name, part, {"camera": None, **spaces_of}) for name, part in sorted(wanted.items())]


def are_finite(numbers):
    """np.isfinite(numbers).all() for float32 [n]; a few take a fifth of its time."""
    if numbers.size > 64:
        return np.isfinite(numbers).all()
    return math.isfinite(sum(numbers.tolist()))  # the sum is a double, which they cannot overflow
