"""Writes tests/golden/objectives.safetensors: losses and sampled sequences of flow matching and MIP.

Made with torch 2.13.0 (CPU), scipy 1.17.1, numpy 2.2.6, safetensors 0.8. From the project's root:
    .venv/bin/python tests/golden/generate/objectives.py

A reference of our own in plain PyTorch: rectified flow with LeRobot's conventions and pi_0's beta distribution,
and MIP (arXiv 2512.01809). Rows draw from Philox4x32-10 streams as dp_bench/random.h names them, with seed = row.
loss.<case>                metadata[loss.<case>]: the params of the policy
path.<case>                [N, B, T, Da] after each step; metadata likewise
input.{action,condition}   [B, T, Da] and [B, To, Do]
The network of all cases answers tanh(0.8 x + 0.01 t + 0.5 mean(condition)).
"""

import json
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from scipy.special import betaincinv

OUT = pathlib.Path(__file__).parents[1] / "objectives.safetensors"
B, T, DA = 3, 8, 2
POLICY_NOISE, TIMESTEP, TRAINING_NOISE = 3, 4, 5  # StreamId
NETWORK_TIME = 100.0
M32 = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def words(seed, stream, n):
    key = (seed + stream * 0x9E3779B97F4A7C15) & (2**64 - 1)
    out = []
    for block in range((n + 3) // 4):
        out += philox([block, 0, 0, 0], [key & M32, key >> 32])
    return out[:n]


def normals(stream, per_row):
    rows = []
    for seed in range(B):
        w, row = words(seed, stream, 2 * ((per_row + 1) // 2)), []
        for first, second in zip(w[::2], w[1::2]):
            radius = math.sqrt(-2.0 * math.log((first + 0.5) * 2.0**-32))
            angle = 2.0 * math.pi * second * 2.0**-32
            row += [radius * math.cos(angle), radius * math.sin(angle)]
        rows.append(row[:per_row])
    return torch.tensor(rows)


def uniforms(stream):
    return torch.tensor([(words(seed, stream, 1)[0] >> 8) * 2.0**-24 for seed in range(B)], dtype=torch.float64)


def network(x, t, condition):
    t = torch.as_tensor(t, dtype=torch.float32).view(-1, 1, 1)
    return torch.tanh(0.8 * x + 0.01 * t + 0.5 * condition.mean(dim=(1, 2)).view(-1, 1, 1))


def noise_levels(section):
    kind = section.get("time_distribution", "beta")
    if kind == "uniform":
        return uniforms(TIMESTEP).float()
    if kind == "logit_normal":
        n = normals(TIMESTEP, 1)[:, 0]
        return 1 / (1 + torch.exp(-(section.get("logit_mean", 0.0) + section.get("logit_std", 1.0) * n)))
    alpha, beta, s = section.get("beta_alpha", 1.5), section.get("beta_beta", 1.0), section.get("beta_s", 0.999)
    u = betaincinv(alpha, beta, uniforms(TIMESTEP).numpy())
    return torch.from_numpy(np.asarray(1 - s + s * u)).float()


def flow_loss(section, action, condition):
    epsilon = normals(TRAINING_NOISE, T * DA).view(B, T, DA)
    if section.get("convention", "noise_at_one") == "noise_at_one":
        t = noise_levels(section)
        x_t = t.view(-1, 1, 1) * epsilon + (1 - t.view(-1, 1, 1)) * action
        target = epsilon - action
    else:
        t = 1 - noise_levels(section)
        x_t = (1 - t.view(-1, 1, 1)) * epsilon + t.view(-1, 1, 1) * action
        target = action - epsilon
    return torch.nn.functional.mse_loss(network(x_t, NETWORK_TIME * t, condition), target)


def flow_path(section, condition):
    n = section["num_inference_steps"]
    x, path = normals(POLICY_NOISE, T * DA).view(B, T, DA), []
    is_at_one = section.get("convention", "noise_at_one") == "noise_at_one"
    grid = np.linspace(1, 0, n + 1) if is_at_one else np.linspace(0, 1, n + 1)
    for t, t_next in zip(grid[:-1], grid[1:]):
        dt = float(t_next - t)
        v = network(x, [NETWORK_TIME * t], condition)
        if section["sampler"] == "heun":
            v = (v + network(x + dt * v, [NETWORK_TIME * t_next], condition)) / 2
        x = x + dt * v
        path.append(x)
    return torch.stack(path)


def mip_loss(section, action, condition):
    t = section.get("t_star", 0.9)
    epsilon = normals(TRAINING_NOISE, T * DA).view(B, T, DA)
    first = network(torch.zeros_like(action), [0.0], condition)
    second = network(action + (1 - t) * epsilon, [NETWORK_TIME * t], condition)
    return (first - action).square().mean() / t**2 + (second - action).square().mean() / (1 - t) ** 2


def mip_path(section, condition):
    first = network(torch.zeros(B, T, DA), [0.0], condition)
    second = network(first, [NETWORK_TIME * section.get("t_star", 0.9)], condition)
    return torch.stack([first, second])


def main():
    action = torch.linspace(-0.9, 0.7, B * T * DA).view(B, T, DA)
    condition = torch.linspace(-0.5, 0.9, B * 2 * 2).view(B, 2, 2)
    tensors, metadata = {"input.action": action, "input.condition": condition}, {}

    def add(kind, i, objective, section, value):
        tensors[f"{kind}.{i}"] = value
        metadata[f"{kind}.{i}"] = json.dumps({"objective": objective, objective: section})

    conventions = ("noise_at_one", "noise_at_zero")
    losses = [dict(convention=c, time_distribution=d) for c in conventions
              for d in ("uniform", "beta", "logit_normal")]
    losses += [{}, dict(beta_alpha=2.0, beta_beta=3.0, beta_s=0.9),
               dict(time_distribution="logit_normal", logit_mean=0.5, logit_std=1.7)]
    for i, section in enumerate(losses):
        add("loss", f"flow_{i}", "flow_matching", section, flow_loss(section, action, condition))
    paths = [dict(sampler=s, num_inference_steps=n, convention=c)
             for s in ("euler", "heun") for n in (1, 5) for c in conventions]
    for i, section in enumerate(paths):
        add("path", f"flow_{i}", "flow_matching", section, flow_path(section, condition))
    for i, section in enumerate(({}, dict(t_star=0.7))):
        add("loss", f"mip_{i}", "mip", section, mip_loss(section, action, condition))
        add("path", f"mip_{i}", "mip", section, mip_path(section, condition))
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT, metadata)


main()
