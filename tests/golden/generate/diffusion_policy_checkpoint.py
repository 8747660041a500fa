# Reference numbers for python/src/dp_bench/convert_diffusion_policy.py: a tiny policy, saved by diffusion_policy, and what
# it plans from the noise that dp_bench draws.
#   PYTHONPATH=<clone of diffusion_policy> python tests/golden/generate/diffusion_policy_checkpoint.py NOISE
# Packages: omegaconf, dill, diffusers, einops, zarr 2, torch, safetensors; see tests/golden/README.md for versions.
# NOISE: what plan_with_stages writes for the converted checkpoint. Leave it out the first time, to write the checkpoint.
# Writes tests/data/diffusion_policy/lowdim.ckpt and tests/golden/diffusion_policy_checkpoint.safetensors.
import copy
import pathlib
import sys

import diffusers.schedulers.scheduling_ddpm as ddpm
import dill
import torch
from diffusion_policy.model.common.normalizer import LinearNormalizer
from diffusion_policy.model.diffusion.conditional_unet1d import ConditionalUnet1D
from diffusion_policy.policy.diffusion_unet_lowdim_policy import DiffusionUnetLowdimPolicy
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH, OBS, ACTION = 2, 5, 2
UNET = "diffusion_policy.model.diffusion.conditional_unet1d.ConditionalUnet1D"
# with the references of diffusion_policy's own configs
CONFIG = {
    "horizon": 8, "n_obs_steps": 2, "n_action_steps": 4, "n_latency_steps": 0, "obs_dim": OBS, "action_dim": ACTION,
    "obs_as_global_cond": True,
    "policy": {
        "_target_": "diffusion_policy.policy.diffusion_unet_lowdim_policy.DiffusionUnetLowdimPolicy",
        "model": {"_target_": UNET, "input_dim": ACTION, "local_cond_dim": None, "global_cond_dim": 2 * OBS,
                  "diffusion_step_embed_dim": 8, "down_dims": [8, 16], "kernel_size": 5, "n_groups": 4,
                  "cond_predict_scale": True},
        "noise_scheduler": {"_target_": "diffusers.schedulers.scheduling_ddpm.DDPMScheduler", "num_train_timesteps": 20,
                            "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "squaredcos_cap_v2",
                            "variance_type": "fixed_small", "clip_sample": True, "prediction_type": "epsilon"},
        "horizon": "${horizon}", "obs_dim": "${obs_dim}", "action_dim": "${action_dim}",
        "n_action_steps": "${eval:'${n_action_steps}+${n_latency_steps}'}", "n_obs_steps": "${n_obs_steps}",
        "num_inference_steps": 5, "obs_as_local_cond": False, "obs_as_global_cond": "${obs_as_global_cond}",
        "pred_action_steps_only": False, "oa_step_convention": True},
    "optimizer": {"_target_": "torch.optim.AdamW", "lr": 1e-4, "betas": [0.95, 0.999], "eps": 1e-8, "weight_decay": 1e-6},
    "training": {"use_ema": True, "lr_scheduler": "cosine", "lr_warmup_steps": 500}}


def make_policy() -> DiffusionUnetLowdimPolicy:
    torch.manual_seed(0)
    model = dict(CONFIG["policy"]["model"])
    del model["_target_"]
    scheduler = dict(CONFIG["policy"]["noise_scheduler"])
    del scheduler["_target_"]
    policy = DiffusionUnetLowdimPolicy(
        model=ConditionalUnet1D(**model), noise_scheduler=ddpm.DDPMScheduler(**scheduler), horizon=8, obs_dim=OBS,
        action_dim=ACTION, n_action_steps=4, n_obs_steps=2, num_inference_steps=5, obs_as_global_cond=True,
        oa_step_convention=True)
    normalizer = LinearNormalizer()
    normalizer.fit({"obs": torch.rand(50, OBS) * 4, "action": torch.rand(50, ACTION) * 3 - 1}, last_n_dims=1, mode="limits")
    policy.set_normalizer(normalizer)
    return policy.eval()


def save_checkpoint(policy) -> None:
    """As BaseWorkspace.save_checkpoint does; the EMA weights are the ones that count."""
    trained = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(0.1)
    payload = {"cfg": OmegaConf.create(CONFIG),
               "state_dicts": {"model": trained.state_dict(), "ema_model": policy.state_dict()},
               "pickles": {"global_step": dill.dumps(12), "epoch": dill.dumps(3)}}
    folder = TESTS / "data" / "diffusion_policy"
    folder.mkdir(exist_ok=True)
    with open(folder / "lowdim.ckpt", "wb") as file:
        torch.save(payload, file, pickle_module=dill)


def plan(policy, obs, noises):
    draws = iter(noises)
    torch.randn = lambda *_args, **_kwargs: next(draws)
    ddpm.randn_tensor = lambda *_args, **_kwargs: next(draws)
    with torch.no_grad():
        return policy.predict_action({"obs": obs})["action"]


if __name__ == "__main__":
    policy = make_policy()
    save_checkpoint(policy)
    obs = torch.rand(BATCH, 2, OBS, generator=torch.Generator().manual_seed(1)) * 4
    numbers = {"obs": obs}
    if len(sys.argv) > 1:
        noise = load_file(sys.argv[1])
        numbers["action"] = plan(policy, obs, [noise[f"noise.{i}"] for i in range(20)]).contiguous()
    save_file(numbers, TESTS / "golden" / "diffusion_policy_checkpoint.safetensors")
