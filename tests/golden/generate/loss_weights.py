"""Writes tests/golden/loss_weights.json: the weights of timesteps in the loss.

Made with diffusers 0.42.1, torch 2.13.0 (CPU). From the project's root:
    .venv/bin/python tests/golden/generate/loss_weights.py

The SNR is compute_snr of diffusers. The weights are the formula of its training examples
(examples/text_to_image/train_text_to_image.py, --snr_gamma), which have epsilon and v_prediction; sample is
the remaining case of Hang et al. 2023. `snr` is the same with a gamma that never limits.
[{"noise_scheduler": ..., "loss_weighting": ..., "snr_gamma": ..., "weights": [num_train_timesteps]}]
"""

import json
import pathlib

import torch

# some builds of torchvision import only when these operators exist; nothing here calls them
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from diffusers import DDPMScheduler
from diffusers.training_utils import compute_snr

OUT = pathlib.Path(__file__).parents[1] / "loss_weights.json"


def weights(config, gamma):
    scheduler = DDPMScheduler(**config)
    snr = compute_snr(scheduler, torch.arange(config["num_train_timesteps"]))
    limited = torch.stack([snr, gamma * torch.ones_like(snr)], dim=1).min(dim=1)[0]
    if config["prediction_type"] == "epsilon":
        return limited / snr
    if config["prediction_type"] == "v_prediction":
        return limited / (snr + 1)
    return limited


cases = []
for prediction in ("epsilon", "sample", "v_prediction"):
    for schedule, n in (("squaredcos_cap_v2", 100), ("linear", 50)):
        config = dict(num_train_timesteps=n, beta_schedule=schedule, beta_start=1e-4, beta_end=0.02,
                      prediction_type=prediction)
        for weighting, gamma in (("min_snr", 5.0), ("min_snr", 1.5), ("snr", float("inf"))):
            case = {"noise_scheduler": config, "loss_weighting": weighting,
                    "weights": [float(w) for w in weights(config, gamma)]}
            if weighting == "min_snr":
                case["snr_gamma"] = gamma
            cases.append(case)
OUT.write_text(json.dumps(cases) + "\n")
