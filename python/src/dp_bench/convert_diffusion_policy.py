"""Converts a checkpoint of diffusion_policy to a policy folder of LeRobot, which `dp_bench import` and LeRobot read.

    python -m dp_bench.convert_diffusion_policy epoch=0500-test_mean_score=0.950.ckpt converted

Needs torch (2.6 or later) and safetensors, and none of diffusion_policy's packages. The checkpoint is a pickle, and
loading a pickle can run any code. So it is read with torch's weights-only loader: tensors, numbers and texts become real,
objects of other classes (the OmegaConf config) become inert containers, and anything else is refused by name.

Supported: DiffusionUnetHybridImagePolicy and DiffusionUnetLowdimPolicy with obs_as_global_cond. Every setting that changes
the network is used or refused by name.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import operator
import pathlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

STATE = "observation.state"
ACTION = "action"
POLICIES = ("DiffusionUnetHybridImagePolicy", "DiffusionUnetLowdimPolicy")
SCHEDULERS = {"DDPMScheduler": "DDPM", "DDIMScheduler": "DDIM"}
_REQUIRED = object()

Tree = dict[str, Any]  # a section of a config
Keys = list[tuple[str, str, list[int]]]  # name, type and shape of each observation


class ConversionError(Exception):
    """The checkpoint cannot be converted; the message says why."""


# Reading without running code


class _Inert:
    """Stands for an object of a foreign class: keeps what was pickled, and does nothing."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _InertDict(dict[Any, Any]):
    """Stands for a defaultdict, whose first argument is a factory."""

    def __init__(self, *_args: Any) -> None:
        super().__init__()


# what OmegaConf and dill put into a checkpoint
_FOREIGN_CLASSES = (
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    "omegaconf.base.SCMode",
    "omegaconf.nodes.AnyNode",
    "omegaconf.nodes.StringNode",
    "omegaconf.nodes.IntegerNode",
    "omegaconf.nodes.FloatNode",
    "omegaconf.nodes.BooleanNode",
    "omegaconf.nodes.PathNode",
    "omegaconf.nodes.EnumNode",
    "typing.Any",
    "typing.Union",
    "typing.Optional",
)
_FOREIGN_FUNCTIONS = ("dill._dill._load_type", "dill._load_type", "typing._SpecialForm")


def _read_pickle(path: pathlib.Path) -> Tree:
    import pickle

    import torch

    if not path.is_file():
        raise ConversionError(f"{path} is not a file")
    # each name gets a class of its own, because torch maps the class back to the name
    stand_ins: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
        (type("Inert", (_Inert,), {}), name) for name in _FOREIGN_CLASSES
    ]
    stand_ins += [((lambda *args: args), name) for name in _FOREIGN_FUNCTIONS]
    stand_ins.append((_InertDict, "collections.defaultdict"))
    try:
        with torch.serialization.safe_globals(stand_ins):
            payload = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).split("\n")[0]
        found = re.search(r"GLOBAL (\S+)", str(error))
        if found:
            reason = f"it contains {found[1]}, which may run code"
        raise ConversionError(f"{path} is not read: {reason}") from error
    except Exception as error:  # torch throws almost anything at a damaged file
        raise ConversionError(f"{path} is not a checkpoint of PyTorch, or it is damaged: {error}") from error
    if not isinstance(payload, dict) or not {"cfg", "state_dicts"} <= set(payload):
        raise ConversionError(f"{path} is not a checkpoint of diffusion_policy: it has no 'cfg' and 'state_dicts'")
    return payload


def _plain(node: Any) -> Any:
    """An OmegaConf tree as dicts, lists and values."""
    if not isinstance(node, _Inert):
        return node
    state = getattr(node, "state", {})
    if not isinstance(state, dict):
        raise ConversionError(f"the config holds an object that is not understood: {state!r}")
    if "_content" in state:
        content = state["_content"]
        if isinstance(content, dict):
            return {key: _plain(value) for key, value in content.items()}
        if isinstance(content, list):
            return [_plain(value) for value in content]
        return content
    if "_val" in state:
        return state["_val"]
    raise ConversionError("the config holds an object that is not understood")


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}


def _calculate(text: str) -> Any:
    """A sum, difference, product or quotient of numbers, and nothing else."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ConversionError(f"the config says '{text}'; expected numbers and + - * /")

    try:
        return value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ArithmeticError) as error:
        raise ConversionError(f"the config says '{text}'; expected numbers and + - * /") from error


class Settings:
    """The config of a training, with its references resolved where they are read."""

    def __init__(self, config: Tree) -> None:
        self._config = config

    def get(self, path: str, default: Any = _REQUIRED, depth: int = 0) -> Any:
        node: Any = self._config
        for part in path.split("."):
            node = self.resolve(node, depth)
            if not isinstance(node, dict) or part not in node:
                if default is _REQUIRED:
                    raise ConversionError(f"the config has no '{path}'")
                return default
            node = node[part]
        return self.resolve(node, depth)

    def resolve(self, value: Any, depth: int = 0) -> Any:
        if depth > 20:
            raise ConversionError("references of the config lead in a circle")
        if isinstance(value, list):
            return [self.resolve(item, depth) for item in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = re.fullmatch(r"\$\{([\w.]+)\}", value)
        if whole:
            return self.get(whole[1], depth=depth + 1)
        formula = re.fullmatch(r"\$\{eval:\s*'?(.*?)'?\s*\}", value)
        if formula:
            return _calculate(re.sub(r"\$\{([\w.]+)\}", lambda m: str(self.get(m[1], depth=depth + 1)), formula[1]))
        raise ConversionError(f"the config says '{value}', which is not understood")

    def require(self, path: str, wanted: Any, default: Any = _REQUIRED) -> None:
        found = self.get(path, default)
        if found != wanted:
            raise ConversionError(f"{path} is {found}; only {wanted} can be converted")

    def section(self, path: str) -> Tree:
        section = self.get(path)
        if not isinstance(section, dict):
            raise ConversionError(f"{path}: expected a section, found {section}")
        return section


# The settings

# of ConditionalUnet1D and of both policies
_UNET_DEFAULTS = {
    "diffusion_step_embed_dim": 256,
    "down_dims": [256, 512, 1024],
    "kernel_size": 3,
    "n_groups": 8,
    "cond_predict_scale": False,
}
_HYBRID_DEFAULTS = {**_UNET_DEFAULTS, "kernel_size": 5, "cond_predict_scale": True}
_POLICY_KEYS = {
    "_target_",
    "shape_meta",
    "noise_scheduler",
    "model",
    "horizon",
    "n_action_steps",
    "n_obs_steps",
    "num_inference_steps",
    "obs_as_global_cond",
    "obs_as_local_cond",
    "pred_action_steps_only",
    "oa_step_convention",
    "obs_dim",
    "action_dim",
    "crop_shape",
    "obs_encoder_group_norm",
    "eval_fixed_crop",
    *_UNET_DEFAULTS,
}
_SCHEDULER_DEFAULTS = {
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "prediction_type": "epsilon",
    "clip_sample": True,
    "clip_sample_range": 1.0,
}
_SCHEDULER_KEYS = {"_target_", "variance_type", "set_alpha_to_one", "steps_offset", *_SCHEDULER_DEFAULTS}
_UNET_KEYS = {"_target_", "input_dim", "local_cond_dim", "global_cond_dim", *_UNET_DEFAULTS}


def _require_known(section: Tree, known: set[str], name: str) -> None:
    unknown = sorted(set(section) - known)
    if unknown:
        raise ConversionError(f"{name}.{unknown[0]} is unknown, and may change the network")


def _class_of(settings: Settings, path: str) -> str:
    return str(settings.get(path)).rsplit(".", 1)[-1]


def _scheduler_config(settings: Settings) -> Tree:
    path = "policy.noise_scheduler"
    _require_known(settings.section(path), _SCHEDULER_KEYS, path)
    kind = _class_of(settings, f"{path}._target_")
    if kind not in SCHEDULERS:
        raise ConversionError(f"{path}._target_ is {kind}; expected one of {', '.join(SCHEDULERS)}")
    if SCHEDULERS[kind] == "DDPM":
        settings.require(f"{path}.variance_type", "fixed_small", "fixed_small")
    else:
        settings.require(f"{path}.set_alpha_to_one", True, True)
        settings.require(f"{path}.steps_offset", 0, 0)
    values = {name: settings.get(f"{path}.{name}", default) for name, default in _SCHEDULER_DEFAULTS.items()}
    return {
        "noise_scheduler_type": SCHEDULERS[kind],
        **values,
        "num_inference_steps": settings.get("policy.num_inference_steps", None) or values["num_train_timesteps"],
    }


def _unet_config(settings: Settings, is_hybrid: bool) -> Tree:
    path = "policy" if is_hybrid else "policy.model"
    if not is_hybrid:
        _require_known(settings.section(path), _UNET_KEYS, path)
    defaults = _HYBRID_DEFAULTS if is_hybrid else _UNET_DEFAULTS
    values = {name: settings.get(f"{path}.{name}", default) for name, default in defaults.items()}
    values["use_film_scale_modulation"] = values.pop("cond_predict_scale")
    return values


def _training_config(settings: Settings) -> Tree:
    return {
        "optimizer_lr": settings.get("optimizer.lr", 1e-4),
        "optimizer_betas": settings.get("optimizer.betas", [0.95, 0.999]),
        "optimizer_eps": settings.get("optimizer.eps", 1e-8),
        "optimizer_weight_decay": settings.get("optimizer.weight_decay", 1e-6),
        "scheduler_name": settings.get("training.lr_scheduler", "cosine"),
        "scheduler_warmup_steps": settings.get("training.lr_warmup_steps", 500),
    }


def _obs_keys(settings: Settings, is_hybrid: bool) -> Keys:
    """The observations in the order in which the network sees them."""
    if not is_hybrid:
        return [("obs", "low_dim", [settings.get("policy.obs_dim")])]
    keys = []
    for name, entry in settings.section("policy.shape_meta.obs").items():
        kind = settings.resolve(entry.get("type", "low_dim"))
        if kind not in ("rgb", "low_dim"):
            raise ConversionError(f"the observation '{name}' is {kind}; expected rgb or low_dim")
        keys.append((name, kind, settings.resolve(entry["shape"])))
    return keys


def _action_dim(settings: Settings, is_hybrid: bool) -> int:
    return int(settings.get("policy.shape_meta.action.shape")[0] if is_hybrid else settings.get("policy.action_dim"))


def _encoder_config(settings: Settings, has_cameras: bool) -> Tree:
    crop = settings.get("policy.crop_shape", [76, 76]) if has_cameras else None
    if crop is not None:
        # otherwise the crops of an evaluation are random
        settings.require("policy.eval_fixed_crop", True, False)
    return {
        "crop_shape": crop,
        "crop_is_random": True,
        "use_group_norm": bool(settings.get("policy.obs_encoder_group_norm", False)),
        "use_separate_rgb_encoder_per_camera": True,
    }


def make_config(settings: Settings) -> tuple[Tree, Keys]:
    """LeRobot's config.json, and the observations in the order of the checkpoint's network."""
    kind = _class_of(settings, "policy._target_")
    if kind not in POLICIES:
        raise ConversionError(f"policy._target_ is {kind}; expected one of {', '.join(POLICIES)}")
    is_hybrid = kind == POLICIES[0]
    _require_known(settings.section("policy"), _POLICY_KEYS, "policy")
    settings.require("policy.obs_as_global_cond", True, is_hybrid)
    settings.require("policy.obs_as_local_cond", False, False)
    settings.require("policy.pred_action_steps_only", False, False)
    if not is_hybrid:
        settings.require("policy.oa_step_convention", True, False)
    keys = _obs_keys(settings, is_hybrid)
    cameras = [(name, shape) for name, kind, shape in keys if kind == "rgb"]
    n_numbers = sum(math.prod(shape) for _, kind, shape in keys if kind == "low_dim")
    inputs = {STATE: {"type": "STATE", "shape": [n_numbers]}}
    inputs.update({f"observation.images.{name}": {"type": "VISUAL", "shape": shape} for name, shape in cameras})
    horizon, n_obs, n_action = (settings.get(f"policy.{name}") for name in ("horizon", "n_obs_steps", "n_action_steps"))
    config = {
        "type": "diffusion",
        "n_obs_steps": n_obs,
        "horizon": horizon,
        "n_action_steps": n_action,
        "drop_n_last_frames": horizon - n_action - n_obs + 1,
        "input_features": inputs,
        "output_features": {ACTION: {"type": "ACTION", "shape": [_action_dim(settings, is_hybrid)]}},
        "normalization_mapping": {"STATE": "MIN_MAX", "VISUAL": "MEAN_STD", "ACTION": "MIN_MAX"},
        "vision_backbone": "resnet18",
        "pretrained_backbone_weights": None,
        "resize_shape": None,
        "crop_ratio": 1.0,
        "do_mask_loss_for_padding": False,
        "device": "cpu",
        "push_to_hub": False,
    }
    config |= _encoder_config(settings, bool(cameras)) | _unet_config(settings, is_hybrid)
    config |= _scheduler_config(settings) | _training_config(settings)
    return config, keys


# The weights

Tensors = dict[str, "torch.Tensor"]


def _take(tensors: Tensors, name: str) -> torch.Tensor:
    if name not in tensors:
        raise ConversionError(f"the weights have no '{name}'")
    return tensors.pop(name)


def _convert_encoder(key: str, index: int, tensors: Tensors, result: Tensors) -> int:
    """Moves the tensors of one camera's encoder. Returns its number of keypoints."""
    import torch

    source, target = f"obs_encoder.obs_nets.{key}.", f"diffusion.rgb_encoder.{index}."
    temperature = _take(tensors, f"{source}nets.1.temperature")
    if float(temperature) != 1.0:
        raise ConversionError(f"the spatial softmax of '{key}' has the temperature {float(temperature)}; expected 1")
    result[f"{target}pool.pos_grid"] = torch.cat(
        [_take(tensors, f"{source}nets.1.pos_{axis}") for axis in "xy"]
    ).T.contiguous()
    for theirs, ours in (("nets.0.nets.", "backbone."), ("nets.1.nets.", "pool.nets."), ("nets.3.", "out.")):
        for name in [name for name in tensors if name.startswith(source + theirs)]:
            result[target + ours + name[len(source + theirs) :]] = tensors.pop(name)
    for name in [name for name in tensors if name.startswith((source + "backbone.", source + "pool."))]:
        del tensors[name]  # the same tensors under another name
    if f"{target}pool.nets.weight" not in result or f"{target}out.weight" not in result:
        raise ConversionError(f"the encoder of '{key}' is not a ResNet with a spatial softmax and a linear layer")
    return int(result[f"{target}pool.nets.weight"].shape[0])


def _unet_name(name: str) -> str:
    name = name.replace(".blocks.0.", ".conv1.").replace(".blocks.1.", ".conv2.")
    return re.sub(r"((?:down|up)_modules\.\d+\.2)\.conv\.", r"\1.", name)


def _columns(keys: Keys, keypoints: int) -> list[int]:
    """Of one observation step: the checkpoint's column of each of LeRobot's, numbers before cameras."""
    begins, begin = {}, 0
    for name, kind, shape in keys:
        width = 2 * keypoints if kind == "rgb" else math.prod(shape)
        begins[name] = range(begin, begin + width)
        begin += width
    return [
        column for wanted in ("low_dim", "rgb") for name, kind, _ in keys if kind == wanted for column in begins[name]
    ]


def _unwrap(tensors: Tensors) -> Tensors:
    """Without what DistributedDataParallel, torch.compile or a module around the policy put before all names."""
    marks = ("module", "_orig_mod")
    clean = {".".join(part for part in name.split(".") if part not in marks): value for name, value in tensors.items()}
    if len(clean) != len(tensors):
        raise ConversionError(
            "the weights have tensors of the same name, one with 'module.' or '_orig_mod.' and one without"
        )
    wrapper = next(
        (name[: name.index("normalizer.params_dict.")] for name in clean if "normalizer.params_dict." in name), ""
    )
    if not all(name.startswith(wrapper) for name in clean):
        return clean
    return {name[len(wrapper) :]: value for name, value in clean.items()}


def convert_weights(tensors: Tensors, keys: Keys, config: Tree) -> Tensors:
    """LeRobot's names and order of inputs. Sets the config's number of keypoints. `tensors` loses what is used."""
    import torch

    result: Tensors = {}
    cameras = [name for name, kind, _ in keys if kind == "rgb"]
    keypoints = {_convert_encoder(key, index, tensors, result) for index, key in enumerate(cameras)} or {32}
    if len(keypoints) > 1:
        raise ConversionError(f"the cameras have different numbers of keypoints: {sorted(keypoints)}")
    config["spatial_softmax_num_keypoints"] = keypoints.pop()

    columns, embed = _columns(keys, config["spatial_softmax_num_keypoints"]), config["diffusion_step_embed_dim"]
    order = list(range(embed))
    for step in range(config["n_obs_steps"]):
        order += [embed + step * len(columns) + column for column in columns]
    for name in [name for name in tensors if name.startswith("model.")]:
        tensor = tensors.pop(name)
        if name.endswith(".cond_encoder.1.weight"):
            if tensor.shape[1] != len(order):
                raise ConversionError(f"{name} has {tensor.shape[1]} columns; the config makes {len(order)}")
            tensor = tensor[:, torch.tensor(order)]
        result["diffusion.unet." + _unet_name(name[len("model.") :])] = tensor.contiguous()
    return result


def convert_statistics(tensors: Tensors, keys: Keys, config: Tree) -> Tensors:
    """Statistics with which LeRobot's formulas do what the checkpoint's normalizer does."""
    import torch

    def affine(key: str, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        scale, offset = (
            _take(tensors, f"normalizer.params_dict.{key}.{part}").double().flatten() for part in ("scale", "offset")
        )
        for name in [name for name in tensors if name.startswith(f"normalizer.params_dict.{key}.")]:
            del tensors[name]
        if scale.numel() not in (1, size):
            raise ConversionError(f"the normalizer of '{key}' has {scale.numel()} values; expected {size}")
        return scale.expand(size), offset.expand(size)

    def limits(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Tensors:
        scale, offset = (torch.cat(parts) for parts in zip(*pairs))
        return {"min": (-1 - offset) / scale, "max": (1 - offset) / scale}

    stats = {
        STATE: limits([affine(name, math.prod(shape)) for name, kind, shape in keys if kind == "low_dim"]),
        ACTION: limits([affine(ACTION, config["output_features"][ACTION]["shape"][0])]),
    }
    for name, kind, shape in keys:
        if kind == "rgb":
            scale, offset = affine(name, shape[0])
            stats[f"observation.images.{name}"] = {
                "mean": (-offset / scale).reshape(-1, 1, 1),
                "std": (1 / scale).reshape(-1, 1, 1),
            }
    return {
        f"{feature}.{stat}": value.float().contiguous()
        for feature, entry in stats.items()
        for stat, value in entry.items()
    }


def _processor(name: str, step: str, config: Tree, features: Tree, state_file: str) -> Tree:
    normalizing = {
        "registry_name": step,
        "state_file": state_file,
        "config": {"eps": 1e-8, "features": features, "norm_map": config["normalization_mapping"]},
    }
    device = {"registry_name": "device_processor", "config": {"device": "cpu", "float_dtype": None}}
    if step == "unnormalizer_processor":
        return {"name": name, "steps": [normalizing, device]}
    rename = {"registry_name": "rename_observations_processor", "config": {"rename_map": {}}}
    return {"name": name, "steps": [rename, {"registry_name": "to_batch_processor", "config": {}}, device, normalizing]}


def _write(output: pathlib.Path, config: Tree, weights: Tensors, stats: Tensors) -> None:
    from safetensors.torch import save_file

    output.mkdir(parents=True)
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})
    features = config["input_features"] | config["output_features"]
    for name, step, seen, number in (
        ("policy_preprocessor", "normalizer_processor", features, 3),
        ("policy_postprocessor", "unnormalizer_processor", config["output_features"], 0),
    ):
        state_file = f"{name}_step_{number}_{step}.safetensors"
        save_file(stats, output / state_file)
        (output / f"{name}.json").write_text(
            json.dumps(_processor(name, step, config, seen, state_file), indent=2) + "\n"
        )
    # last, because a folder without it is no policy
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def convert(checkpoint: pathlib.Path, output: pathlib.Path, weights: str = "auto") -> Tree:
    """Writes the folder and returns its config. `weights`: "ema", "model", or "auto" for EMA if there are any.

    Raises ConversionError for a checkpoint that cannot be converted, before anything is written.
    """
    if output.exists():
        raise ConversionError(f"{output} exists; give another folder")
    payload = _read_pickle(checkpoint)
    settings = Settings(_plain(payload["cfg"]))
    config, keys = make_config(settings)
    states = payload["state_dicts"]
    name = {"ema": "ema_model", "model": "model", "auto": "ema_model" if "ema_model" in states else "model"}[weights]
    if name not in states:
        raise ConversionError(f"the checkpoint has no '{name}'; it has {', '.join(states)}")
    tensors = _unwrap(
        {key: value.detach() for key, value in states[name].items() if not key.endswith("_dummy_variable")}
    )
    converted = convert_weights(tensors, keys, config)
    stats = convert_statistics(tensors, keys, config)
    if tensors:
        raise ConversionError(f"the weights have '{min(tensors)}', which is not understood")
    _write(output, config, {key: value.clone() for key, value in converted.items()}, stats)
    return config


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dp_bench.convert_diffusion_policy", description=__doc__.split("\n")[0]
    )
    parser.add_argument("checkpoint", type=pathlib.Path, help="a .ckpt of diffusion_policy")
    parser.add_argument("output", type=pathlib.Path, help="folder to write; must not exist")
    parser.add_argument(
        "--weights", choices=("auto", "ema", "model"), default="auto", help="default: EMA weights if there are any"
    )
    options = parser.parse_args(arguments)
    try:
        config = convert(options.checkpoint, options.output, options.weights)
    except (ConversionError, OSError) as error:
        print(f"convert_diffusion_policy: {error}", file=sys.stderr)
        return 6
    print(f"{options.output}: a diffusion policy of LeRobot")
    for name, feature in config["input_features"].items():
        print(f"  {name}: {feature['shape']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
