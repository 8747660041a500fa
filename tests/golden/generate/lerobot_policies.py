# Reference numbers for reading LeRobot's policies: a tiny diffusion policy and a tiny ACT, saved by LeRobot, and what they plan.
#   python tests/golden/generate/lerobot_policies.py [act]
# Packages: lerobot 0.6.1 writes v06 and act_v06 (the latter alone if asked for), lerobot 0.3.2 writes v03 (statistics inside the model); diffusers, torch, safetensors.
# See tests/golden/README.md for versions. Writes tests/data/lerobot/policy_<version>/ and
# tests/golden/lerobot_policy_<version>.safetensors: observations, noise, and the action that LeRobot plans.
import pathlib
import shutil
import sys

import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from safetensors.torch import save_file

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
HAS_PROCESSORS = "crop_ratio" in DiffusionConfig.__dataclass_fields__
BATCH, STATE, ENV, ACTION = 2, 3, 5, 2


def make_config() -> DiffusionConfig:
    return DiffusionConfig(
        n_obs_steps=2, horizon=8, n_action_steps=4,
        input_features={"observation.state": PolicyFeature(FeatureType.STATE, (STATE,)),
                        "observation.environment_state": PolicyFeature(FeatureType.ENV, (ENV,))},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION,))},
        normalization_mapping={"VISUAL": NormalizationMode.MEAN_STD, "STATE": NormalizationMode.MEAN_STD,
                               "ENV": NormalizationMode.MIN_MAX, "ACTION": NormalizationMode.MIN_MAX},
        down_dims=(8, 16), n_groups=4, diffusion_step_embed_dim=8, crop_shape=None, noise_scheduler_type="DDIM",
        num_train_timesteps=20, num_inference_steps=5, pretrained_backbone_weights=None, device="cpu", push_to_hub=False)


def make_stats() -> dict:
    stats = {}
    for name, size in (("observation.state", STATE), ("observation.environment_state", ENV), ("action", ACTION)):
        low = torch.rand(size) * 4 - 2
        stats[name] = {"min": low, "max": low + 1 + torch.rand(size), "mean": low + 0.5, "std": 0.3 + torch.rand(size)}
    return stats


def main() -> None:
    torch.manual_seed(0)
    version = "v06" if HAS_PROCESSORS else "v03"
    config, stats = make_config(), make_stats()
    folder = TESTS / "data" / "lerobot" / f"policy_{version}"
    shutil.rmtree(folder, ignore_errors=True)
    obs = {"observation.state": torch.rand(BATCH, 2, STATE) * 3, "observation.environment_state": torch.rand(BATCH, 2, ENV) * 3}
    noise = torch.randn(BATCH, 8, ACTION)

    if HAS_PROCESSORS:
        from lerobot.policies.factory import make_pre_post_processors

        policy = DiffusionPolicy(config).eval()
        pre, post = make_pre_post_processors(config, dataset_stats=stats)
        policy.save_pretrained(folder)
        pre.save_pretrained(folder)
        post.save_pretrained(folder)
        normalize = pre.steps[3]
        batch = {key: normalize._apply_transform(value, key, config.input_features[key].type) for key, value in obs.items()}
        action = post.steps[0]._normalize_action(policy.diffusion.generate_actions(batch, noise=noise), inverse=True)
    else:
        policy = DiffusionPolicy(config, dataset_stats=stats).eval()
        policy.save_pretrained(folder)
        batch = policy.normalize_inputs(dict(obs))
        model = policy.diffusion
        cond = model._prepare_global_conditioning(batch)
        model.noise_scheduler.set_timesteps(model.num_inference_steps)
        sample = noise
        for t in model.noise_scheduler.timesteps:
            output = model.unet(sample, torch.full((BATCH,), t, dtype=torch.long), global_cond=cond)
            sample = model.noise_scheduler.step(output, t, sample).prev_sample
        action = policy.unnormalize_outputs({"action": sample[:, 1:5]})["action"]
    numbers = {**obs, "noise": noise, "action": action.detach().contiguous()}
    save_file(numbers, TESTS / "golden" / f"lerobot_policy_{version}.safetensors")


def write_act() -> None:
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    torch.manual_seed(0)
    config = ACTConfig(
        input_features={"observation.state": PolicyFeature(FeatureType.STATE, (STATE,)),
                        "observation.environment_state": PolicyFeature(FeatureType.ENV, (ENV,))},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION,))},
        normalization_mapping={"VISUAL": NormalizationMode.MEAN_STD, "STATE": NormalizationMode.MEAN_STD,
                               "ENV": NormalizationMode.MIN_MAX, "ACTION": NormalizationMode.MEAN_STD},
        chunk_size=8, n_action_steps=1, temporal_ensemble_coeff=0.01, dim_model=16, n_heads=2, dim_feedforward=24,
        n_encoder_layers=2, n_vae_encoder_layers=1, latent_dim=4, pretrained_backbone_weights=None, device="cpu",
        push_to_hub=False)
    stats = make_stats()
    folder = TESTS / "data" / "lerobot" / "policy_act_v06"
    shutil.rmtree(folder, ignore_errors=True)
    policy = ACTPolicy(config).eval()
    pre, post = make_pre_post_processors(config, dataset_stats=stats)
    for part in (policy, pre, post):
        part.save_pretrained(folder)
    obs = {"observation.state": torch.rand(BATCH, STATE) * 3, "observation.environment_state": torch.rand(BATCH, ENV) * 3}
    action = post(policy.predict_action_chunk(pre({**obs})))
    save_file({**obs, "action": action.detach().contiguous()}, TESTS / "golden" / "lerobot_policy_act_v06.safetensors")


if __name__ == "__main__":
    if sys.argv[1:] != ["act"]:
        main()
    if HAS_PROCESSORS:
        write_act()
