"""LeRobot opens the datasets that dp_bench writes: every frame, task, name and statistic.

    python tests/integration/lerobot_datasets.py <dp_bench program>

Needs LeRobot 0.6.1 (pip install 'lerobot[dataset]==0.6.1', Python 3.12 or later). LeRobot records a dataset with
images; dp_bench converts it to version 2.1, from there to 3.0, to zarr and back to 3.0. LeRobot records another one
with videos in AV1, H.264 and HEVC, depth and rewards; dp_bench copies it to version 2.1 and back. Then dp_bench encodes
the same images itself.
"""
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from lerobot.configs import DepthEncoderConfig, RGBEncoderConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["shoulder", "elbow", "gripper"]},
    "observation.images.top": {"dtype": "image", "shape": (24, 320, 3), "names": ["height", "width", "channels"]},
    "observation.images.wrist": {"dtype": "image", "shape": (16, 20, 3), "names": ["height", "width", "channels"]},
    "observation.depth": {"dtype": "image", "shape": (16, 20, 1), "names": ["height", "width", "channels"],
                          "info": {"is_depth_map": True}},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
}
LENGTHS = (12, 1, 140)
VIDEO_LENGTHS = (12, 3, 138)  # LeRobot cannot pool statistics of a matrix over an episode of one frame


def record(root: pathlib.Path) -> None:
    random = np.random.default_rng(5)
    dataset = LeRobotDataset.create("test/recorded", 15, FEATURES, root=root, use_videos=False)
    for episode, length in enumerate(LENGTHS):
        for _ in range(length):
            frame = {"task": ("lift the cup", "push")[episode % 2]}
            for name, feature in FEATURES.items():
                if name == "observation.depth":
                    frame[name] = random.integers(0, 5000, feature["shape"]).astype(np.uint16)
                elif feature["dtype"] == "image":
                    frame[name] = random.integers(0, 256, feature["shape"], dtype=np.uint8)
                else:
                    frame[name] = random.normal(size=feature["shape"]).astype(np.float32)
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()


def video(kind: str) -> dict:
    """The features of a dataset with two cameras and depth, as videos or as images."""
    names = ["height", "width", "channels"]
    return {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["shoulder", "elbow", "gripper"]},
        "observation.images.top": {"dtype": kind, "shape": (64, 96, 3), "names": names},
        "observation.images.wrist": {"dtype": kind, "shape": (64, 64, 3), "names": names},
        "observation.depth": {"dtype": kind, "shape": (64, 64, 1), "names": names, "info": {"is_depth_map": True}},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
        "observation.grid": {"dtype": "float64", "shape": (2, 3), "names": None},
        "observation.note": {"dtype": "string", "shape": (1,), "names": None},
    }


def image(shape: tuple, step: int) -> np.ndarray:
    """Smooth, and so different from step to step that a wrong frame is found."""
    y, x = np.mgrid[0:shape[0], 0:shape[1]]
    waves = [np.sin(0.03 * (x + y) + 0.7 * step + channel) for channel in range(shape[2])]
    return (128 + 100 * np.stack(waves, axis=-1)).astype(np.uint8)


def record_video(root: pathlib.Path, kind: str, codec: str = "libsvtav1") -> None:
    random = np.random.default_rng(6)
    features = video(kind)
    dataset = LeRobotDataset.create("test/video", 20, features, root=root, use_videos=kind == "video",
                                    rgb_encoder=RGBEncoderConfig(vcodec=codec), depth_encoder=DepthEncoderConfig())
    step = 0
    for episode, length in enumerate(VIDEO_LENGTHS):
        for index in range(length):
            frame = {"task": ("lift the cup", "push")[episode % 2]}
            for name, feature in features.items():
                if name == "observation.depth":
                    frame[name] = (20 * image(feature["shape"], step).astype(np.uint16) + 500)
                elif feature["dtype"] == kind:
                    frame[name] = image(feature["shape"], step)
                elif feature["dtype"] == "bool":
                    frame[name] = np.array([index + 1 == length], dtype=bool)
                elif feature["dtype"] == "string":
                    frame[name] = f"step {step}"
                else:
                    frame[name] = random.normal(size=feature["shape"]).astype(feature["dtype"])
            dataset.add_frame(frame)
            step += 1
        dataset.save_episode()
    dataset.finalize()


def convert(program: str, source: pathlib.Path, output: pathlib.Path, *options: str) -> pathlib.Path:
    subprocess.run([program, "dataset", "convert", source, output, *options], check=True, capture_output=True)
    return output


def compare_statistics(found: dict, wanted: dict) -> None:
    assert found.keys() == wanted.keys(), (found.keys(), wanted.keys())
    for feature, statistics in wanted.items():
        span = np.asarray(statistics["max"], float) - np.asarray(statistics["min"], float)
        for name, value in statistics.items():
            ours = np.asarray(found[feature][name])
            assert ours.shape == np.shape(value), (feature, name, ours.shape)
            # quantiles: a bin of the histogram. LeRobot sums float32: with smooth images, its deviation is 7e-4 off
            tolerance = 0 if name == "count" else 1e-6 + span * 1e-3
            assert (np.abs(ours - np.asarray(value)) <= tolerance).all(), (feature, name, ours, value)


def compare(found: LeRobotDataset, wanted: LeRobotDataset, with_names: bool) -> None:
    assert len(found) == len(wanted) == sum(LENGTHS) and found.fps == wanted.fps
    assert found.meta.total_episodes == len(LENGTHS)
    for name, feature in wanted.meta.features.items():
        ours = found.meta.features[name]
        assert ours["dtype"] == feature["dtype"] and tuple(ours["shape"]) == tuple(feature["shape"]), name
        assert not with_names or ours["names"] == feature["names"], (name, ours, feature)
    for index in range(len(wanted)):
        frame, expected = found[index], wanted[index]
        assert frame.keys() == expected.keys(), (frame.keys(), expected.keys())
        for key, value in expected.items():
            if isinstance(value, str):
                assert frame[key] == value or not with_names, (index, key, frame[key])  # zarr has no tasks
            elif key != "task_index" or with_names:
                assert frame[key].dtype == value.dtype and (frame[key] == value).all(), (index, key)
    if with_names:
        compare_statistics(found.meta.stats, wanted.meta.stats)


def compare_videos(found: LeRobotDataset, wanted: LeRobotDataset, min_psnr: float = np.inf) -> None:
    """Every frame and value; colours may differ by `min_psnr` [dB]."""
    assert len(found) == len(wanted) == sum(VIDEO_LENGTHS) and found.fps == wanted.fps
    for index in range(len(wanted)):
        frame, expected = found[index], wanted[index]
        assert frame.keys() == expected.keys(), (frame.keys(), expected.keys())
        for key, value in expected.items():
            if isinstance(value, str):
                assert frame[key] == value, (index, key, frame[key], value)
                continue
            assert frame[key].dtype == value.dtype and frame[key].shape == value.shape, (index, key)
            if key.startswith("observation.images") and min_psnr < np.inf:
                psnr = -10 * np.log10(float(torch.mean((frame[key] - value) ** 2)) + 1e-12)
                assert psnr > min_psnr, (index, key, psnr)
            else:
                assert (frame[key] == value).all(), (index, key, frame[key], value)


def check_copies(program: str, root: pathlib.Path, codec: str) -> None:
    """Versions 3.0, 2.1, 3.0: LeRobot decodes the same frames."""
    recorded = root / f"video_{codec}"
    record_video(recorded, "video", codec)
    wanted = LeRobotDataset("test/video", root=recorded)
    older = convert(program, recorded, root / f"video_{codec}_v21", "--format", "lerobot", "--param", "version=v2.1")
    newer = convert(program, older, root / f"video_{codec}_v30", "--format", "lerobot")
    found = LeRobotDataset("test/copied", root=newer)
    compare_videos(found, wanted)
    compare_statistics(found.meta.stats, wanted.meta.stats)
    for name, feature in wanted.meta.features.items():
        assert found.meta.features[name] == feature, (name, found.meta.features[name], feature)


def check_encoded(program: str, root: pathlib.Path, images: pathlib.Path, codec: str) -> None:
    """Videos by dp_bench: LeRobot decodes frames near the images, and their statistics are exact."""
    wanted = LeRobotDataset("test/images", root=images)
    output = convert(program, images, root / f"encoded_{codec}", "--format", "lerobot", "--param", f"codec={codec}",
                     "--param", "video_files_size_in_mb=0.005")
    found = LeRobotDataset("test/encoded", root=output)
    compare_videos(found, wanted, min_psnr=30)
    compare_statistics(found.meta.stats, wanted.meta.stats)
    assert len(list(output.glob("videos/observation.images.top/*/*.mp4"))) > 1
    info = found.meta.features["observation.images.top"]["info"]
    assert RGBEncoderConfig.from_video_info(info).g == 2 and info["video.codec"] == codec, info


def main() -> None:
    logging.disable(logging.WARNING)
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        record(root / "recorded")
        wanted = LeRobotDataset("test/recorded", root=root / "recorded")
        older = convert(program, root / "recorded", root / "v21", "--format", "lerobot", "--param", "version=v2.1")
        newer = convert(program, older, root / "v30", "--format", "lerobot")
        compare(LeRobotDataset("test/newer", root=newer), wanted, with_names=True)
        buffer = convert(program, newer, root / "buffer.zarr", "--format", "zarr")
        back = convert(program, buffer, root / "back", "--format", "lerobot", "--map", "observation.state=state",
                       "--map", "observation.images.top=top", "--map", "observation.images.wrist=wrist",
                       "--map", "observation.depth=depth")
        compare(LeRobotDataset("test/back", root=back), wanted, with_names=False)
        for codec in ("libsvtav1", "h264", "hevc"):
            check_copies(program, root, codec)
        record_video(root / "images", "image")
        for codec in ("av1", "h264", "hevc"):
            check_encoded(program, root, root / "images", codec)
    print(f"LeRobot reads {sum(LENGTHS)} frames of {len(LENGTHS)} episodes as it recorded them, and videos that dp_bench copied or encoded")


if __name__ == "__main__":
    main()
