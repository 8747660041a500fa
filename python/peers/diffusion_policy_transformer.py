"""The transformer that diffusion_policy trains on PushT's keypoints, from PyTorch's own decoder."""

import networks
import torch
import torch_transformer

TITLE = "diffusion_policy's transformer for PushT: 8 layers of 256, causal, attention dropout 0.3"
PACKAGES = ("torch", "diffusers")
OURS = networks.ours(
    "--policy",
    "transformer",
    "--env",
    "pusht",
    "--chunks",
    "16",
    "policy.params.n_layer=8",
    "policy.params.n_head=4",
    "policy.params.n_emb=256",
    "policy.params.p_drop_attn=0.3",
    "policy.params.causal_attn=true",
    has_graph=False,  # dropout
)


def cases(program):
    torch.manual_seed(0)
    net = torch_transformer.Decoder(width=256, heads=4, layers=8, p_drop=0.3, causal=True)
    return torch_transformer.cases_of(net, chunks=(16,))
