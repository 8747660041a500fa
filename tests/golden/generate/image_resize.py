# Reference numbers for harness/src/policy/vision/vision_pipeline.cc with resize_first: torchvision's Resize, which
# antialiases, and CenterCrop, as LeRobot's diffusion policy uses them.
#   python tests/golden/generate/image_resize.py
# Packages: torchvision, torch, safetensors; see tests/golden/README.md for versions. Writes image_resize.safetensors.
import pathlib

import torch
from safetensors.torch import save_file
from torchvision.transforms import CenterCrop, Resize

OUT = pathlib.Path(__file__).resolve().parent.parent / "image_resize.safetensors"

if __name__ == "__main__":
    images = torch.randint(0, 256, (2, 3, 17, 13), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    tensors = {"images": images}
    for name, size, crop in (("smaller", (9, 8), (6, 5)), ("larger", (20, 21), (18, 18)), ("mixed", (8, 20), (7, 14))):
        tensors[name] = CenterCrop(crop)(Resize(size)(images.float() / 255)).contiguous()
    save_file(tensors, OUT)
