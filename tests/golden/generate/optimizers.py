"""Writes tests/golden/optimizers.safetensors: steps of Adam and of SGD with and without momentum.

Made with torch 2.13.0 (CPU), safetensors 0.8. Seed 0. From the project's root:
    .venv/bin/python tests/golden/generate/optimizers.py

<case>.{weight,bias}.<k>   parameters after k steps, weight with a weight decay of 0.1, bias without; metadata[<case>]: config
grad.{weight,bias}         [steps, ...], the same for all cases
lr                         of each step
"""

import json
import pathlib

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parents[1] / "optimizers.safetensors"
N_STEPS = 8
CASES = {
    "adam": dict(name="adam", betas=[0.9, 0.99], eps=1e-6),
    "sgd": dict(name="sgd", momentum=0.0),
    "momentum": dict(name="sgd", momentum=0.9),
    "nesterov": dict(name="sgd", momentum=0.8, nesterov=True),
}

generator = torch.Generator().manual_seed(0)
START = {"weight": torch.randn((4, 3), generator=generator), "bias": torch.randn((4,), generator=generator)}
GRADS = {"weight": torch.randn((N_STEPS, 4, 3), generator=generator), "bias": torch.randn((N_STEPS, 4), generator=generator)}
LRS = torch.linspace(1e-1, 2e-2, N_STEPS, dtype=torch.float64)


def steps_of(config):
    arguments = {key: value for key, value in config.items() if key != "name"}
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[config["name"]]
    parameters = {name: start.clone().requires_grad_() for name, start in START.items()}
    optimizer = kind([{"params": [parameters["weight"]], "weight_decay": 0.1},
                      {"params": [parameters["bias"]], "weight_decay": 0.0}], lr=1e-2, foreach=False, fused=False, **arguments)
    states = {}
    for k in range(N_STEPS + 1):
        states |= {f"{name}.{k}": parameter.detach().clone() for name, parameter in parameters.items()}
        if k == N_STEPS:
            return states
        for name, parameter in parameters.items():
            parameter.grad = GRADS[name][k].clone()
        for group in optimizer.param_groups:
            group["lr"] = LRS[k].item()
        optimizer.step()


tensors = {"lr": LRS} | {f"grad.{name}": grad for name, grad in GRADS.items()}
for case, config in CASES.items():
    tensors |= {f"{case}.{key}": tensor for key, tensor in steps_of(config).items()}
save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, {case: json.dumps(config) for case, config in CASES.items()})
