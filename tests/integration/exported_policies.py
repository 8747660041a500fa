"""Policies with random weights, exported as TorchScript and ONNX: examples/exported_policy plans the actions that dp_bench
plans with the same noise. Runtimes that are not installed are left out and named; onnx.checker checks the files.
    python tests/integration/exported_policies.py build/release/bin/dp_bench build/release/bin/plan_with_stages
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/exported_policy"))
import exported_policy

TOLERANCE = 1e-5  # of normalized actions
BATCH = 3
SMALL_UNET = ["policy.params.down_dims=[16,32]", "policy.params.diffusion_step_embed_dim=16"]
SMALL_TRANSFORMER = ["policy.params.n_layer=2", "policy.params.n_emb=32", "policy.params.n_head=2"]
SMALL_ENCODER = ["policy.params.obs_encoder.resnet_width=8", "policy.params.obs_encoder.resnet_stages=2",
                 "policy.params.obs_encoder.spatial_softmax_num_keypoints=8"]
CASES = {
    "unet": ["--policy", "unet_hybrid", "--env", "pusht_expert", *SMALL_UNET],
    "unet_images_batch_norm": ["--policy", "unet_hybrid", "--env", "pusht_expert", "env.params.obs=[\"agent_pos\",\"image\"]", *SMALL_UNET, *SMALL_ENCODER,
                               "policy.params.obs_encoder.use_group_norm=false", "policy.params.crop_shape=[84,84]",
                               "policy.params.resize_shape=[60,60]"],
    "unet_images_resized_first": ["--policy", "unet_hybrid", "--env", "pusht_expert", "env.params.obs=[\"agent_pos\",\"image\"]", *SMALL_UNET, *SMALL_ENCODER,
                                  "policy.params.resize_first=true", "policy.params.resize_shape=[64,70]",
                                  "policy.params.crop_shape=[0.9,0.9]", "policy.params.cond_predict_scale=false"],
    "unet_inpainting": ["--policy", "unet_hybrid", "--env", "pusht_expert", *SMALL_UNET,
                        "policy.params.obs_as_global_cond=false"],
    "transformer_heun": ["--policy", "transformer", "--env", "point_mass", *SMALL_TRANSFORMER,
                         "policy.params.noise_scheduler.type=heun"],
    "transformer_dpmsolver_post_norm": ["--policy", "transformer", "--env", "point_mass", *SMALL_TRANSFORMER,
                                        "policy.params.noise_scheduler.type=dpmsolver++", "policy.params.norm=post",
                                        "policy.params.time_embedding=mlp", "policy.params.position=sinusoidal",
                                        "policy.params.n_cond_layers=1"],
    "transformer_encoder_only": ["--policy", "transformer", "--env", "point_mass", *SMALL_TRANSFORMER,
                                 "policy.params.time_as_cond=false", "policy.params.obs_as_cond=false",
                                 "policy.params.noise_scheduler.type=ddpm"],
    "transformer_inpainting_flow": ["--policy", "transformer", "--env", "point_mass", *SMALL_TRANSFORMER,
                                    "policy.params.obs_as_global_cond=false", "policy.params.objective=flow_matching",
                                    "policy.params.flow_matching.sampler=heun"],
    "rgbd": ["--policy", "rgbd_small", "--env", "kuavo_dualarm", "--obs", "rgbd_small", *SMALL_ENCODER,
             "policy.params.obs_encoder.n_head=2", "policy.params.resize_shape=[44,58]"],
}


def is_installed(module):
    return importlib.util.find_spec(module) is not None


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def random_obs(sampler, rng):
    obs = {}
    for o in sampler["observations"]:
        shape = (BATCH, *o["shape"])
        full = {"uint8": 256, "uint16": 2000}.get(o["dtype"])
        obs[o["key"]] = rng.integers(0, full, shape, o["dtype"]) if full else rng.random(shape, np.float32) * 0.5
    return obs


def with_openvino(folder, part):
    import openvino

    model = openvino.Core().compile_model(folder / part["file"], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: model({name: inputs[name] for name in part["inputs"]})[part["output"]]


def largest_difference(policy, obs, expected):
    draws = iter(range(1000))
    planned = policy.plan(obs, lambda shape: draw(expected, next(draws), shape))
    return np.abs((planned - expected["action"]) * np.float32(policy.sampler["action"]["scale"])).max()


def draw(expected, i, shape):
    return expected[f"noise.{i}"].reshape(shape)


def check(name, options, folder, dp_bench, plan):
    checkpoint = folder / "run/checkpoints/latest"
    run(dp_bench, "train", *options, "collect.n_episodes=2", "training.num_epochs=1", "training.max_train_steps=1",
        "training.rollout_every=0", "dataloader.batch_size=2", "--output", folder / "run")
    formats = {"torchscript": is_installed("torch"), "onnx": is_installed("onnxruntime")}
    differences = {}
    for graphs in formats:
        run(dp_bench, "export", "--checkpoint", checkpoint, "--format", graphs, "--output", folder / graphs)
    policy = exported_policy.ExportedPolicy(folder / ("onnx" if formats["onnx"] else "torchscript"))
    obs = random_obs(policy.sampler, np.random.default_rng(0))
    save_file(obs, folder / "obs.safetensors")
    run(plan, checkpoint, folder / "obs.safetensors", folder / "plan.safetensors")
    expected = load_file(folder / "plan.safetensors")
    for graphs, can_run in formats.items():
        if can_run:
            differences[graphs] = largest_difference(exported_policy.ExportedPolicy(folder / graphs), obs, expected)
    if is_installed("openvino"):
        policy.encode = with_openvino(folder / "onnx", policy.sampler["encoder"])
        policy.denoise = with_openvino(folder / "onnx", policy.sampler["denoiser"])
        differences["openvino"] = largest_difference(policy, obs, expected)
    if is_installed("onnx"):
        import onnx

        for part in ("encoder", "denoiser"):
            onnx.checker.check_model(folder / f"onnx/{part}.onnx", full_check=True)
    print(f"{name}: " + ", ".join(f"{key} {value:.1e}" for key, value in differences.items()), flush=True)
    return all(value <= TOLERANCE for value in differences.values())


def main():
    dp_bench, plan = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    missing = [module for module in ("torch", "onnx", "onnxruntime", "openvino") if not is_installed(module)]
    if missing:
        print("not installed, not checked:", ", ".join(missing))
    failed = []
    for name, options in CASES.items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if not check(name, options, pathlib.Path(folder), dp_bench, plan):
                failed.append(name)
    assert not failed, f"differences above {TOLERANCE}: {failed}"


if __name__ == "__main__":
    main()
