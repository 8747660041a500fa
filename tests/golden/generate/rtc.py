"""Writes tests/golden/rtc.safetensors: plans of real-time chunking (RTC, arXiv 2506.07339).

Made with lerobot 0.6.1, torch 2.11.0 (CPU), numpy 2.2.6, safetensors 0.8. From the project's root:
    python tests/golden/generate/rtc.py

The flow of `objectives.py`, 5 steps, convention noise_at_one, guided towards a chunk that is in execution.
plan.identity.<schedule>   [B, T, Da]: LeRobot's RTCProcessor, which takes the network's Jacobian for 1
plan.full.<schedule>       the same with the vector-Jacobian product through the network, by torch.autograd
weights.<schedule>.<start>.<end>   [T]: LeRobot's prefix weights
input.committed            [B, n, Da]: the rest of the chunk in execution, from the current step on
"""

import pathlib

import numpy as np
import torch
from lerobot.configs import RTCAttentionSchedule
from lerobot.policies.rtc.configuration_rtc import RTCConfig
from lerobot.policies.rtc.modeling_rtc import RTCProcessor
from objectives import DA, NETWORK_TIME, POLICY_NOISE, B, T, network, normals
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parents[1] / "rtc.safetensors"
N_STEPS, DELAY, N_COMMITTED, MAX_WEIGHT = 5, 2, 4, 5.0
FIRST = 1  # the current step of a sequence with two observed steps


def processor(schedule):
    return RTCProcessor(
        RTCConfig(
            enabled=True,
            prefix_attention_schedule=schedule,
            max_guidance_weight=MAX_WEIGHT,
            execution_horizon=N_COMMITTED,
        )
    )


def plan(rtc, condition, committed, full):
    x = normals(POLICY_NOISE, T * DA).view(B, T, DA)
    # LeRobot's chunk is the whole sequence; ours begins at its current step
    for step in range(N_STEPS):
        t = 1 - step / N_STEPS

        def velocity(sample):
            before = x[:, :FIRST]
            whole = torch.cat([before, sample], dim=1)
            return network(whole, [NETWORK_TIME * t], condition)[:, FIRST:]

        chunk = x[:, FIRST:].clone()
        v = network(x, [NETWORK_TIME * t], condition)
        if full:
            v_chunk = guided_through(rtc, chunk, committed, t, velocity)
        else:
            with torch.no_grad():
                v_chunk = rtc.denoise_step(
                    chunk, committed, DELAY, torch.tensor(t), velocity
                )
        v = torch.cat([v[:, :FIRST], v_chunk], dim=1)
        x = x - v / N_STEPS
    return x.detach()


def guided_through(rtc, x_t, committed, t, velocity):
    tau = 1 - t
    target = torch.zeros_like(x_t)
    target[:, :N_COMMITTED] = committed
    weights = rtc.get_prefix_weights(DELAY, N_COMMITTED, x_t.shape[1]).view(1, -1, 1)
    x_t = x_t.detach().requires_grad_(True)
    v = velocity(x_t)
    x_1 = x_t - t * v
    error = ((target - x_1) * weights).detach()
    product = torch.autograd.grad(x_1, x_t, error)[0]
    inv_r2 = ((1 - tau) ** 2 + tau**2) / (1 - tau) ** 2
    weight = MAX_WEIGHT if tau == 0 else min((1 - tau) / tau * inv_r2, MAX_WEIGHT)
    return (v - weight * product).detach()


def main():
    condition = torch.linspace(-0.5, 0.9, B * 2 * 2).view(B, 2, 2)
    committed = torch.from_numpy(
        np.sin(np.arange(B * N_COMMITTED * DA, dtype=np.float32)).reshape(
            B, N_COMMITTED, DA
        )
    )
    tensors = {"input.condition": condition, "input.committed": committed}
    schedules = {
        "zeros": RTCAttentionSchedule.ZEROS,
        "ones": RTCAttentionSchedule.ONES,
        "linear": RTCAttentionSchedule.LINEAR,
        "exponential": RTCAttentionSchedule.EXP,
    }
    for name, schedule in schedules.items():
        rtc = processor(schedule)
        tensors[f"plan.identity.{name}"] = plan(rtc, condition, committed, full=False)
        tensors[f"plan.full.{name}"] = plan(rtc, condition, committed, full=True)
        for start, end in ((0, 0), (0, 5), (2, 6), (3, 8), (5, 3), (8, 8)):
            tensors[f"weights.{name}.{start}.{end}"] = rtc.get_prefix_weights(
                start, end, T
            )
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
