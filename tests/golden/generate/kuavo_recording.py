"""A dataset in the layout of real Kuavo recordings, written by LeRobot: tests/data/lerobot/kuavo_recording/.

    python tests/golden/generate/kuavo_recording.py
Packages: lerobot[dataset] 0.6.1, Python 3.12; see tests/golden/README.md for versions. Three colour cameras and three
depth cameras of 480 x 640 as AV1 video, the depth in images of 8 bits, 16 joints and grippers, 10 Hz.
"""

import pathlib
import shutil

import numpy as np
import pyarrow.parquet as pq
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "data" / "lerobot" / "kuavo_recording"
HEIGHT, WIDTH = 480, 640
LENGTHS = [18, 17]
JOINTS = [f"zarm_{side}{i}_joint" for side in "l" for i in range(1, 8)] + ["left_claw"] \
    + [f"zarm_{side}{i}_joint" for side in "r" for i in range(1, 8)] + ["right_claw"]
IMAGE = {"dtype": "video", "shape": (HEIGHT, WIDTH, 3), "names": ["height", "width", "channels"]}
# in the order of the recordings
CAMERAS = ["observation.images.head_cam_h", "observation.depth_h", "observation.images.wrist_cam_l", "observation.depth_l",
           "observation.images.wrist_cam_r", "observation.depth_r"]


def image(step, camera):
    """A smooth image that moves, small as a video."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    value = (40 + x // 8 + y // 6 + 4 * step + 10 * camera).clip(0, 255).astype(np.uint8)
    if "depth" in CAMERAS[camera]:
        return np.stack([value] * 3, axis=-1)
    return np.stack([value, 255 - value, np.full_like(value, 20 * camera)], axis=-1)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    vector = {"dtype": "float32", "shape": (16,), "names": JOINTS}
    dataset = LeRobotDataset.create("test/kuavo_recording", fps=10, root=FOLDER, robot_type="kuavo4pro", use_videos=True,
                                    features={"observation.state": vector, "action": vector,
                                              **{name: IMAGE for name in CAMERAS}})
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        for step in range(length):
            angles = np.sin(0.1 * step + np.arange(16)) + 0.01 * rng.normal(size=16)
            dataset.add_frame({"observation.state": angles.astype(np.float32), "action": (angles + 0.05).astype(np.float32),
                               **{name: image(step, i) for i, name in enumerate(CAMERAS)}, "task": "sort the toys"})
        dataset.save_episode()
    dataset.finalize()
    shutil.rmtree(FOLDER / "images", ignore_errors=True)
    for table in FOLDER.glob("meta/episodes/*/*.parquet"):  # the statistics of episodes, which take most of the file
        columns = [name for name in pq.read_schema(table).names if not name.startswith("stats/")]
        pq.write_table(pq.read_table(table, columns=columns), table)


if __name__ == "__main__":
    main()
