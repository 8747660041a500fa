# Reference numbers for plugins/policies/transformer: the network put together from PyTorch's own modules
# (nn.TransformerDecoder, nn.TransformerEncoder), tiny, on seeded weights.
#   .venv/bin/python tests/golden/generate/transformer.py
# Packages: torch, diffusers, safetensors. Writes transformer.safetensors next to this folder, each case under
# its name as prefix. Inputs are given as the network sees them (normalized), so no normalizer is involved.
import json
import math
import pathlib

import torch
from diffusers import DDIMScheduler
from safetensors.torch import save_file
from torch import nn

OUT = pathlib.Path(__file__).resolve().parent.parent / "transformer.safetensors"
B, T, TO, DA, DO = 3, 8, 2, 2, 8
D, HEADS, LAYERS = 12, 2, 2
CASES = {
    "plain": {},
    "causal": {"causal": True, "n_cond_layers": 2},
    "post_norm": {"norm_first": False, "qkv_bias": False, "learned": False},
    "inputs": {"obs_as_cond": False, "causal": True},
    "encoder_only": {"obs_as_cond": False, "time_as_cond": False, "causal": True},
    "time_mlp": {"time_mlp": True},
    "inpainting": {"inpaints": True, "causal": True, "n_cond_layers": 1},
}


def sinusoid(positions: torch.Tensor) -> torch.Tensor:
    frequencies = torch.exp(torch.arange(D // 2) * -(math.log(10000) / (D // 2 - 1)))
    angles = positions[:, None] * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def additive(allowed: torch.Tensor) -> torch.Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)


class Net(nn.Module):
    def __init__(self, causal=False, n_cond_layers=0, norm_first=True, qkv_bias=True, learned=True,
                 time_as_cond=True, obs_as_cond=True, time_mlp=False, inpaints=False):
        super().__init__()
        self.inpaints, obs_as_cond = inpaints, obs_as_cond and not inpaints
        self.time_as_cond, self.obs_as_cond = time_as_cond, obs_as_cond
        layer = dict(d_model=D, nhead=HEADS, dim_feedforward=4 * D, dropout=0.0, activation="gelu",
                     batch_first=True, norm_first=norm_first)
        n_tokens = T if time_as_cond else T + 1
        n_cond = 1 + (TO if obs_as_cond else 0)
        if time_mlp:  # the first module of the usual Sequential is the sinusoidal embedding
            self.time_emb = nn.Sequential(nn.Identity(), nn.Linear(D, 4 * D), nn.Mish(), nn.Linear(4 * D, D))
        self.input_emb = nn.Linear(DA if obs_as_cond else DA + DO, D)
        self.add_positions("pos_emb", n_tokens, learned)
        if time_as_cond:
            self.add_positions("cond_pos_emb", n_cond, learned)
            if obs_as_cond:
                self.cond_obs_emb = nn.Linear(DO, D)
            if n_cond_layers > 0:
                self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), n_cond_layers,
                                                     enable_nested_tensor=False)
            else:
                self.encoder = nn.Sequential(nn.Linear(D, 4 * D), nn.Mish(), nn.Linear(4 * D, D))
            self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), LAYERS)
        else:
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), LAYERS,
                                                 enable_nested_tensor=False)
        self.ln_f = nn.LayerNorm(D)
        self.head = nn.Linear(D, DA + DO if inpaints else DA)
        self.mask = additive(torch.ones(n_tokens, n_tokens).tril() == 1) if causal else None
        self.memory_mask = None
        if causal and obs_as_cond:
            self.memory_mask = additive(torch.arange(T)[:, None] >= torch.arange(n_cond)[None] - 1)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "norm" in name or "ln_f" in name:
                    parameter.copy_(torch.randn_like(parameter) * 0.2 + (1.0 if "weight" in name else 0.0))
                elif name.endswith("in_proj_bias") and not qkv_bias:
                    parameter.zero_()
                else:
                    parameter.copy_(torch.randn_like(parameter) * 0.3)

    def add_positions(self, name, n, learned):
        if learned:
            self.register_parameter(name, nn.Parameter(torch.zeros(1, n, D)))
        else:
            self.register_buffer(name, sinusoid(torch.arange(n))[None])

    def forward(self, sample, timesteps, cond):
        time = sinusoid(timesteps)
        if hasattr(self, "time_emb"):
            time = self.time_emb(time)
        time = time[:, None]
        if not self.obs_as_cond and not self.inpaints:
            sample = torch.cat([sample, nn.functional.pad(cond, (0, 0, 0, T - TO))], dim=-1)
        tokens = self.input_emb(sample)
        if not self.time_as_cond:
            tokens = torch.cat([time, tokens], dim=1) + self.pos_emb
            return self.head(self.ln_f(self.encoder(tokens, mask=self.mask)[:, 1:]))
        tokens = tokens + self.pos_emb
        memory = torch.cat([time, self.cond_obs_emb(cond)], dim=1) if self.obs_as_cond else time
        memory = self.encoder(memory + self.cond_pos_emb)
        out = self.decoder(tgt=tokens, memory=memory, tgt_mask=self.mask, memory_mask=self.memory_mask)
        return self.head(self.ln_f(out))


def generate(options) -> dict:
    net = Net(**options)
    scheduler = DDIMScheduler(num_train_timesteps=50, beta_schedule="squaredcos_cap_v2", clip_sample=True,
                              prediction_type="epsilon")
    inpaints = options.get("inpaints", False)
    width = DA + DO if inpaints else DA
    action = torch.rand(B, T, width) * 2 - 1
    cond = torch.rand(B, TO, DO) * 2 - 1  # agent_pos [5], environment_state [3]
    epsilon = torch.randn(B, T, width)
    timesteps = torch.tensor([0, 17, 49])
    noisy = scheduler.add_noise(action, epsilon, timesteps)
    prediction = net(noisy, timesteps, cond)
    loss = nn.functional.mse_loss(prediction, epsilon)
    loss.backward()
    tensors = {"cond": cond, "noisy": noisy, "epsilon": epsilon, "timesteps": timesteps,
               "prediction": prediction.detach(), "loss": loss.detach().reshape(1)}

    sample = torch.randn(B, T, width)
    tensors["initial_noise"] = sample.clone()
    scheduler.set_timesteps(5)
    with torch.no_grad():
        for t in scheduler.timesteps:
            if inpaints:  # diffusion_policy's conditional_sample: trajectory[condition_mask] = condition_data
                sample[:, :TO, DA:] = cond
            sample = scheduler.step(net(sample, t.expand(B), cond), t, sample).prev_sample
        if inpaints:
            sample[:, :TO, DA:] = cond
    tensors["sampled"] = sample

    has_qkv_bias = options.get("qkv_bias", True)
    for name, parameter in net.named_parameters():
        if has_qkv_bias or not name.endswith("in_proj_bias"):
            tensors["weight." + name] = parameter.detach()
            tensors["grad." + name] = parameter.grad
    for name, buffer in net.named_buffers():
        tensors["weight." + name] = buffer
    return tensors


if __name__ == "__main__":
    torch.manual_seed(0)
    tensors = {}
    for case, options in CASES.items():
        for name, value in generate(options).items():
            tensors[f"{case}.{name}"] = value.clone().contiguous()
    save_file(tensors, OUT, metadata={"cases": json.dumps(list(CASES)), "torch": torch.__version__})
    print(OUT.stat().st_size, "bytes")
