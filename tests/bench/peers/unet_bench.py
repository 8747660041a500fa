"""LeRobot's network and ours side by side, in turns, on 2 threads: training step and DDIM-10 latency.

    .venv/bin/python tests/bench/peers/unet_bench.py --ours build/release/bin/bench_unet

LeRobot's side gets the fastest optimiser and EMA that its Python ecosystem offers (fused AdamW, EMAModel with
foreach). Each round measures both; the table holds medians over the rounds and the median of the ratios.
"""

import side_by_side  # before torch: it sets the number of threads and the device

import torch
from diffusers.training_utils import EMAModel
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionModel


def make_model():
    config = DiffusionConfig(
        n_obs_steps=2, horizon=16, n_action_steps=8,
        input_features={"observation.state": PolicyFeature(type=FeatureType.STATE, shape=(2,)),
                        "observation.environment_state": PolicyFeature(type=FeatureType.ENV, shape=(18,))},
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
        down_dims=(64, 128, 256), noise_scheduler_type="DDIM", num_inference_steps=10)
    torch.manual_seed(0)
    return DiffusionModel(config)


def make_batch(size):
    return {"observation.state": torch.rand(size, 2, 2) * 2 - 1,
            "observation.environment_state": torch.rand(size, 2, 18) * 2 - 1,
            "action": torch.rand(size, 16, 2) * 2 - 1,
            "action_is_pad": torch.zeros(size, 16, dtype=torch.bool)}


def lerobot_cases():
    model = make_model()
    ema = EMAModel(model.parameters(), use_ema_warmup=True, power=0.75, foreach=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    train_batch = make_batch(256)

    def train_step(is_bf16=False):
        optimizer.zero_grad()
        with torch.autocast(side_by_side.DEVICE, torch.bfloat16, enabled=is_bf16):
            loss = model.compute_loss(train_batch)
        loss.backward()
        optimizer.step()
        ema.step(model.parameters())

    cases = {"TrainStep/256": train_step, "TrainStep/bf16/256": lambda: train_step(is_bf16=True)}
    for size in (1, 16, 50):
        batch = make_batch(size)

        def predict(batch=batch):
            with torch.inference_mode():
                model.generate_actions(batch)

        cases[f"PredictAction/{size}"] = predict
        cases[f"PredictAction/bf16/{size}"] = predict  # ours with bf16 weights; the peer in float32
    return cases


if __name__ == "__main__":
    side_by_side.main(__doc__, "bench_unet", "lerobot", lerobot_cases)
