"""Writes tests/golden/training.safetensors: EMA decay, learning-rate curves, AdamW and gradient clipping.

Made with diffusers 0.42.1, torch 2.13.0 (CPU), safetensors 0.8. Seed 0. From the project's root:
    .venv/bin/python tests/golden/generate/training.py

ema.<case>                    decay of update n (float64); metadata[ema.<case>]: the config
lr.<case>                     factor at step n (float64); metadata[lr.<case>]: config and num_training_steps
adamw.{weight,bias}.<k>       parameters after k steps; adamw.grad.{weight,bias} [steps, ...]; adamw.lr
clip.<case>.{norm,weight,bias}  of the first gradients; metadata[clip.<case>]: max_norm
"""

import json
import pathlib

import torch

# some builds of torchvision import only when these operators exist; nothing here calls them
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from diffusers.optimization import get_cosine_schedule_with_warmup, get_scheduler
from diffusers.training_utils import EMAModel
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parents[1] / "training.safetensors"
N_STEPS = 8

tensors, metadata = {}, {}


def add_ema():
    cases = [dict(), dict(update_after_step=5, power=2 / 3), dict(inv_gamma=10.0, min_value=0.3, max_value=0.9)]
    for i, config in enumerate(cases):
        ema = EMAModel(torch.nn.Linear(1, 1).parameters(), use_ema_warmup=True,
                       decay=config.get("max_value", 0.9999), min_decay=config.get("min_value", 0.0),
                       update_after_step=config.get("update_after_step", 0),
                       inv_gamma=config.get("inv_gamma", 1.0), power=config.get("power", 0.75))
        steps = [*range(40), 1000, 215_000, 10_000_000]
        tensors[f"ema.{i}"] = torch.tensor([ema.get_decay(n) for n in steps], dtype=torch.float64)
        tensors["ema.steps"] = torch.tensor(steps)
        metadata[f"ema.{i}"] = json.dumps(config)


def add_lr():
    cases = [(name, warmup, 0.5) for name in ("constant", "constant_with_warmup", "linear", "cosine")
             for warmup in (0, 7)] + [("cosine", 5, 2.0), ("cosine", 60, 0.5)]
    for i, (name, warmup, cycles) in enumerate(cases):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        if name == "cosine":
            scheduler = get_cosine_schedule_with_warmup(optimizer, warmup, 50, num_cycles=cycles)
        else:
            scheduler = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=50)
        factors = []
        for _ in range(56):
            factors.append(scheduler.get_last_lr()[0])
            optimizer.step()
            scheduler.step()
        tensors[f"lr.{i}"] = torch.tensor(factors, dtype=torch.float64)
        metadata[f"lr.{i}"] = json.dumps(dict(lr_scheduler=name, lr_warmup_steps=warmup, lr_num_cycles=cycles))


def add_adamw():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn((4, 3), generator=generator).requires_grad_()
    bias = torch.randn((4,), generator=generator).requires_grad_()
    grads = {"weight": torch.randn((N_STEPS, 4, 3), generator=generator),
             "bias": torch.randn((N_STEPS, 4), generator=generator)}
    optimizer = torch.optim.AdamW([{"params": [weight], "weight_decay": 0.1},
                                   {"params": [bias], "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.95, 0.999), eps=1e-8)
    lrs = torch.linspace(1e-2, 2e-3, N_STEPS, dtype=torch.float64)
    tensors["adamw.lr"] = lrs
    for name, grad in grads.items():
        tensors[f"adamw.grad.{name}"] = grad
    for k in range(N_STEPS + 1):
        tensors[f"adamw.weight.{k}"] = weight.detach().clone()
        tensors[f"adamw.bias.{k}"] = bias.detach().clone()
        if k == N_STEPS:
            break
        weight.grad, bias.grad = grads["weight"][k].clone(), grads["bias"][k].clone()
        for group in optimizer.param_groups:
            group["lr"] = lrs[k].item()
        optimizer.step()
    for i, max_norm in enumerate((0.5, 100.0)):
        weight.grad, bias.grad = grads["weight"][0].clone(), grads["bias"][0].clone()
        tensors[f"clip.{i}.norm"] = torch.nn.utils.clip_grad_norm_([weight, bias], max_norm)
        tensors[f"clip.{i}.weight"] = weight.grad.clone()
        tensors[f"clip.{i}.bias"] = bias.grad.clone()
        metadata[f"clip.{i}"] = str(max_norm)


add_ema()
add_lr()
add_adamw()
save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata)
