# Reference numbers for plugins/policies/unet_hybrid: LeRobot's diffusion model, tiny, on seeded weights.
#   .venv/bin/python tests/golden/generate/unet_hybrid.py
# Packages: lerobot 0.3.2, diffusers, torch, safetensors; see tests/golden/README.md for versions.
# Writes unet_hybrid_lowdim.safetensors and unet_hybrid_image.safetensors next to this folder. All
# inputs are given as the network sees them (normalized), so no normalizer is involved.
import json
import pathlib

import torch

# torchvision's Python part registers fake kernels for operators that its CPU build may lack
_library = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from lerobot.configs.types import FeatureType, PolicyFeature  # noqa: E402
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig  # noqa: E402
from lerobot.policies.diffusion.modeling_diffusion import DiffusionModel  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent
B, T, TO, TA, DA = 3, 8, 2, 4, 2
STATE, IMAGE, CROP = 5, (3, 34, 37), (32, 32)
GRADIENTS = [
    "unet.diffusion_step_encoder.1.weight",
    "unet.down_modules.0.0.conv1.block.0.weight",
    "unet.down_modules.0.0.cond_encoder.1.weight",
    "unet.down_modules.0.2.weight",
    "unet.mid_modules.0.conv2.block.0.weight",
    "unet.mid_modules.0.conv2.block.1.weight",
    "unet.up_modules.0.0.residual_conv.weight",
    "unet.up_modules.0.2.weight",
    "unet.up_modules.0.2.bias",
    "unet.final_conv.1.weight",
    "rgb_encoder.backbone.0.weight",
    "rgb_encoder.backbone.5.0.downsample.0.weight",
    "rgb_encoder.pool.nets.weight",
    "rgb_encoder.out.weight",
]


def make_config(with_image: bool) -> DiffusionConfig:
    inputs = {"observation.state": PolicyFeature(type=FeatureType.STATE, shape=(STATE,))}
    if with_image:
        inputs["observation.images.cam"] = PolicyFeature(type=FeatureType.VISUAL, shape=IMAGE)
    else:
        inputs["observation.environment_state"] = PolicyFeature(type=FeatureType.ENV, shape=(3,))
    return DiffusionConfig(
        n_obs_steps=TO, horizon=T, n_action_steps=TA, input_features=inputs,
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(DA,))},
        crop_shape=CROP, crop_is_random=False, use_group_norm=True, pretrained_backbone_weights=None,
        spatial_softmax_num_keypoints=4, down_dims=(8, 16), kernel_size=5, n_groups=4,
        diffusion_step_embed_dim=8, use_film_scale_modulation=True, noise_scheduler_type="DDIM",
        num_train_timesteps=50, num_inference_steps=5, beta_schedule="squaredcos_cap_v2",
        prediction_type="epsilon", clip_sample=True, clip_sample_range=1.0)


def generate(name: str, with_image: bool) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = DiffusionModel(make_config(with_image))
    tensors = {}
    if with_image:
        # ResNet-18 has 11 M weights: all but a few of its tensors are a function of their name
        fill_backbone(model.rgb_encoder.backbone)
    model.eval()  # centre crop

    batch = {
        "observation.state": torch.rand(B, TO, STATE, generator=generator) * 2 - 1,
        "action": torch.rand(B, T, DA, generator=generator) * 2 - 1,
        "action_is_pad": torch.zeros(B, T, dtype=torch.bool),
    }
    if with_image:
        pixels = torch.randint(0, 256, (B, TO, 1, *IMAGE), generator=generator, dtype=torch.uint8)
        batch["observation.images"] = pixels.float() / 255 * 2 - 1
        tensors["images"] = pixels[:, :, 0].contiguous()
    else:
        batch["observation.environment_state"] = torch.rand(B, TO, 3, generator=generator) * 2 - 1
        tensors["environment_state"] = batch["observation.environment_state"]
    tensors["state"] = batch["observation.state"]
    tensors["action"] = batch["action"]

    # loss and gradients at given noise and timesteps
    epsilon = torch.randn(B, T, DA, generator=generator)
    timesteps = torch.tensor([0, 17, 49])
    global_cond = model._prepare_global_conditioning(batch)
    noisy = model.noise_scheduler.add_noise(batch["action"], epsilon, timesteps)
    prediction = model.unet(noisy, timesteps, global_cond=global_cond)
    loss = torch.nn.functional.mse_loss(prediction, epsilon)
    loss.backward()
    tensors |= {"epsilon": epsilon, "timesteps": timesteps, "noisy": noisy,
                "global_cond": global_cond.detach(), "prediction": prediction.detach(),
                "loss": loss.detach().reshape(1)}
    parameters = dict(model.named_parameters())
    for key in GRADIENTS:
        if key in parameters:
            tensors["grad." + key] = parameters[key].grad.clone()

    # DDIM from given noise, without the random number generator
    sample = torch.randn(B, T, DA, generator=generator)
    tensors["initial_noise"] = sample
    model.noise_scheduler.set_timesteps(5)
    with torch.no_grad():
        for t in model.noise_scheduler.timesteps:
            output = model.unet(sample, t.expand(B), global_cond=global_cond)
            sample = model.noise_scheduler.step(output, t, sample).prev_sample
    tensors["sampled"] = sample

    for key, value in model.state_dict().items():
        if "rgb_encoder.backbone" not in key:
            tensors["diffusion." + key] = value
    names = sorted("diffusion." + key for key in model.state_dict())
    tensors = {key: value.contiguous() for key, value in tensors.items()}
    metadata = {"names": json.dumps(names), "torch": torch.__version__, "lerobot": "0.3.2"}
    save_file(tensors, OUT / f"{name}.safetensors", metadata=metadata)
    print(name, float(loss), (OUT / f"{name}.safetensors").stat().st_size, "bytes")


def fill_backbone(backbone: torch.nn.Module) -> None:
    """Weight i of a tensor is a hash of i, scaled: the C++ test fills the same way, nothing is stored."""
    with torch.no_grad():
        for parameter in backbone.parameters():
            i = torch.arange(parameter.numel(), dtype=torch.int64)
            uniform = ((i * 2654435761 + 12345) % 4294967296).double() / 4294967296.0  # [0, 1)
            if parameter.dim() == 1:  # norms
                values = 0.5 + uniform
            else:
                values = (uniform * 2 - 1) * (6.0 / parameter[0].numel()) ** 0.5
            parameter.copy_(values.reshape(parameter.shape).float())


if __name__ == "__main__":
    generate("unet_hybrid_lowdim", with_image=False)
    generate("unet_hybrid_image", with_image=True)
