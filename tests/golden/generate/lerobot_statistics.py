"""The statistics that LeRobot computes for an episode and for a dataset: tests/golden/lerobot_statistics.json.

    pip install 'lerobot[dataset]==0.6.1'      # Python 3.12 or later
    python tests/golden/generate/lerobot_statistics.py

Only the results are stored. The test computes the inputs from the same formulas.
"""
import json
import pathlib

import numpy as np
from lerobot.datasets import compute_stats


def numbers(n_frames: int, offset: int) -> np.ndarray:
    """[n_frames, 3] float64: LeRobot rounds sums of float32, which would hide differences."""
    frame = np.arange(n_frames, dtype=np.int64)[:, None]
    channel = np.arange(3)[None]
    return ((frame * 37 + channel * 11 + offset) % 101) / 8.0 - channel


def image(frame: int, height: int, width: int, n_channels: int) -> np.ndarray:
    """[C, H, W] uint8."""
    y = np.arange(height)[None, :, None]
    x = np.arange(width)[None, None, :]
    channel = np.arange(n_channels)[:, None, None]
    return ((x * 7 + y * 13 + channel * 29 + frame * 31) % 251).astype(np.uint8)


def images(n_frames: int, height: int, width: int) -> np.ndarray:
    sample = compute_stats.sample_indices(n_frames)
    stack = [compute_stats.auto_downsample_height_width(image(i, height, width, 3)) for i in sample]
    return np.stack(stack)


def of_images(n_frames: int, height: int, width: int) -> dict:
    # as float64, for the reason above
    stack = images(n_frames, height, width).astype(np.float64)
    stats = compute_stats.get_feature_stats(stack, axis=(0, 2, 3), keepdims=True)
    return {k: v if k == "count" else np.squeeze(v / 255.0, axis=0) for k, v in stats.items()}


def plain(stats: dict) -> dict:
    return {name: np.asarray(value).tolist() for name, value in stats.items()}


def main() -> None:
    episodes = [compute_stats.get_feature_stats(numbers(n, o), axis=0, keepdims=False) for n, o in ((12, 0), (1, 5), (700, 9))]
    result = {
        "numbers": [plain(episode) for episode in episodes],
        "pooled": plain(compute_stats.aggregate_feature_stats(episodes)),
        "small_images": plain(of_images(12, 6, 8)),
        "sampled_images": plain(of_images(1000, 6, 8)),
        "large_images": plain(of_images(3, 20, 320)),
        "high_images": plain(of_images(2, 480, 300)),
    }
    path = pathlib.Path(__file__).parent.parent / "lerobot_statistics.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
