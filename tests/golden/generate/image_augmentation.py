"""Writes tests/golden/image_augmentation.safetensors: the colour changes of torchvision at fixed factors.

Made with torchvision 0.28.0, torch 2.13.0 (CPU), safetensors 0.8. Seed 0. From the project's root, with a
Python that has these:
    python tests/golden/generate/image_augmentation.py

images                  [R, 2, 3, 8, 11] in [0, 1]; the first pixels are greys, pure and equal colours
<change>.factor         [R]
<change>.expected       adjust_<change>(images[i], factor[i]) of torchvision.transforms.functional
thin, thin.sharpness    [1, 1, 3, 2, 5], too thin to be blurred, at factor 0
"""

import pathlib

import torch

# some builds of torchvision import only when these operators exist; nothing here calls them
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from safetensors.torch import save_file
from torchvision.transforms import functional

OUT = pathlib.Path(__file__).parents[1] / "image_augmentation.safetensors"
FACTORS = {
    "brightness": (0.0, 0.5, 0.9, 1.0, 1.5, 4.0),
    "contrast": (0.0, 0.5, 0.9, 1.0, 1.5, 4.0),
    "saturation": (0.0, 0.5, 0.9, 1.0, 1.5, 4.0),
    "sharpness": (0.0, 0.5, 0.9, 1.0, 1.5, 4.0),
    "hue": (-0.5, -0.05, 0.0, 0.02, 0.05, 0.4),
    "gamma": (0.0, 0.5, 0.9, 1.0, 1.5, 2.0),
}
# black, white, a grey, the corners of the colour cube, two equal channels, a hue just below a full turn
SPECIAL = [(0, 0, 0), (1, 1, 1), (0.3, 0.3, 0.3), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1),
           (0.7, 0.7, 0.2), (0.2, 0.7, 0.7), (0.7, 0.2, 0.7), (0.9, 0.1, 0.1001)]

generator = torch.Generator().manual_seed(0)
images = torch.rand((len(FACTORS["hue"]), 2, 3, 8, 11), generator=generator)
images.flatten(-2)[..., :len(SPECIAL)] = torch.tensor(SPECIAL).T
thin = torch.rand((1, 1, 3, 2, 5), generator=generator)

tensors = {"images": images, "thin": thin, "thin.sharpness": functional.adjust_sharpness(thin, 0.0).clone()}
for change, factors in FACTORS.items():
    adjust = getattr(functional, f"adjust_{change}")
    tensors[f"{change}.factor"] = torch.tensor(factors)
    tensors[f"{change}.expected"] = torch.stack([adjust(image, factor) for image, factor in zip(images, factors)])
save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, OUT)
