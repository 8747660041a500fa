"""PyTorch's own modules and our transformer side by side, in turns, on 2 threads: training step, DDIM-10 latency.

    .venv/bin/python tests/bench/peers/transformer_bench.py --ours build/release/bin/bench_transformer

The peer is the network as diffusion_policy and Kuavo put it together, from nn.TransformerDecoder, with the fastest
optimiser and EMA that the Python ecosystem offers. Each round measures both; the table holds medians over the
rounds and the median of the ratios.
"""

import math

import side_by_side  # before torch: it sets the number of threads and the device

import torch
from diffusers import DDIMScheduler
from diffusers.training_utils import EMAModel
from torch import nn

T, TO, DA, DO = 16, 2, 2, 20
SMALL = {"width": 192, "heads": 6, "layers": 4}  # configs/policy/transformer.json
LARGE = {"width": 256, "heads": 4, "layers": 8}  # diffusion_policy's for PushT, attention dropout 0.3, causal


class Net(nn.Module):
    def __init__(self, p_drop, width, heads, layers, causal=False):
        super().__init__()
        self.width = width
        self.mask = torch.full((T, T), -math.inf).triu(1) if causal else None
        self.input_emb = nn.Linear(DA, width)
        self.pos_emb = nn.Parameter(torch.randn(1, T, width) * 0.02)
        self.cond_obs_emb = nn.Linear(DO, width)
        self.cond_pos_emb = nn.Parameter(torch.randn(1, 1 + TO, width) * 0.02)
        self.drop = nn.Dropout(p_drop)
        self.encoder = nn.Sequential(nn.Linear(width, 4 * width), nn.Mish(), nn.Linear(4 * width, width))
        layer = nn.TransformerDecoderLayer(width, heads, 4 * width, dropout=p_drop, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, DA)

    def forward(self, sample, timesteps, cond):
        half = self.width // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = timesteps[:, None] * frequencies[None]
        time_token = torch.cat([angles.sin(), angles.cos()], dim=-1)[:, None]
        memory = torch.cat([time_token, self.cond_obs_emb(cond)], dim=1)
        memory = self.encoder(self.drop(memory + self.cond_pos_emb))
        tokens = self.drop(self.input_emb(sample) + self.pos_emb)
        return self.head(self.ln_f(self.decoder(tokens, memory, tgt_mask=self.mask)))


def train_case(scheduler, net, as_upstream=False, is_bf16=False, batch=256):
    """`as_upstream`: diffusion_policy's optimiser and EMA, which take the parameters one by one."""
    ema = EMAModel(net.parameters(), use_ema_warmup=True, power=0.75, foreach=not as_upstream)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=not as_upstream, foreach=False)
    action, cond = torch.rand(batch, T, DA) * 2 - 1, torch.rand(batch, TO, DO) * 2 - 1

    def step():
        noise = torch.randn_like(action)
        timesteps = torch.randint(0, 100, (batch,))
        noisy = scheduler.add_noise(action, noise, timesteps)
        optimizer.zero_grad()
        with torch.autocast(side_by_side.DEVICE, torch.bfloat16, enabled=is_bf16):
            loss = nn.functional.mse_loss(net(noisy, timesteps, cond), noise)
        loss.backward()
        optimizer.step()
        ema.step(net.parameters())

    return step


def predict_case(scheduler, batch):
    net = Net(0.0, **SMALL).eval()
    cond = torch.rand(batch, TO, DO) * 2 - 1

    def predict():
        with torch.inference_mode():
            sample = torch.randn(batch, T, DA)
            for t in scheduler.timesteps:
                sample = scheduler.step(net(sample, t.expand(batch), cond), t, sample).prev_sample

    return predict


def peer_cases():
    torch.manual_seed(0)
    scheduler = DDIMScheduler(num_train_timesteps=100, beta_schedule="squaredcos_cap_v2")
    scheduler.set_timesteps(10, device=side_by_side.DEVICE)
    cases = {"TrainStep/plain/256": train_case(scheduler, Net(0.0, **SMALL)),
            "TrainStep/plain_bf16/256": train_case(scheduler, Net(0.0, **SMALL), is_bf16=True),
            "TrainStep/dropout/256": train_case(scheduler, Net(0.1, **SMALL)),
            "TrainStep/large/256": train_case(scheduler, Net(0.3, **LARGE, causal=True), as_upstream=True),
            "TrainStep/large_bf16/256": train_case(scheduler, Net(0.3, **LARGE, causal=True), as_upstream=True,
                                                   is_bf16=True)}
    for size in (1, 16, 50):
        predict = predict_case(scheduler, size)
        cases[f"PredictAction/{size}"] = predict
        cases[f"PredictAction/bf16/{size}"] = predict  # ours with bf16 weights; the peer in float32
    return cases


if __name__ == "__main__":
    side_by_side.main(__doc__, "bench_transformer", "pytorch", peer_cases)
