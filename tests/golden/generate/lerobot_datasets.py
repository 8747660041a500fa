"""Small LeRobot datasets, written by LeRobot, and what LeRobot reads of them.

Writes tests/data/lerobot/<name>/ and tests/golden/lerobot_<version>.safetensors. The installed LeRobot decides which:
version 3.0 with lerobot[dataset] 0.6.1 (Python 3.12), versions 2.1 and 2.0 with lerobot 0.3.2 (Python 3.10).
    python tests/golden/generate/lerobot_datasets.py

The golden file has windows of v30_av1, and per dataset: "<name>/<feature>" [steps, n] for numbers, and for each camera "/frames" [F, H, W, C]
of the steps in "/steps" [F] and "/means" [steps, C] of all frames, as LeRobot's default decoder gives them; its metadata
has "<name>/<camera>/spread", the largest difference between LeRobot's two decoders over all frames [levels].
"""

import importlib.metadata
import io
import json
import pathlib
import shutil

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import torch
from lerobot.datasets import lerobot_dataset
from lerobot.datasets.video_utils import decode_video_frames
from safetensors.numpy import save_file

TESTS = pathlib.Path(__file__).resolve().parents[2]
DATA = TESTS / "data" / "lerobot"
HEIGHT, WIDTH = 24, 32
LENGTHS = [12, 9, 12]
TASKS = ["push the block", "lift the tray", "push the block"]
VERSION = "v21" if importlib.metadata.version("lerobot").startswith("0.3") else "v30"
BACKENDS = ["torchcodec"] if VERSION == "v21" else ["pyav", "torchcodec"]  # 0.3 needs an old torchvision for pyav
SAMPLED = [0, 1, 7, 11, 12, 20, 21, 32]

VECTORS = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["shoulder", "elbow", "gripper"]},
    "action": {"dtype": "float32", "shape": (2,), "names": {"motors": ["x", "y"]}},
}
OTHER_NUMBERS = {
    "observation.grid": {"dtype": "float64", "shape": (2, 3), "names": None},
    "observation.counts": {"dtype": "int64", "shape": (2,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
}


def camera(kind, channels=3, names=("height", "width", "channels"), **info):
    sizes = {"height": HEIGHT, "width": WIDTH, "channels": channels}
    feature = {"dtype": kind, "shape": tuple(sizes[name] for name in names), "names": list(names)}
    return feature | ({"info": info} if info else {})


def image(step, phase):
    """A smooth image with a square that moves."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = np.stack([60 + 5 * x, 40 + 7 * y, 100 + 3 * (x + y) + 20 * phase], axis=-1)
    left = (3 * step + 5 * phase) % (WIDTH - 8)
    rgb[8:16, left:left + 8] = (230, 30 + 6 * step, 40)
    return rgb.clip(0, 255).astype(np.uint8)


def depth(step, dtype):
    """Millimetres as integers or metres as floating-point numbers, [H, W, 1]."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    if np.issubdtype(dtype, np.floating):
        return (0.3 + 0.02 * y + 0.1 * step).astype(dtype)[..., None]  # equal rows, so that the file stays small
    return (300 + 50 * x + 20 * y + 100 * step).astype(dtype)[..., None]


def frame(step, features):
    """One step of an episode, in the order that LeRobot stores it."""
    rng = np.random.default_rng(step)
    values = {
        "observation.state": rng.normal(size=3).astype(np.float32),
        "action": rng.normal(size=2).astype(np.float32),
        "observation.grid": rng.normal(size=(2, 3)),
        "observation.counts": np.array([step, -step], dtype=np.int64),
        "next.done": np.array([step % 5 == 0]),
    }
    values = {name: value for name, value in values.items() if name in features}
    for phase, (name, feature) in enumerate(sorted(features.items())):
        if feature["dtype"] not in ("video", "image"):
            continue
        if feature["names"][0] == "channels":
            values[name] = image(step, phase).transpose(2, 0, 1)
        elif feature["shape"][-1] == 3:
            values[name] = image(step, phase)
        else:
            values[name] = depth(step, np.float32 if "metres" in name else np.uint16)
    return values


def write(name, fps, cameras, add_frame, **options):
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    features = VECTORS | cameras
    dataset = lerobot_dataset.LeRobotDataset.create(
        f"test/{name}", fps=fps, features=features, root=folder, robot_type="kuavo4pro",
        use_videos=any(f["dtype"] == "video" for f in cameras.values()), **options)
    step = 0
    for length, task in zip(LENGTHS, TASKS):
        for _ in range(length):
            add_frame(dataset, frame(step, features), task)
            step += 1
        dataset.save_episode()
    if hasattr(dataset, "finalize"):
        dataset.finalize()
    shutil.rmtree(folder / "images", ignore_errors=True)
    for table in folder.glob("meta/episodes/*/*.parquet"):  # the statistics of episodes, which take most of the file
        columns = [name for name in pq.read_schema(table).names if not name.startswith("stats/")]
        pq.write_table(pq.read_table(table, columns=columns), table)
    return folder


def video_places(dataset, camera_name):
    """(file, time) of every step."""
    for episode, length in enumerate(LENGTHS):
        start = 0.0
        if hasattr(dataset.meta.episodes[episode], "keys") and \
                f"videos/{camera_name}/from_timestamp" in dataset.meta.episodes[episode]:
            start = dataset.meta.episodes[episode][f"videos/{camera_name}/from_timestamp"]
        path = dataset.root / dataset.meta.get_video_file_path(episode, camera_name)
        for index in range(length):
            yield path, start + index / dataset.fps


def rgb_frames(dataset, name):
    """All frames of each of LeRobot's decoders, uint8 [steps, H, W, C]."""
    if dataset.meta.features[name]["dtype"] == "image":
        frames = torch.stack([dataset[i][name] for i in range(sum(LENGTHS))])
        return [(frames * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()]
    decoded = []
    for backend in BACKENDS:
        frames = [decode_video_frames(path, [time], 1e-4, backend)[0] for path, time in video_places(dataset, name)]
        decoded.append((torch.stack(frames) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy())
    return decoded


def collect(name, folder, tensors, metadata):
    dataset = lerobot_dataset.LeRobotDataset(f"test/{name}", root=folder)
    depth_keys = getattr(dataset.meta, "depth_keys", [])
    for feature, spec in dataset.meta.features.items():
        if spec["dtype"] not in ("video", "image"):
            rows = [np.asarray(dataset.hf_dataset[i][feature]).ravel() for i in range(sum(LENGTHS))]
            tensors[f"{name}/{feature}"] = np.stack(rows).astype(
                np.int64 if rows[0].dtype.kind in "ib" else rows[0].dtype)
            continue
        if feature in depth_keys:
            frames = torch.stack([dataset[i][feature] for i in range(sum(LENGTHS))]).permute(0, 2, 3, 1)
            decoded = [frames.numpy().round().astype(np.uint16)]
        else:
            decoded = rgb_frames(dataset, feature)
        spread = max(int(np.abs(decoded[0].astype(int) - other.astype(int)).max()) for other in decoded)
        metadata[f"{name}/{feature}/spread"] = str(spread)
        default = decoded[-1]
        tensors[f"{name}/{feature}/steps"] = np.array(SAMPLED, dtype=np.int64)
        tensors[f"{name}/{feature}/frames"] = np.ascontiguousarray(default[SAMPLED])
        tensors[f"{name}/{feature}/means"] = default.mean(axis=(1, 2)).astype(np.float64)


def write_v30():
    """One dataset per codec, one with images in Parquet. Files are rolled over after each episode, chunks after two."""
    from lerobot.configs.video import RGBEncoderConfig
    tiny = {"data_files_size_in_mb": 1e-6, "video_files_size_in_mb": 1e-6}

    def add(dataset, values, task):
        dataset.add_frame(values | {"task": task})

    is_depth = {"is_depth_map": True}
    return {
        "v30_av1": write("v30_av1", 10, OTHER_NUMBERS | {
            "observation.images.top": camera("video"),
            "observation.images.wrist": camera("video", names=("channels", "height", "width")),
            "observation.depth": camera("video", channels=1, **is_depth)}, add),
        "v30_h264": write("v30_h264", 7, {"observation.images.top": camera("video")}, add,
                          rgb_encoder=RGBEncoderConfig(vcodec="h264", g=6), **tiny),
        "v30_hevc": write("v30_hevc", 60, {"observation.images.top": camera("video")}, add,
                          rgb_encoder=RGBEncoderConfig(vcodec="hevc", g=12)),
        "v30_images": write("v30_images", 10, {
            "observation.image": camera("image"),
            "observation.depth": camera("image", channels=1, **is_depth),
            "observation.depth_metres": camera("image", channels=1, **is_depth)}, add),
    }


def write_v21():
    """Video and images in version 2.1; version 2.0 has the statistics of the whole dataset in one file."""
    def add(dataset, values, task):
        dataset.add_frame(values, task=task)

    folders = {
        "v21_av1": write("v21_av1", 10, OTHER_NUMBERS | {"observation.images.top": camera("video")}, add),
        "v21_images": write("v21_images", 15, {"observation.image": camera("image")}, add),
    }
    folders["v20_images"] = DATA / "v20_images"
    shutil.rmtree(folders["v20_images"], ignore_errors=True)
    shutil.copytree(folders["v21_images"], folders["v20_images"])
    meta = folders["v20_images"] / "meta"
    info = json.loads((meta / "info.json").read_text())
    (meta / "info.json").write_text(json.dumps(info | {"codebase_version": "v2.0"}, indent=4))
    (meta / "episodes_stats.jsonl").unlink()
    stats = lerobot_dataset.LeRobotDataset("test/v21_images", root=folders["v21_images"]).meta.stats
    plain = {name: {kind: np.asarray(value).tolist() for kind, value in own.items()} for name, own in stats.items()}
    (meta / "stats.json").write_text(json.dumps(plain, indent=4))
    return folders


def windows(folder):
    """What a policy with two observed and eight predicted steps trains on at every step."""
    action = [i / 10 for i in range(-1, 7)]
    dataset = lerobot_dataset.LeRobotDataset(
        "test/windows", root=folder, delta_timestamps={"observation.state": [-0.1, 0.0], "action": action})
    items = [dataset[i] for i in range(sum(LENGTHS))]
    return {f"windows/{name}": torch.stack([item[name] for item in items]).numpy()
            for name in ("action", "observation.state")} | {
        "windows/action_is_pad": torch.stack([item["action_is_pad"] for item in items]).to(torch.uint8).numpy()}


def files_of_pillow():
    """A JPEG file with the usual chroma subsampling and a PNG file of 16 bits, and their pixels as Pillow decodes them."""
    jpeg, png = io.BytesIO(), io.BytesIO()
    PIL.Image.fromarray(image(3, 0)).save(jpeg, format="JPEG", quality=90)
    PIL.Image.fromarray(depth(3, np.uint16)[..., 0]).save(png, format="PNG")
    return {"jpeg/file": np.frombuffer(jpeg.getvalue(), np.uint8),
            "jpeg/pixels": np.asarray(PIL.Image.open(jpeg).convert("RGB")),
            "png16/file": np.frombuffer(png.getvalue(), np.uint8),
            "png16/pixels": np.asarray(PIL.Image.open(png)).astype(np.uint16)}


def main():
    tensors, metadata = files_of_pillow() if VERSION == "v30" else {}, {"lerobot": importlib.metadata.version("lerobot")}
    for name, folder in (write_v21() if VERSION == "v21" else write_v30()).items():
        if name != "v20_images":  # LeRobot 0.3 reads it like version 2.1
            collect(name, folder, tensors, metadata)
    if VERSION == "v30":
        tensors |= windows(DATA / "v30_av1")
    save_file(dict(sorted(tensors.items())), TESTS / "golden" / f"lerobot_{VERSION}.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
