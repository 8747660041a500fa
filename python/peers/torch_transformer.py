"""PyTorch's own decoder, put together as diffusion_policy and Kuavo do it, with diffusers' scheduler."""

import math

import networks
import torch
from diffusers import DDIMScheduler
from torch import nn

TITLE = "Transformer of 2.7 M parameters on PushT's keypoints, DDIM with 10 steps"
PACKAGES = ("torch", "diffusers")
OURS = networks.ours("--policy", "transformer", "--env", "pusht")

T, TO, DA, DO = 16, 2, 2, 20


class Decoder(nn.Module):
    def __init__(self, width, heads, layers, p_drop=0.0, causal=False):
        super().__init__()
        self.width = width
        self.mask = torch.full((T, T), -math.inf).triu(1) if causal else None
        self.input_emb = nn.Linear(DA, width)
        self.pos_emb = nn.Parameter(torch.randn(1, T, width) * 0.02)
        self.cond_obs_emb = nn.Linear(DO, width)
        self.cond_pos_emb = nn.Parameter(torch.randn(1, 1 + TO, width) * 0.02)
        self.encoder = nn.Sequential(nn.Linear(width, 4 * width), nn.Mish(), nn.Linear(4 * width, width))
        layer = nn.TransformerDecoderLayer(
            width, heads, 4 * width, dropout=p_drop, activation="gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, DA)

    def forward(self, sample, timesteps, cond):
        half = self.width // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = timesteps[:, None] * frequencies[None]
        time_token = torch.cat([angles.sin(), angles.cos()], dim=-1)[:, None]
        memory = torch.cat([time_token, self.cond_obs_emb(cond)], dim=1)
        memory = self.encoder(memory + self.cond_pos_emb)
        tokens = self.input_emb(sample) + self.pos_emb
        return self.head(self.ln_f(self.decoder(tokens, memory, tgt_mask=self.mask)))


def cases_of(net, chunks):
    scheduler = DDIMScheduler(num_train_timesteps=100, beta_schedule="squaredcos_cap_v2")
    scheduler.set_timesteps(10, device=networks.DEVICE)
    action, cond = torch.rand(256, T, DA) * 2 - 1, torch.rand(256, TO, DO) * 2 - 1

    def loss():
        net.train()
        noise, timesteps = torch.randn_like(action), torch.randint(0, 100, (len(action),))
        return nn.functional.mse_loss(net(scheduler.add_noise(action, noise, timesteps), timesteps, cond), noise)

    def plan(size):
        net.eval()
        sample = torch.randn(size, T, DA)
        for t in scheduler.timesteps:
            sample = scheduler.step(net(sample, t.expand(size), cond[:size]), t, sample).prev_sample

    ways = {f"action chunk, batch {size}": networks.planning_ways(lambda size=size: plan(size)) for size in chunks}
    ways["training step, batch 256"] = networks.training_ways(net.parameters(), loss)
    return ways


def cases(program):
    torch.manual_seed(0)
    return cases_of(Decoder(width=192, heads=6, layers=4), chunks=(1, 16, 50))
