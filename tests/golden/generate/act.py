# Reference numbers for plugins/policies/act: LeRobot's ACT, tiny, on seeded weights, and its temporal ensembling.
#   python tests/golden/generate/act.py
# Packages: lerobot 0.6.1, torch, torchvision, safetensors. Writes act.safetensors next to this folder, each case under its
# name as prefix: weights, the result of every layer ("stage"), the plan, losses, and gradients of the training loss.
# Numbers are given as the network sees them (normalized); pixels are normalized to [-1, 1].
import json
import pathlib

import torch
import torchvision
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act import modeling_act
from lerobot.policies.act.configuration_act import ACTConfig
from safetensors.torch import save_file
from torch import nn
from torchvision.models.resnet import BasicBlock
from torchvision.ops.misc import FrozenBatchNorm2d

OUT = pathlib.Path(__file__).resolve().parent.parent / "act.safetensors"
B, T, DA, STATE, ENV, LATENT = 3, 6, 2, 3, 5, 4
SMALL = {"dim_model": 8, "n_heads": 2, "dim_feedforward": 12, "n_encoder_layers": 2, "n_vae_encoder_layers": 2,
         "latent_dim": LATENT, "chunk_size": T, "n_action_steps": T, "dropout": 0.0,
         "pretrained_backbone_weights": None, "device": "cpu"}
CASES = {
    "state": {},
    "images": {"cameras": 2, "env": False, "n_encoder_layers": 1, "n_vae_encoder_layers": 1},
    "pre_norm": {"pre_norm": True, "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "feedforward_activation": "gelu", "n_decoder_layers": 2},
    "no_vae": {"use_vae": False, "n_encoder_layers": 1},
}
COEFFS = (0.01, 0.0, -0.5)


class SmallBackbone(nn.Module):
    """torchvision's ResNet-18 with an eighth of the channels and two of the four stages."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenBatchNorm2d(8)
        self.layer1 = nn.Sequential(*(BasicBlock(8, 8, norm_layer=FrozenBatchNorm2d) for _ in range(2)))
        shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), FrozenBatchNorm2d(16))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2, shortcut, norm_layer=FrozenBatchNorm2d),
                                    BasicBlock(16, 16, norm_layer=FrozenBatchNorm2d))

    def forward(self, images):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(images))), 3, stride=2, padding=1)
        return {"feature_map": self.layer2(self.layer1(x))}


def make_policy(cameras=0, env=True, **options):
    inputs = {"observation.state": PolicyFeature(FeatureType.STATE, (STATE,))}
    if env:
        inputs["observation.environment_state"] = PolicyFeature(FeatureType.ENV, (ENV,))
    for i in range(cameras):
        inputs[f"observation.images.{i}"] = PolicyFeature(FeatureType.VISUAL, (3, 32, 40))
    policy = modeling_act.ACTPolicy(ACTConfig(input_features=inputs,
                                              output_features={"action": PolicyFeature(FeatureType.ACTION, (DA,))},
                                              **{**SMALL, **options}))
    if cameras > 0:
        policy.model.backbone = SmallBackbone()
        policy.model.encoder_img_feat_input_proj = nn.Conv2d(16, SMALL["dim_model"], 1)
    with torch.no_grad():
        for name, tensor in policy.state_dict().items():
            if "norm" in name or "bn" in name or "running" in name or "downsample.1" in name:  # near those of new norms
                is_one = name.endswith(("weight", "running_var"))
                tensor.copy_(torch.rand_like(tensor) * 0.4 + (0.8 if is_one else -0.2))
            elif "backbone" in name:
                tensor.copy_(torch.randn_like(tensor) * 0.15)
            elif not name.endswith("pos_enc"):
                tensor.copy_(torch.randn_like(tensor) * 0.4)
    return policy


def watch(model, stages):
    """Keeps the result of every layer as [B, tokens, features]."""
    handles = []
    for stack, name in (("vae_encoder", "vae encoder"), ("encoder", "encoder"), ("decoder", "decoder")):
        for i, layer in enumerate(getattr(model, stack).layers if hasattr(model, stack) else []):
            def keep(_module, _inputs, output, name=f"{name} layer {i + 1}"):
                stages[name] = output.transpose(0, 1)
            handles.append(layer.register_forward_hook(keep))
    handles.append(model.decoder.register_forward_hook(lambda _m, _i, out: stages.update({"decoded actions": out.transpose(0, 1)})))
    handles.append(model.encoder.register_forward_hook(lambda _m, _i, out: stages.update({"encoded observation": out.transpose(0, 1)})))
    handles.append(model.encoder.register_forward_pre_hook(
        lambda _m, inputs: stages.update({"observation tokens": inputs[0].transpose(0, 1)})))
    if hasattr(model, "vae_encoder"):
        handles.append(model.vae_encoder_latent_output_proj.register_forward_hook(
            lambda _m, _i, out: stages.update({"latent distribution": out})))
    if hasattr(model, "backbone"):
        maps = []

        def keep_map(_module, _inputs, output):
            maps.append(output["feature_map"])
            if len(maps) == 2:  # ours encodes the cameras of a row together
                stages["feature map"] = torch.stack(maps, dim=1).flatten(0, 1)
                maps.clear()

        handles.append(model.backbone.register_forward_hook(keep_map))
    return handles


def generate(options) -> dict:
    policy = make_policy(**options)
    model, tensors = policy.model, {}
    for name, value in policy.state_dict().items():
        tensors["weight." + name] = value.clone()
    batch = {"observation.state": torch.randn(B, STATE), "action": torch.randn(B, T, DA)}
    if options.get("env", True):
        batch["observation.environment_state"] = torch.randn(B, ENV)
    batch["action_is_pad"] = torch.arange(T)[None] >= torch.tensor([T, 4, 2])[:, None]
    for i in range(options.get("cameras", 0)):
        pixels = torch.randint(0, 256, (B, 3, 32, 40), dtype=torch.uint8)
        tensors[f"pixels.{i}"] = pixels
        batch[f"observation.images.{i}"] = pixels.float() / 255 * 2 - 1
    noise = torch.randn(B, LATENT)
    tensors.update({name: value for name, value in batch.items() if "image" not in name}, noise=noise)
    tensors["action_is_pad"] = batch["action_is_pad"].to(torch.uint8)

    # a plan, and the loss of a validation
    policy.eval()
    tensors["plan"] = policy.predict_action_chunk(batch)
    with torch.no_grad():
        tensors["validation_loss"] = policy.forward(batch)[0].reshape(1)

    # a training step with this noise
    policy.train()
    modeling_act.torch.randn_like = lambda _mean: noise
    stages = {}
    handles = watch(model, stages)
    with torch.no_grad():
        images = [batch[f"observation.images.{i}"] for i in range(options.get("cameras", 0))]
        tensors["prediction"] = model({**batch, "observation.images": images} if images else batch)[0]
    for handle in handles:
        handle.remove()
    tensors.update({"stage." + name: value for name, value in stages.items()})

    # its loss where the noise does not matter: a deviation of exp(-20)
    if hasattr(model, "vae_encoder"):
        with torch.no_grad():
            model.vae_encoder_latent_output_proj.bias[LATENT:] = -40
            model.vae_encoder_latent_output_proj.weight[LATENT:] = 0
    loss, parts = policy.forward(batch)
    loss.backward()
    tensors.update({name: torch.tensor([value]) for name, value in parts.items()}, training_loss=loss.detach().reshape(1))
    for name, parameter in policy.named_parameters():
        if "backbone" not in name:
            tensors["grad." + name] = parameter.grad
    return tensors


def ensembles() -> dict:
    chunks = torch.randn(12, 5, DA)  # a plan at each step
    tensors = {"ensemble.chunks": chunks}
    for coeff in COEFFS:
        ensembler = modeling_act.ACTTemporalEnsembler(coeff, chunks.shape[1])
        tensors[f"ensemble.{coeff}"] = torch.cat([ensembler.update(chunk[None].clone()) for chunk in chunks])
    return tensors


if __name__ == "__main__":
    torch.manual_seed(0)
    randn_like = torch.randn_like
    tensors = ensembles()
    for case, options in CASES.items():
        modeling_act.torch.randn_like = randn_like
        for name, value in generate(options).items():
            tensors[f"{case}.{name}"] = value.detach().clone().contiguous()
    save_file(tensors, OUT, metadata={"cases": json.dumps(list(CASES)), "torch": torch.__version__,
                                      "torchvision": torchvision.__version__})
    print(OUT.stat().st_size, "bytes")
