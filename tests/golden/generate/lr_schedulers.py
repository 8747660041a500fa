"""Writes tests/golden/lr_schedulers.json: the schedules of diffusers' get_scheduler that training.py leaves out.

Made with diffusers 0.35.1, torch 2.13.0 (CPU). From the project's root:
    python tests/golden/generate/lr_schedulers.py

Each case: config, base_lr, num_training_steps, and lr: the rate at step n, from 0 to some steps past the end.
"""

import json
import pathlib

import diffusers
import torch
from diffusers.optimization import get_polynomial_decay_schedule_with_warmup, get_scheduler

OUT = pathlib.Path(__file__).parents[1] / "lr_schedulers.json"
N_STEPS = 50  # num_training_steps
N_PAST_END = 6


def rates(base_lr, make_scheduler):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base_lr)
    scheduler = make_scheduler(optimizer)
    lr = []
    for _ in range(N_STEPS + N_PAST_END):
        lr.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return lr


def restarts(warmup, cycles):
    config = dict(lr_scheduler="cosine_with_restarts", lr_warmup_steps=warmup, lr_num_cycles=cycles)
    return 1e-3, config, lambda optimizer: get_scheduler(
        "cosine_with_restarts", optimizer, num_warmup_steps=warmup, num_training_steps=N_STEPS, num_cycles=cycles)


def polynomial(base_lr, warmup, power):
    config = dict(lr_scheduler="polynomial", lr_warmup_steps=warmup, lr_power=power)
    return base_lr, config, lambda optimizer: get_scheduler(
        "polynomial", optimizer, num_warmup_steps=warmup, num_training_steps=N_STEPS, power=power)


def polynomial_to(base_lr, warmup, power, lr_end):
    config = dict(lr_scheduler="polynomial", lr_warmup_steps=warmup, lr_power=power, lr_end=lr_end)
    return base_lr, config, lambda optimizer: get_polynomial_decay_schedule_with_warmup(
        optimizer, warmup, N_STEPS, lr_end=lr_end, power=power)


CASES = [
    restarts(0, 1), restarts(7, 1), restarts(5, 3), restarts(60, 2),
    polynomial(1e-4, 0, 1.0), polynomial(1e-4, 7, 2.0), polynomial_to(1e-3, 5, 0.5, 2e-4),
    polynomial_to(1e-3, 0, 3.0, 0.0), polynomial_to(1e-3, 60, 1.0, 1e-5),
]

cases = [dict(config=config, base_lr=base_lr, num_training_steps=N_STEPS, lr=rates(base_lr, make))
         for base_lr, config, make in CASES]
golden = dict(diffusers=diffusers.__version__, torch=torch.__version__, cases=cases)
OUT.write_text(json.dumps(golden, indent=1) + "\n")
