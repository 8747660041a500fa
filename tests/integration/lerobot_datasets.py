"""LeRobot opens the data sets that dp_bench writes: every frame, task, name and statistic.

    python tests/integration/lerobot_datasets.py <dp_bench program>

Needs LeRobot 0.6.1 (pip install 'lerobot[dataset]==0.6.1', Python 3.12 or later). LeRobot records a data set; dp_bench
converts it to version 2.1, from there to 3.0, to zarr and back to 3.0.
"""
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
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
            # a bin of the histogram for quantiles; LeRobot sums float32
            tolerance = 0 if name == "count" else 1e-6 + span * (1e-3 if name.startswith("q") else 2e-4)
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
    print(f"LeRobot reads {sum(LENGTHS)} frames of {len(LENGTHS)} episodes as it recorded them")


if __name__ == "__main__":
    main()
