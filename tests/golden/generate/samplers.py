"""Writes tests/golden/samplers.safetensors: whole sampling loops of diffusers' solvers.

Made with diffusers 0.42.1, torch 2.13.0 (CPU), safetensors 0.8. Seed 0. From the project's root:
    .venv/bin/python tests/golden/generate/samplers.py

timesteps.<case>             metadata[timesteps.<case>]: the config
loop.<case>.{prev,x0}        [N, ...] after each step; metadata[loop.<case>]: the config
input.sample                 what all loops start from
The network of all loops answers 0.8 sin(1.3 x + 0.05 t). Samples are noted as the process has them, with
variance 1 at the end of the forward process; Euler's and Heun's methods of diffusers scale them to signal 1.
diffusers computes these steps in float32. Its DPM-Solver++ and Euler never clip: DPM-Solver++ gets its
thresholding replaced by a clamp, and Euler gets the clamped x_0 as a prediction of type sample.
"""

import json
import pathlib

import torch
from diffusers import DPMSolverMultistepScheduler, EulerDiscreteScheduler, HeunDiscreteScheduler
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parents[1] / "samplers.safetensors"
CLASSES = {"dpmsolver++": DPMSolverMultistepScheduler, "euler": EulerDiscreteScheduler,
           "heun": HeunDiscreteScheduler}

tensors, metadata = {}, {}


def network(x, t):
    return 0.8 * torch.sin(1.3 * x + 0.05 * float(t))


def make(config):
    config = dict(config)
    inference = config.pop("num_inference_steps")
    kind = config.pop("type")
    clips = config.pop("clip_sample", True)
    limit = config.pop("clip_sample_range", 1.0)
    if kind == "heun":
        config |= dict(clip_sample=clips, clip_sample_range=limit)
    if kind == "dpmsolver++" and clips:
        config["thresholding"] = True
    if kind == "euler" and clips:
        config["prediction_type"] = "sample"
    scheduler = CLASSES[kind](**config)
    if kind == "dpmsolver++" and clips:
        scheduler._threshold_sample = lambda x_0: x_0.clamp(-limit, limit)
    scheduler.set_timesteps(inference)
    return scheduler


def predicted_x0(config, x, output, alpha_bar):
    signal, noise = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()
    kind = config["prediction_type"]
    x_0 = {"epsilon": (x - noise * output) / signal, "sample": output,
           "v_prediction": signal * x - noise * output}[kind]
    limit = config.get("clip_sample_range", 1.0)
    return x_0.clamp(-limit, limit) if config.get("clip_sample", True) else x_0


def run_dpm_solver(config):
    scheduler = make(config)
    x, prev, x0 = tensors["input.sample"], [], []
    for t in scheduler.timesteps:
        x = scheduler.step(network(x, t), t, x).prev_sample
        prev.append(x)
        x0.append(scheduler.model_outputs[-1])
    return torch.stack(prev), torch.stack(x0)


def run_scaled(config):
    """Euler and Heun: one entry per step, which for Heun is two evaluations but the last."""
    scheduler = make(config)
    is_heun = config["type"] == "heun"
    sigmas = scheduler.sigmas
    sample, prev, x0 = tensors["input.sample"] * (sigmas[0] ** 2 + 1).sqrt(), [], []
    for i, t in enumerate(scheduler.timesteps):
        x = scheduler.scale_model_input(sample, t)
        output = network(x, t)
        alpha_bar = scheduler.alphas_cumprod[int(t)]
        clips_euler = not is_heun and config.get("clip_sample", True)
        answer = predicted_x0(config, x, output, alpha_bar) if clips_euler else output
        is_first_half = not is_heun or scheduler.state_in_first_order
        step = scheduler.step(answer, t, sample)
        sample = step.prev_sample
        if is_first_half:
            x0.append(step.pred_original_sample)
        if not is_heun or not is_first_half or i + 1 == len(scheduler.timesteps):
            prev.append(sample / (sigmas[i + 1] ** 2 + 1).sqrt())
    return torch.stack(prev), torch.stack(x0)


def add_timesteps():
    cases = [(s, t, n, o) for s in ("leading", "trailing", "linspace")
             for t, n in ((100, 10), (100, 5), (100, 1), (1000, 27), (50, 16))
             for o in (0, 1) if not (o and s != "leading")]
    for i, (spacing, train, inference, offset) in enumerate(cases):
        config = dict(type="dpmsolver++", num_train_timesteps=train, num_inference_steps=inference,
                      timestep_spacing=spacing, steps_offset=offset)
        tensors[f"timesteps.{i}"] = make(config).timesteps
        metadata[f"timesteps.{i}"] = json.dumps(config)


def add_loops():
    generator = torch.Generator().manual_seed(0)
    tensors["input.sample"] = torch.randn((2, 4, 3), generator=generator)
    base = dict(num_train_timesteps=100, num_inference_steps=10, beta_schedule="squaredcos_cap_v2",
                timestep_spacing="leading")  # the default is linspace
    cases = []
    for kind in CLASSES:
        for prediction in ("epsilon", "sample", "v_prediction"):
            for clip in (True, False):
                cases.append(base | dict(type=kind, prediction_type=prediction, clip_sample=clip))
        more = base | dict(type=kind, prediction_type="epsilon")
        linear = more | dict(beta_schedule="linear", beta_start=1e-4, beta_end=0.02)
        # up to the last timestep; of the cosine, diffusers' float32 keeps too few digits there
        cases.append(linear | dict(num_inference_steps=5, timestep_spacing="trailing"))
        cases.append(linear | dict(timestep_spacing="linspace", clip_sample_range=3.0))
        cases.append(more | dict(steps_offset=1, num_inference_steps=20))  # many steps for DPM-Solver++
        cases.append(linear | dict(num_train_timesteps=50, clip_sample=False))
        cases.append(more | dict(num_inference_steps=1))
    for i, config in enumerate(cases):
        run = run_dpm_solver if config["type"] == "dpmsolver++" else run_scaled
        prev, x0 = run(config)
        tensors[f"loop.{i}.prev"], tensors[f"loop.{i}.x0"] = prev, x0
        metadata[f"loop.{i}"] = json.dumps(config)
    print(len(cases), "loops")


add_timesteps()
add_loops()
save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata)
