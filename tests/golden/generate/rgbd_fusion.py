# Reference numbers for plugins/policies/rgbd_fusion: the observation encoder put together from PyTorch's own
# modules, tiny, on seeded weights: crop, resize, normalization, ResNet, spatial softmax, attention over
# cameras and between colour and depth, state encoder.
#   .venv/bin/python tests/golden/generate/rgbd_fusion.py
# Packages: torch, safetensors. Writes rgbd_fusion.safetensors next to this folder, each case under its name as
# prefix. Inputs are raw: colours uint8, depth uint16 millimetres.
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "rgbd_fusion.safetensors"
B, TO, STATE = 3, 2, 5
HEIGHT, WIDTH = 26, 36
CROP, RESIZE = (24, 32), (18, 24)
WIDTH0, KEYPOINTS, HEADS, STATE_DIM = 8, 4, 2, 6
DIM = 2 * KEYPOINTS
DEPTH_RANGE = (0.05, 1.5)
CASES = {  # cameras, with depth, residual
    "seed": (3, True, False),
    "seed_colour": (2, False, False),
    "residual": (2, True, True),
    "residual_colour": (1, False, True),
}


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.GroupNorm(max(1, o // 16), o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.GroupNorm(max(1, o // 16), o)
        self.downsample = None
        if stride != 1 or i != o:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False),
                                            nn.GroupNorm(max(1, o // 16), o))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ImageEncoder(nn.Module):
    """Two stages of ResNet-18, 8 channels wide; children named as torchvision's in a Sequential."""

    def __init__(self, channels):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(channels, WIDTH0, 7, 2, 3, bias=False), nn.GroupNorm(1, WIDTH0), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Sequential(Block(WIDTH0, WIDTH0, 1), Block(WIDTH0, WIDTH0, 1)),
            nn.Sequential(Block(WIDTH0, 2 * WIDTH0, 2), Block(2 * WIDTH0, 2 * WIDTH0, 1)))
        self.pool = nn.Module()
        self.pool.nets = nn.Conv2d(2 * WIDTH0, KEYPOINTS, 1)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, images):
        maps = self.pool.nets(self.backbone(images))
        h, w = maps.shape[-2:]
        y, x = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        attention = maps.flatten(2).softmax(-1)
        points = torch.stack([(attention * x.flatten()).sum(-1), (attention * y.flatten()).sum(-1)], -1)
        return F.relu(self.out(points.flatten(1)))


def attention():
    return nn.MultiheadAttention(DIM, HEADS, batch_first=True)


class Fusion(nn.Module):
    def __init__(self, n_cameras, has_depth, residual):
        super().__init__()
        self.has_depth, self.residual = has_depth, residual
        for name in ("rgb", "depth") if has_depth else ("rgb",):
            setattr(self, f"{name}_self_attention", attention())
            if has_depth:
                setattr(self, f"{name}_cross_attention", attention())
            if residual:
                setattr(self, f"{name}_camera_embedding", nn.Parameter(torch.zeros(n_cameras, DIM)))
                for norm in ("self", "cross", "memory", "out") if has_depth else ("self", "out"):
                    setattr(self, f"{name}_norm_{norm}", nn.LayerNorm(DIM))

    def cameras(self, name, x):
        attend = getattr(self, f"{name}_self_attention")
        if not self.residual:
            return attend(x, x, x)[0]
        x = x + getattr(self, f"{name}_camera_embedding")
        n = getattr(self, f"{name}_norm_self")(x)
        return x + attend(n, n, n)[0]

    def cross(self, name, x, other):
        attend = getattr(self, f"{name}_cross_attention")
        if not self.residual:
            return attend(x, other, other)[0]
        memory = getattr(self, f"{name}_norm_memory")(other)
        return x + attend(getattr(self, f"{name}_norm_cross")(x), memory, memory)[0]

    def leave(self, name, x):
        return (getattr(self, f"{name}_norm_out")(x) if self.residual else x).flatten(1)

    def forward(self, rgb, depth):
        rgb = self.cameras("rgb", rgb)
        if not self.has_depth:
            return self.leave("rgb", rgb)
        depth = self.cameras("depth", depth)
        rgb, depth = self.cross("rgb", rgb, depth), self.cross("depth", depth, rgb)
        return torch.cat([self.leave("rgb", rgb), self.leave("depth", depth)], -1)


class Net(nn.Module):
    def __init__(self, n_cameras, has_depth, residual):
        super().__init__()
        self.rgb_encoder = ImageEncoder(3)
        if has_depth:
            self.depth_encoder = ImageEncoder(1)
        self.fusion = Fusion(n_cameras, has_depth, residual)
        self.state_encoder = nn.Sequential(nn.Linear(STATE, STATE_DIM), nn.ReLU(), nn.Linear(STATE_DIM, STATE_DIM))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "norm" in name or ".bn" in name or name.endswith("backbone.1.weight"):
                    parameter.copy_(1.0 + 0.2 * torch.randn_like(parameter))
                else:
                    fan_in = parameter[0].numel() if parameter.dim() > 1 else 4
                    parameter.copy_(torch.randn_like(parameter) * fan_in**-0.5)

    def forward(self, rgb, depth, state):
        """rgb [B, TO, N, 3, H, W] and depth [B, TO, N, 1, H, W] prepared, state [B, TO, STATE]."""
        n = rgb.shape[2]
        tokens = self.rgb_encoder(rgb.flatten(0, 2)).unflatten(0, (B * TO, n))
        depth_tokens = None
        if depth is not None:
            depth_tokens = self.depth_encoder(depth.flatten(0, 2)).unflatten(0, (B * TO, n))
        fused = self.fusion(tokens, depth_tokens).unflatten(0, (B, TO))
        return torch.cat([fused, self.state_encoder(state)], -1)


def prepare(images, mode):
    """images [B, TO, N, C, H, W] float -> cropped at the centre and resized."""
    top, left = round((HEIGHT - CROP[0]) / 2), round((WIDTH - CROP[1]) / 2)
    cropped = images[..., top : top + CROP[0], left : left + CROP[1]]
    return F.interpolate(cropped.flatten(0, 2), size=RESIZE, mode=mode).unflatten(0, images.shape[:3])


def generate(n_cameras, has_depth, residual) -> dict:
    net = Net(n_cameras, has_depth, residual)
    pixels = torch.randint(0, 256, (B, TO, n_cameras, 3, HEIGHT, WIDTH), dtype=torch.uint8)
    millimetres = torch.randint(0, 2000, (B, TO, n_cameras, 1, HEIGHT, WIDTH), dtype=torch.int32)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])
    state = torch.rand(B, TO, STATE) * 2 - 1
    rgb = (prepare(pixels.float() / 255, "bilinear") - mean[:, None, None]) / std[:, None, None]
    depth = None
    if has_depth:
        low, high = DEPTH_RANGE
        depth = prepare(((millimetres.float() / 1000 - low) / (high - low)).clamp(0, 1), "nearest")
    cond = net(rgb, depth, state)
    weight = torch.randn_like(cond)
    (cond * weight).sum().backward()
    tensors = {"pixels": pixels, "state": state, "cond": cond.detach(), "cond_weight": weight}
    if has_depth:
        tensors |= {"millimetres": millimetres}
    if n_cameras == 3:  # what the encoders see
        tensors |= {"rgb": rgb[:, :, 1], "depth": depth[:, :, 1]}
    for name, parameter in net.named_parameters():
        tensors["weight." + name] = parameter.detach()
        tensors["grad." + name] = parameter.grad
    return tensors


if __name__ == "__main__":
    torch.manual_seed(0)
    tensors = {}
    for case, options in CASES.items():
        for name, value in generate(*options).items():
            tensors[f"{case}.{name}"] = value.clone().contiguous()
    save_file(tensors, OUT, metadata={"torch": torch.__version__})
    print(OUT.stat().st_size, "bytes")
