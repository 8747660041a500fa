"""Writes tests/golden/grad_scaler.json: the course of torch.amp.GradScaler's scale and growth tracker.

Made with torch 2.13.0 (CPU). From the project's root:
    .venv/bin/python tests/golden/generate/grad_scaler.py

Each case: init_scale, n_steps, overflows (the steps with a gradient that is not finite), and curve: [step, scale,
growth_tracker] after that step, for the steps around every change of the scale and the last one; updated: how many
steps the optimiser took. unscale: gradients before and after unscale_ by 65536.
"""

import json
import pathlib

import torch

OUT = pathlib.Path(__file__).parents[1] / "grad_scaler.json"

CASES = [
    dict(init_scale=65536.0, n_steps=6100, overflows=[0, 1, 2, 700, 701, 2702, 4800]),
    dict(init_scale=65536.0, n_steps=4010, overflows=[]),
    dict(init_scale=2.0**127, n_steps=4010, overflows=[2500]),  # doubling it would overflow float32
    dict(init_scale=65536.0, n_steps=40, overflows=list(range(32))),
]


def curve(init_scale, n_steps, overflows):
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    points, counted, previous = [], [], None
    optimizer.register_step_post_hook(lambda *_: counted.append(1))
    for step in range(n_steps):
        scaler.scale(torch.zeros(()))  # creates the scale on first use
        weight.grad = torch.full((3,), float("inf") if step in overflows else 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        state = scaler.state_dict()
        if state["scale"] != before and step > 0 and points[-1][0] != step - 1:
            points.append(previous)
        previous = [step, state["scale"], state["_growth_tracker"]]
        if state["scale"] != before or step in (0, n_steps - 1):
            points.append(previous)
    return points, len(counted)


def unscaled():
    before = [1.0, -65536.0, 1e-3, 3.0e38, 0.0, 2.0**-120]
    weight = torch.nn.Parameter(torch.zeros(len(before)))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.zeros(()))
    weight.grad = torch.tensor(before)
    scaler.unscale_(optimizer)
    return dict(before=before, after=weight.grad.double().tolist())


cases = []
for case in CASES:
    points, updated = curve(**case)
    cases.append(dict(case, curve=points, updated=updated))
OUT.write_text(json.dumps(dict(cases=cases, unscale=unscaled()), indent=1) + "\n")
