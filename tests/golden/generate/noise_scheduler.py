"""Writes tests/golden/noise_scheduler.safetensors: tables, timesteps and whole denoising loops of diffusers.

Made with diffusers 0.42.1, torch 2.13.0 (CPU), numpy 2.2.6, safetensors 0.8. Seed 0. From the project's
root:
    .venv/bin/python tests/golden/generate/noise_scheduler.py

tables.<case>.{betas,alphas_cumprod}   metadata[tables.<case>]: the config
timesteps.<case>                       metadata[timesteps.<case>]: the config
loop.<case>.{f32,f64}.{prev,x0}        [N, ...] after each step; metadata[loop.<case>]: the config
input.{sample,model_output,noise}      what all loops start from and get, per step
The loops run in float32, and in float64 on the same float32 tables, which tells our arithmetic from
theirs. `quadratic` is not in diffusers; its reference is the formula of the header. Neither is `cosine`;
its reference is cosine_beta_schedule of the improved DDPM code as it is copied everywhere, in float64.
"""

import json
import pathlib

import numpy as np
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from diffusers.schedulers import scheduling_ddpm
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parents[1] / "noise_scheduler.safetensors"
SHAPE = (2, 4, 3)
MAX_STEPS = 10

tensors, metadata = {}, {}


def make(config):
    config = dict(config)
    inference = config.pop("num_inference_steps")
    eta = config.pop("eta", 0.0)
    kind = config.pop("type")
    scheduler = (DDPMScheduler if kind == "ddpm" else DDIMScheduler)(**config)
    scheduler.set_timesteps(inference)
    return scheduler, kind, eta


def cosine_betas(timesteps, clip, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64)
    alphas_cumprod = torch.cos(((x / timesteps) + s) / (1 + s) * torch.pi * 0.5) ** 2
    alphas_cumprod = alphas_cumprod / alphas_cumprod[0]
    betas = 1 - (alphas_cumprod[1:] / alphas_cumprod[:-1])
    return torch.clip(betas, *clip).to(torch.float32)


def add_tables():
    cases = [(s, t, b) for s in ("linear", "scaled_linear", "squaredcos_cap_v2", "quadratic", "cosine")
             for t, b in ((100, (1e-4, 0.02)), (1000, (8.5e-4, 0.012)))]
    for i, (schedule, train, (start, end)) in enumerate(cases):
        config = dict(type="ddpm", num_train_timesteps=train, beta_schedule=schedule, beta_start=start,
                      beta_end=end)
        if schedule == "cosine":
            clip = (1e-4, 0.9999) if train == 100 else (start, 0.999)
            if train != 100:
                config["beta_clip"] = clip
        if schedule == "quadratic":
            betas = torch.tensor(start + (end - start) * np.linspace(0, 1, train) ** 2, dtype=torch.float32)
            alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        elif schedule == "cosine":
            betas = cosine_betas(train, clip)
            alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        else:
            scheduler, _, _ = make(config | {"num_inference_steps": train})
            betas, alphas_cumprod = scheduler.betas, scheduler.alphas_cumprod
        tensors[f"tables.{i}.betas"] = betas
        tensors[f"tables.{i}.alphas_cumprod"] = alphas_cumprod
        metadata[f"tables.{i}"] = json.dumps(config)


def add_timesteps():
    cases = [(s, t, n, o) for s in ("leading", "trailing", "linspace")
             for t, n in ((100, 100), (100, 10), (100, 8), (100, 1), (1000, 50), (1000, 27), (50, 16))
             for o in (0, 1) if not (o and (s != "leading" or n == t))]
    for i, (spacing, train, inference, offset) in enumerate(cases):
        config = dict(type="ddim", num_train_timesteps=train, num_inference_steps=inference,
                      timestep_spacing=spacing, steps_offset=offset)
        scheduler, _, _ = make(config)
        tensors[f"timesteps.{i}"] = scheduler.timesteps
        metadata[f"timesteps.{i}"] = json.dumps(config)


def run_loop(config, dtype):
    scheduler, kind, eta = make(config)
    scheduler.alphas_cumprod = scheduler.alphas_cumprod.to(dtype)
    scheduler.one = torch.tensor(1.0, dtype=dtype)
    if kind == "ddim":
        scheduler.final_alpha_cumprod = scheduler.final_alpha_cumprod.to(dtype)
    sample = tensors["input.sample"].to(dtype)
    prev, x0 = [], []
    for i, t in enumerate(scheduler.timesteps):
        output = tensors["input.model_output"][i].to(dtype)
        noise = tensors["input.noise"][i].to(dtype)
        if kind == "ddim":
            step = scheduler.step(output, int(t), sample, eta=eta, variance_noise=noise)
        else:
            # DDPMScheduler draws its own noise: replace it by ours
            scheduling_ddpm.randn_tensor = lambda *args, **kwargs: noise
            step = scheduler.step(output, int(t), sample)
        sample = step.prev_sample
        prev.append(sample)
        x0.append(step.pred_original_sample)
    return torch.stack(prev), torch.stack(x0)


def add_loops():
    generator = torch.Generator().manual_seed(0)
    tensors["input.sample"] = torch.randn(SHAPE, generator=generator)
    tensors["input.model_output"] = torch.randn((MAX_STEPS, *SHAPE), generator=generator)
    tensors["input.noise"] = torch.randn((MAX_STEPS, *SHAPE), generator=generator)
    base = dict(num_train_timesteps=100, num_inference_steps=10, beta_schedule="squaredcos_cap_v2")
    cases = []
    for prediction in ("epsilon", "sample", "v_prediction"):
        for clip in (True, False):
            common = base | dict(prediction_type=prediction, clip_sample=clip)
            cases.append(common | dict(type="ddpm"))
            for eta in (0.0, 0.5, 1.0):
                cases.append(common | dict(type="ddim", eta=eta))
    ddim = base | dict(type="ddim", prediction_type="epsilon", clip_sample=True, eta=0.3)
    cases.append(ddim | dict(set_alpha_to_one=False, steps_offset=1))
    cases.append(ddim | dict(timestep_spacing="trailing", clip_sample_range=3.0))
    cases.append(ddim | dict(timestep_spacing="linspace", num_inference_steps=7))
    cases.append(base | dict(type="ddpm", beta_schedule="linear", num_train_timesteps=10))
    cases.append(base | dict(type="ddpm", beta_schedule="scaled_linear", timestep_spacing="trailing"))
    for i, config in enumerate(cases):
        for name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
            prev, x0 = run_loop(config, dtype)
            tensors[f"loop.{i}.{name}.prev"] = prev
            tensors[f"loop.{i}.{name}.x0"] = x0
        metadata[f"loop.{i}"] = json.dumps(config)


def add_forward():
    scheduler, _, _ = make(dict(type="ddpm", num_train_timesteps=100, num_inference_steps=100,
                                beta_schedule="squaredcos_cap_v2"))
    timesteps = torch.tensor([7, 99])
    x_0, noise = tensors["input.sample"], tensors["input.noise"][0]
    tensors["forward.timesteps"] = timesteps
    tensors["forward.noisy"] = scheduler.add_noise(x_0, noise, timesteps)
    tensors["forward.velocity"] = scheduler.get_velocity(x_0, noise, timesteps)


add_tables()
add_timesteps()
add_loops()
add_forward()
save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata)
