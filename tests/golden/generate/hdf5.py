"""Small HDF5 files with robomimic's and ACT's layouts, and what h5py and libjpeg read of them.

Writes tests/data/hdf5/ and tests/golden/hdf5.safetensors. Needs h5py, numpy, imagecodecs and safetensors.
    python tests/golden/generate/hdf5.py

In the golden file, "<dataset>/<key>" has all steps of all episodes in the order of their numbers.
"""

import json
import pathlib
import shutil

import h5py
import imagecodecs
import numpy as np
from safetensors.numpy import save_file

TESTS = pathlib.Path(__file__).resolve().parents[2]
DATA = TESTS / "data" / "hdf5"


def robomimic(rng):
    """demo_10 is before demo_2 in the alphabet. The arrays have every layout and many types."""
    golden = {}
    with h5py.File(DATA / "robomimic.hdf5", "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {"control_freq": 20}})
        for demo, length in (("demo_1", 4), ("demo_2", 1), ("demo_10", 5)):
            arrays = {
                "actions": rng.normal(size=(length, 3)),
                "obs/pose": rng.normal(size=(length, 2)).astype(">f4"),
                "obs/gripper_open": rng.integers(0, 2, length).astype(bool),
                "obs/grid": rng.integers(-9, 9, (length, 2, 3)).astype("<i2"),
                "obs/image": rng.integers(0, 256, (length, 6, 8, 3), dtype=np.uint8),
                "obs/planes": rng.integers(0, 256, (length, 3, 6, 8), dtype=np.uint8),
                "obs/depth": rng.integers(0, 5000, (length, 6, 8, 1), dtype=np.uint16),
            }
            group = data.create_group(demo)
            if demo != "demo_2":
                group.attrs["num_samples"] = length
            for name, values in arrays.items():
                packed = {"compression": "gzip", "shuffle": True, "chunks": True} if "image" in name else {}
                group.create_dataset(name, data=values, **packed)
                key = {"actions": "action"}.get(name, name.removeprefix("obs/"))
                if key == "planes":
                    values = values.transpose(0, 2, 3, 1)
                if key not in ("image", "planes", "depth"):
                    values = values.astype(np.float32)
                golden.setdefault(f"robomimic/{key}", []).append(values.reshape(length, -1))
        file["mask/train"] = np.array(["demo_10", "demo_1"], dtype="S")
        file["mask/valid"] = ["demo_2"]
    return golden


def act(rng):
    """Images are JPEG files, padded with zeros."""
    golden = {}
    for episode, length in ((1, 2), (2, 3), (10, 2)):
        with h5py.File(DATA / "act" / f"episode_{episode}.hdf5", "w") as file:
            file.attrs["sim"] = False
            file.attrs["compress"] = True
            numbers = {"action": (length, 4), "observations/qpos": (length, 4), "observations/qvel": (length, 4)}
            for name, shape in numbers.items():
                file[name] = rng.normal(size=shape)
                key = name.removeprefix("observations/")
                golden.setdefault(f"act/{key}", []).append(file[name][:].astype(np.float32))
            y, x = np.mgrid[0:24, 0:32]
            files = []
            for step in range(length):
                image = np.stack([8 * x, 10 * y, np.full_like(x, 20 * step + episode)], axis=-1).astype(np.uint8)
                files.append(bytes(imagecodecs.jpeg_encode(image, level=95)))
                golden.setdefault("act/top", []).append(imagecodecs.jpeg_decode(files[-1]).reshape(1, -1))
            padded = np.zeros((length, max(map(len, files)) + 16), np.uint8)
            for row, content in zip(padded, files):
                row[:len(content)] = np.frombuffer(content, np.uint8)
            file.create_dataset("observations/images/top", data=padded, chunks=(1, padded.shape[1]))
            file["compress_len"] = np.array([[len(content) for content in files]], np.float32)
    return golden


def main():
    shutil.rmtree(DATA, ignore_errors=True)
    (DATA / "act").mkdir(parents=True)
    rng = np.random.default_rng(0)
    golden = robomimic(rng) | act(rng)
    tensors = {name: np.ascontiguousarray(np.concatenate(parts)) for name, parts in golden.items()}
    save_file({name: values.astype(np.float32) for name, values in tensors.items()}, TESTS / "golden" / "hdf5.safetensors")


if __name__ == "__main__":
    main()
