"""Random ACT policies of LeRobot, imported by dp_bench and exported back: every layer of a plan and the planned actions must
agree with those of LeRobot in float64. In float32, ours may be three times as far from them as LeRobot's own are, where those
are further than the tolerance. For LeRobot 0.4 to 0.6. Ends with 77, which ctest shows as skipped, where LeRobot is missing:
    python tests/integration/lerobot_act.py build/release/bin/dp_bench build/release/bin/plan_with_stages [N]
"""

import json
import pathlib
import random
import sys
import tempfile

from lerobot_policies import TOLERANCE, difference, random_stats, run  # ends with 77 without LeRobot
import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from safetensors.torch import load_file, save_file
from torchvision.ops.misc import FrozenBatchNorm2d

BATCH = 2
STATE, ENV = "observation.state", "observation.environment_state"


def random_config(rng: random.Random) -> ACTConfig:
    n_cameras = rng.randint(0, 3)
    image = (3, rng.randint(40, 60), rng.randint(40, 60))
    names = rng.sample(["wrist", "top", "side", "front", "a"], n_cameras)
    inputs = {f"observation.images.{name}": PolicyFeature(FeatureType.VISUAL, image) for name in names}
    inputs[STATE] = PolicyFeature(FeatureType.STATE, (rng.randint(2, 6),))
    if n_cameras == 0 or rng.random() < 0.4:
        inputs[ENV] = PolicyFeature(FeatureType.ENV, (rng.randint(7, 9),))
    items = list(inputs.items())
    rng.shuffle(items)
    norms = [NormalizationMode.MIN_MAX, NormalizationMode.MEAN_STD, NormalizationMode.IDENTITY]
    chunk_size = rng.randint(4, 20)
    coeff = rng.choice([None, 0.01])
    return ACTConfig(
        input_features=dict(items), output_features={"action": PolicyFeature(FeatureType.ACTION, (rng.randint(2, 5),))},
        normalization_mapping={"VISUAL": rng.choice(norms), "STATE": rng.choice(norms), "ENV": rng.choice(norms),
                               "ACTION": rng.choice(norms[:2])},
        chunk_size=chunk_size, n_action_steps=1 if coeff else rng.randint(1, chunk_size), temporal_ensemble_coeff=coeff,
        pre_norm=rng.random() < 0.5, dim_model=rng.choice([32, 64]), n_heads=rng.choice([2, 4]),
        dim_feedforward=rng.choice([48, 100]), feedforward_activation=rng.choice(["relu", "gelu"]),
        n_encoder_layers=rng.randint(1, 3), n_decoder_layers=rng.randint(1, 2), use_vae=rng.random() < 0.8,
        latent_dim=rng.choice([8, 32]), n_vae_encoder_layers=rng.randint(1, 2), pretrained_backbone_weights=None,
        optimizer_lr_backbone=rng.choice([1e-5, 1e-6]), device="cpu", push_to_hub=False)


def randomize(policy: torch.nn.Module) -> None:
    """New norms change nothing, which would hide mistakes."""
    with torch.no_grad():
        for module in policy.modules():
            if isinstance(module, FrozenBatchNorm2d):
                module.weight.uniform_(0.3, 0.7)
                module.bias.uniform_(-0.2, 0.2)
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 1.5)


@torch.no_grad()
def plan(policy, pre, post, obs, dtype=torch.float32):
    """The whole chunk in raw units, and the results of the layers."""
    layers, handles = {}, []
    policy.eval().to(dtype)
    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(policy.model, stack).layers):
            def keep(_module, _inputs, output, name=f"{stack} layer {i + 1}"):
                layers[name] = output.transpose(0, 1)
            handles.append(layer.register_forward_hook(keep))
    batch = pre({key: value.clone() for key, value in obs.items()})
    torch.set_default_dtype(dtype)
    latent = policy.model.encoder_latent_input_proj  # LeRobot's zeros are float32
    handles.append(latent.register_forward_pre_hook(lambda _module, inputs: (inputs[0].to(dtype),)))
    chunk = policy.predict_action_chunk({k: v.to(dtype) if torch.is_tensor(v) and v.is_floating_point() else v for k, v in batch.items()})
    torch.set_default_dtype(torch.float32)
    for handle in handles:
        handle.remove()
    return post(chunk), layers


def split_keys(config, rng):
    """The keys of each feature: another name, and two for the state, which are not in alphabetical order."""
    keys = {name: [f"k{rng.randint(10, 99)}_{name.split('.')[-1]}"] for name in config.input_features}
    keys[STATE] = ["z_arm", "a_hand"]
    return keys


def in_our_order(tokens, config, keys):
    """Ours takes the cameras in alphabetical order of its keys. The tokens before them are those of numbers."""
    cameras = list(config.image_features)
    if not cameras:
        return tokens
    n_numbers = 1 + sum(name in config.input_features for name in (STATE, ENV))
    maps = tokens[:, n_numbers:].chunk(len(cameras), dim=1)
    order = sorted(range(len(cameras)), key=lambda i: keys[cameras[i]][0])
    return torch.cat([tokens[:, :n_numbers], *(maps[i] for i in order)], dim=1)


def check_one(index, programs, folder):
    rng = random.Random(index)
    torch.manual_seed(index)
    config = random_config(rng)
    stats = random_stats(config)
    policy = ACTPolicy(config)
    randomize(policy)
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    for part in (policy, pre, post):
        part.save_pretrained(folder / "theirs")

    keys, theirs, ours, shapes = split_keys(config, rng), {}, {}, {}
    for name, feature in config.input_features.items():
        shape = (BATCH, *feature.shape)
        if feature.type is FeatureType.VISUAL:
            pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
            theirs[name], ours[keys[name][0]] = pixels.float() / 255, pixels[:, None]
            shapes[keys[name][0]] = {"shape": list(feature.shape), "type": "rgb"}
            continue
        theirs[name] = torch.rand(shape) * 3 - 1
        theirs[name][..., 0] = stats[name]["min"][0]  # that dimension never changes
        sizes = [feature.shape[0]] if len(keys[name]) == 1 else [feature.shape[0] - 1, 1]
        for key, part in zip(keys[name], theirs[name].split(sizes, dim=1), strict=True):
            ours[key], shapes[key] = part[:, None].contiguous(), {"shape": [part.shape[1]], "type": "low_dim"}
    action_shape = {"shape": list(config.output_features["action"].shape)}
    (folder / "task.json").write_text(json.dumps({"env": {"plugin": "point_mass"}, "env_runner": {"n_train": 0},
                                                  "shape_meta": {"obs": shapes, "action": action_shape}}))
    mapping = [f"--map={name}={','.join(parts)}" for name, parts in keys.items()]
    dp_bench, plan_with_stages = programs
    run(dp_bench, "import", folder / "theirs", "--config", folder / "task.json", "--output", folder / "ours", *mapping)
    save_file(ours, folder / "obs.safetensors")
    run(plan_with_stages, folder / "ours", folder / "obs.safetensors", folder / "planned.safetensors")
    planned = load_file(folder / "planned.safetensors")
    stages = {name.split(" ", 1)[1]: value for name, value in planned.items() if name[:4].isdigit()}

    # and back; what the import noted is not needed
    run(dp_bench, "export", "--checkpoint", folder / "ours", "--format", "lerobot", "--output", folder / "back")
    returned = ACTPolicy.from_pretrained(folder / "back", strict=True)
    processors = make_pre_post_processors(returned.config, pretrained_path=folder / "back")
    for field in ("chunk_size", "n_action_steps", "temporal_ensemble_coeff", "input_features", "pre_norm", "kl_weight"):
        assert getattr(returned.config, field) == getattr(config, field), field

    n = config.chunk_size if config.temporal_ensemble_coeff else config.n_action_steps
    rounded, rounded_layers = plan(policy, pre, post, theirs)
    again, _ = plan(returned, *processors, theirs)
    exact, layers = plan(policy, pre, post, theirs, torch.float64)
    allowed = {"action": max(TOLERANCE, 3 * difference(rounded, exact))}
    errors = {"action": difference(planned["action"], exact[:, :n]), "action, exported": difference(again, exact)}
    for name, value in layers.items():
        wanted = in_our_order(value, config, keys) if name.startswith("encoder") else value
        errors[name] = difference(stages[name], wanted)
        allowed[name] = max(TOLERANCE, 3 * difference(rounded_layers[name], value))
    allowed["action, exported"] = allowed["action"]
    print(f"{index:3d}  {len(config.image_features)} cameras, {'pre' if config.pre_norm else 'post'}-norm, "
          f"{config.feedforward_activation}: {len(layers)} layers, worst {max(errors[name] for name in layers):.1e}, "
          f"action {errors['action']:.1e} (LeRobot {difference(rounded, exact):.1e}), exported {errors['action, exported']:.1e}",
          flush=True)
    bad = {name: error for name, error in errors.items() if not error <= allowed[name]}
    assert not bad, (bad, allowed)


def main():
    programs = [pathlib.Path(argument).resolve() for argument in sys.argv[1:3]]
    n_policies = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    for index in range(n_policies):
        with tempfile.TemporaryDirectory() as folder:
            check_one(index, programs, pathlib.Path(folder))
    print(f"{n_policies} ACT policies of LeRobot: as they are")


if __name__ == "__main__":
    main()
