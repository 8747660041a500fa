"""Writes tests/golden/normalizer.safetensors: scale, offset and normalized data by plain numpy.

Made with numpy 2.2.6, safetensors 0.8. Seed 0. From the project's root:
    .venv/bin/python tests/golden/generate/normalizer.py

The formulas are those of diffusion_policy's LinearNormalizer: limits with output [-1, 1] and range_eps
1e-4, gaussian with the same threshold on std. Dimension 3 of `data` is constant, dimension 4 nearly so.
"""

import pathlib

import numpy as np
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parents[1] / "normalizer.safetensors"
EPS = 1e-4

rng = np.random.default_rng(0)
data = rng.uniform(-3.0, 7.0, size=(50, 9, 2)) * np.linspace(0.1, 60.0, 18).reshape(9, 2)
flat = data.reshape(-1, 18)
flat[:, 3] = 42.0
flat[:, 4] = 1.0 + 5e-5 * rng.uniform(size=50)
data = data.astype(np.float32)
flat = data.reshape(-1, 18).astype(np.float64)

low, high, mean, std = flat.min(0), flat.max(0), flat.mean(0), flat.std(0)

limits_range = high - low
ignored = limits_range < EPS
limits_range[ignored] = 2.0
limits_scale = 2.0 / limits_range
limits_offset = -1.0 - limits_scale * low
limits_offset[ignored] = -low[ignored]

gaussian_scale = 1.0 / np.where(std < EPS, 1.0, std)
gaussian_offset = -mean * gaussian_scale

tensors = {"data": data, "min": low, "max": high, "mean": mean, "std": std,
           "zero_range_dims": np.flatnonzero(ignored).astype(np.int64)}
for mode, scale, offset in (("limits", limits_scale, limits_offset),
                            ("gaussian", gaussian_scale, gaussian_offset)):
    tensors[f"{mode}.scale"] = scale
    tensors[f"{mode}.offset"] = offset
    tensors[f"{mode}.normalized"] = (flat * scale + offset).reshape(data.shape)
save_file(tensors, OUT)
