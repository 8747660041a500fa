"""Random diffusion policies of LeRobot, imported by dp_bench and exported back: the layers of the first denoising step and
the planned actions must agree. Sampling may amplify rounding, so the actions are compared in float64. In float32, ours
may be three times as far from them as LeRobot's own are, where those are further than the tolerance. Works with LeRobot 0.3 (statistics inside the model) and 0.4 to 0.6 (processors). Ends with 77, which ctest shows as
skipped, where LeRobot is missing. In a Python environment with lerobot, torchvision and diffusers:
    python tests/integration/lerobot_policies.py build/release/bin/dp_bench build/release/bin/plan_with_stages [N]
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch

    import lerobot
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
except ImportError as error:
    print(f"SKIPPED: {error}; pip install lerobot")
    sys.exit(77)
import diffusers.schedulers.scheduling_ddpm as ddpm_module
from safetensors.torch import load_file, save_file

HAS_PROCESSORS = "crop_ratio" in DiffusionConfig.__dataclass_fields__
TOLERANCE = 1e-5  # relative to the largest value, where that is above 1
BATCH = 2


def random_config(rng: random.Random) -> DiffusionConfig:
    n_cameras = rng.randint(0, 3)
    names = rng.sample(["wrist", "top", "side", "front", "a"], n_cameras)
    image = (3, rng.randint(40, 60), rng.randint(40, 60))
    inputs = {f"observation.images.{name}": PolicyFeature(FeatureType.VISUAL, image) for name in names}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (rng.randint(2, 6),))
    if n_cameras == 0 or rng.random() < 0.4:
        inputs["observation.environment_state"] = PolicyFeature(FeatureType.ENV, (rng.randint(7, 9),))
    items = list(inputs.items())
    rng.shuffle(items)
    norms = [NormalizationMode.MIN_MAX, NormalizationMode.MEAN_STD, NormalizationMode.IDENTITY]
    train_steps = rng.choice([10, 20])
    n_obs = rng.randint(1, 3)
    more = {}
    if HAS_PROCESSORS and rng.random() < 0.5:
        more = {"resize_shape": (rng.randint(38, 80), rng.randint(38, 80)), "crop_ratio": rng.choice([1.0, 0.9])}
    elif rng.random() < 0.7:
        more = {"crop_shape": (rng.randint(34, 40), rng.randint(34, 40))}
    else:
        more = {"crop_shape": None}
    group_norm = rng.random() < 0.5
    return DiffusionConfig(
        n_obs_steps=n_obs, horizon=16, n_action_steps=rng.randint(1, 8), input_features=dict(items),
        output_features={"action": PolicyFeature(FeatureType.ACTION, (rng.randint(2, 5),))},
        normalization_mapping={"VISUAL": rng.choice(norms), "STATE": rng.choice(norms), "ENV": rng.choice(norms),
                               "ACTION": rng.choice(norms[:2])},
        use_group_norm=group_norm, pretrained_backbone_weights=None,
        spatial_softmax_num_keypoints=rng.randint(3, 16),
        use_separate_rgb_encoder_per_camera=rng.random() < 0.5, down_dims=rng.choice([(8, 16), (16, 32, 64)]),
        kernel_size=rng.choice([3, 5]), n_groups=rng.choice([4, 8]), diffusion_step_embed_dim=rng.choice([8, 32]),
        use_film_scale_modulation=rng.random() < 0.5, noise_scheduler_type=rng.choice(["DDPM", "DDIM"]),
        num_train_timesteps=train_steps, num_inference_steps=rng.choice([None, 5]),
        beta_schedule=rng.choice(["squaredcos_cap_v2", "linear", "scaled_linear"]),
        prediction_type=rng.choice(["epsilon", "sample"]), clip_sample=rng.random() < 0.8,
        clip_sample_range=rng.choice([1.0, 1.5]), device="cpu", push_to_hub=False, **more)


def alphas_cumprod(scheduler):
    """Rounded to float32 once, as ours. LeRobot's are computed in float32, and their last bits depend on the processor."""
    config, n = scheduler.config, scheduler.config.num_train_timesteps
    steps = torch.arange(n, dtype=torch.float64)
    low, high = config.beta_start, config.beta_end
    if config.beta_schedule == "squaredcos_cap_v2":
        betas = scheduler.betas
    elif config.beta_schedule == "linear":
        betas = low + (high - low) * steps / (n - 1)
    else:
        betas = (low**0.5 + (high**0.5 - low**0.5) * steps / (n - 1)) ** 2
    alphas = torch.cumprod((1 - betas.float().double()).float().double(), 0).float().double()
    assert (alphas - scheduler.alphas_cumprod).abs().max() < 3e-7, (alphas, scheduler.alphas_cumprod)
    return alphas


def round_pixels(image):
    """What a pixel from 0 to 255 is in float64, where float32 was a little off."""
    return (image * 255).round() / 255


def random_stats(config: DiffusionConfig) -> dict:
    stats = {}
    for name, feature in {**config.input_features, **config.output_features}.items():
        if feature.type is FeatureType.VISUAL:
            shape = (feature.shape[0], 1, 1)
            stats[name] = {"min": torch.rand(shape) * 0.1, "max": 0.9 + torch.rand(shape) * 0.1,
                           "mean": 0.4 + torch.rand(shape) * 0.2, "std": 0.2 + torch.rand(shape) * 0.1}
        else:
            low = torch.rand(feature.shape) * 4 - 2
            stats[name] = {"min": low, "max": low + 1 + torch.rand(feature.shape),
                           "mean": low + 0.5, "std": 0.3 + torch.rand(feature.shape)}
            stats[name]["max"][0] = low[0]  # a dimension that never changes
    return stats


def randomize(policy: torch.nn.Module) -> None:
    """Batch norms and biases start at zero or one, which would hide mistakes."""
    with torch.no_grad():
        for module in policy.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 1.5)
            if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.GroupNorm)):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.2, 0.2)


class Theirs:
    """A LeRobot policy of either version, with its normalization."""

    def __init__(self, config=None, stats=None, folder=None):
        if folder is not None:
            self.policy = DiffusionPolicy.from_pretrained(folder, strict=True)
        elif HAS_PROCESSORS:
            self.policy = DiffusionPolicy(config)
            randomize(self.policy)
        else:
            self.policy = DiffusionPolicy(config, dataset_stats=stats)
            randomize(self.policy)
        self.policy.eval()
        self.config = self.policy.config
        if HAS_PROCESSORS:
            from lerobot.policies.factory import make_pre_post_processors

            self.pre, self.post = make_pre_post_processors(self.config, pretrained_path=folder, dataset_stats=stats)

    def plan_exactly(self, obs, noises):
        """The action chunk, computed in float64 from now on."""
        self.policy.double()
        scheduler = self.policy.diffusion.noise_scheduler
        scheduler.alphas_cumprod = alphas_cumprod(scheduler)
        torch.set_default_dtype(torch.float64)  # of the embedded timestep
        exact = {name: round_pixels(value.double()) if value.dim() == 5 else value.double() for name, value in obs.items()}
        action, _ = self.plan(exact, [noise.double() for noise in noises])
        torch.set_default_dtype(torch.float32)
        return action

    def affines(self, keys):
        """Scale and offset of each key, from LeRobot's formulas in float64: of inputs forwards, of the action backwards."""
        probes = [{name: torch.full((1, 1, *feature.shape), value, dtype=torch.float64)
                   for name, feature in self.config.input_features.items()} for value in (0.0, 1.0)]
        at_zero, at_one = (self.normalize(probe) for probe in probes)
        result = {}
        for name, key in keys.items():
            offset = at_zero[name][0, 0].reshape(len(at_zero[name][0, 0]), -1)[:, 0]
            scale = at_one[name][0, 0].reshape(len(offset), -1)[:, 0] - offset
            result[f"{key}.scale"], result[f"{key}.offset"] = scale.clone(), offset.clone()
        width = self.config.output_features["action"].shape
        mean = self.unnormalize(torch.zeros(1, 1, *width, dtype=torch.float64))[0, 0]
        gain = self.unnormalize(torch.ones(1, 1, *width, dtype=torch.float64))[0, 0] - mean
        scale = 1 / torch.where(gain == 0, 1e-12, gain)  # LeRobot 0.3 ignores actions that never change
        return {**result, "action.scale": scale, "action.offset": -mean * scale}

    def save(self, folder):
        self.policy.save_pretrained(folder)
        if HAS_PROCESSORS:
            self.pre.save_pretrained(folder)
            self.post.save_pretrained(folder)

    def normalize(self, batch):
        if not HAS_PROCESSORS:
            return self.policy.normalize_inputs(batch)
        step = next(s for s in self.pre.steps if type(s).__name__ == "NormalizerProcessorStep")
        return step._normalize_observation(batch, inverse=False)

    def unnormalize(self, action):
        if not HAS_PROCESSORS:
            return self.policy.unnormalize_outputs({"action": action})["action"]
        step = next(s for s in self.post.steps if type(s).__name__ == "UnnormalizerProcessorStep")
        return step._normalize_action(action, inverse=True)

    @torch.no_grad()
    def plan(self, obs, noises):
        """The action chunk, and the outputs of layers in the first denoising step."""
        model, layers, handles = self.policy.diffusion, {}, []

        def watch(module, name):
            def keep_first(_module, _inputs, output):
                layers.setdefault(name, output)

            handles.append(module.register_forward_hook(keep_first))

        for i, level in enumerate(model.unet.down_modules):
            watch(level[1], f"unet: down {i + 1}")
        watch(model.unet.mid_modules[1], "unet: middle")
        for i, level in enumerate(model.unet.up_modules):
            watch(level[2], f"unet: up {len(model.unet.up_modules) - i}")
        batch = self.normalize({key: value.clone() for key, value in obs.items()})
        cameras = list(self.config.image_features)
        if cameras:
            batch["observation.images"] = torch.stack([batch[key] for key in cameras], dim=-4)
        cond = model._prepare_global_conditioning(batch)
        scheduler = model.noise_scheduler
        scheduler.set_timesteps(model.num_inference_steps)
        draws = iter(noises)
        sample = next(draws)
        ddpm_module.randn_tensor = lambda *_args, **_kwargs: next(draws)
        for t in scheduler.timesteps:
            output = model.unet(sample, torch.full(sample.shape[:1], t, dtype=torch.long), global_cond=cond)
            sample = scheduler.step(output, t, sample).prev_sample
        for handle in handles:
            handle.remove()
        begin = self.config.n_obs_steps - 1
        return self.unnormalize(sample[:, begin:begin + self.config.n_action_steps]), layers


def make_obs(config):
    """As LeRobot takes them, and as dp_bench does."""
    theirs, ours = {}, {}
    for name, feature in config.input_features.items():
        shape = (BATCH, config.n_obs_steps, *feature.shape)
        if feature.type is FeatureType.VISUAL:
            pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
            theirs[name], ours[name] = pixels.float() / 255, pixels
        else:
            theirs[name] = ours[name] = torch.rand(shape) * 3 - 1
    return theirs, ours


def write_task(path, config, keys):
    """A task with these keys. Importing needs no env that has them."""
    obs = {}
    for name, feature in config.input_features.items():
        kind = "rgb" if feature.type is FeatureType.VISUAL else "low_dim"
        obs[keys[name]] = {"shape": list(feature.shape), "type": kind}
    action = {"shape": list(config.output_features["action"].shape)}
    path.write_text(json.dumps({"env": {"plugin": "point_mass"}, "shape_meta": {"obs": obs, "action": action},
                                "env_runner": {"n_train": 0}}))


def difference(found, expected):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return float((found - expected).abs().max()) / max(1.0, float(expected.abs().max()))


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def check_one(index, programs, folder):
    rng = random.Random(index)
    torch.manual_seed(index)
    config = random_config(rng)
    stats = random_stats(config)
    policy = Theirs(config, stats)
    policy.save(folder / "theirs")
    theirs, ours = make_obs(config)
    for name, feature in config.input_features.items():  # that dimension never changes
        if feature.type is not FeatureType.VISUAL:
            theirs[name][..., 0] = stats[name]["min"][0]

    # names of ours differ, except for several cameras
    keys = {name: name for name in config.input_features}
    renames = rng.random() < 0.5
    if renames:
        keys = {name: f"k{rng.randint(10, 99)}_{name.split('.')[-1]}" for name in keys}
    write_task(folder / "task.json", config, keys)
    mapping = [f"--map={name}={key}" for name, key in keys.items() if renames]
    dp_bench, plan = programs
    run(dp_bench, "import", folder / "theirs", "--config", folder / "task.json", "--output", folder / "ours", *mapping)
    save_file({keys[name]: value.contiguous() for name, value in ours.items()}, folder / "obs.safetensors")
    save_file(policy.affines(keys), folder / "affines.safetensors")
    run(plan, folder / "ours", folder / "obs.safetensors", folder / "planned.safetensors", folder / "affines.safetensors")
    planned = load_file(folder / "planned.safetensors")

    noises = [planned[f"noise.{i}"] for i in range(100)]
    action, layers = policy.plan(theirs, noises)
    layers = {name: value.clone() for name, value in layers.items()}
    # later steps take what the ones before left, and amplify its rounding
    ours = {}
    for name, value in sorted(planned.items()):
        if name[:4].isdigit():
            ours.setdefault(name.split(" ", 1)[1], value)
    errors = {name: difference(ours[name], value) for name, value in layers.items()}
    exact = policy.plan_exactly(theirs, noises)
    allowed = max(TOLERANCE, 3 * difference(action, exact))
    errors["action"] = difference(planned["action"], exact)
    errors["float64 action"] = difference(planned["action in float64"], exact)

    # and back
    if HAS_PROCESSORS:
        run(dp_bench, "export", "--checkpoint", folder / "ours", "--format", "lerobot", "--output", folder / "back", *mapping)
        returned = Theirs(folder=folder / "back")
        again, _ = returned.plan({name: theirs[name] for name in theirs}, noises)
        errors["action, exported"] = difference(again, exact)
        errors["float64 action, exported"] = difference(returned.plan_exactly(theirs, noises), exact)
    cameras = len(config.image_features)
    print(f"{index:3d}  {cameras} cameras {'separate' if config.use_separate_rgb_encoder_per_camera else 'shared'} "
          f"{'GN' if config.use_group_norm else 'BN'} {config.noise_scheduler_type} {config.prediction_type:8} "
          f"film {int(config.use_film_scale_modulation)} resize {getattr(config, 'resize_shape', None)} "
          f"crop {config.crop_shape}: {len(layers)} layers, worst "
          f"{max(errors[name] for name in layers):.1e}, action {errors['action']:.1e} of {allowed:.1e}, "
          f"in float64 {errors['float64 action']:.1e}", flush=True)
    bad = {name: error for name, error in errors.items()
           if not error <= (allowed if name.startswith("action") else TOLERANCE)}
    assert not bad, errors


def main():
    programs = [pathlib.Path(argument).resolve() for argument in sys.argv[1:3]]
    n_policies = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    for index in range(first, first + n_policies):
        with tempfile.TemporaryDirectory() as folder:
            check_one(index, programs, pathlib.Path(folder))
    print(f"{n_policies} policies of LeRobot {lerobot.__version__ if hasattr(lerobot, '__version__') else ''}: as they are")


if __name__ == "__main__":
    main()
