"""HDF5 files of other programs are read as h5py reads them, and other programs find what they need in ours.

    python tests/integration/hdf5_datasets.py <dp_bench program>

Needs h5py, numpy and zarr 2. Every file is converted to zarr and compared there.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import zarr

PROGRAM = os.path.abspath(sys.argv[1])


def run(*arguments, code=0, text=""):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    output = result.stdout + result.stderr
    assert result.returncode == code and text in output, (arguments, result.returncode, output)
    return output


def write_demos(path, lengths=(5, 3, 4), with_lengths=True, chw=False, number="<f4", rate=20, **packed):
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": rate} if rate else {}})
        for i, length in enumerate(lengths):
            demo = data.create_group(f"demo_{i}")
            images = rng.integers(0, 256, (length, 16, 20, 3), dtype=np.uint8)
            for name, values in {
                    "actions": rng.normal(size=(length, 7)),
                    "obs/pose": rng.normal(size=(length, 3)).astype(number),
                    "obs/image": images.transpose(0, 3, 1, 2) if chw else images,
                    "rewards": np.zeros(length), "states": np.zeros((length, 9))}.items():
                demo.create_dataset(name, data=values, **packed)
            if with_lengths:
                demo.attrs["num_samples"] = length


def expect_equal(path, chw=False):
    """The steps of all demonstrations, in the order of their numbers."""
    run("dataset", "convert", path, "out.zarr", "--format", "zarr")
    found = zarr.open("out.zarr", "r")
    with h5py.File(path) as file:
        demos = sorted(file["data"], key=lambda name: int(name[5:]))
        lengths = [len(file[f"data/{demo}/actions"]) for demo in demos]
        assert found["meta/episode_ends"][:].tolist() == np.cumsum(lengths).tolist()
        assert sorted(found["data"]) == ["action", "image", "pose"], list(found["data"])
        for key, array in {"action": "actions", "image": "obs/image", "pose": "obs/pose"}.items():
            wanted = np.concatenate([file[f"data/{demo}/{array}"][:] for demo in demos])
            if key == "image":
                wanted = wanted.transpose(0, 2, 3, 1) if chw else wanted
            else:
                wanted = wanted.astype(np.float32)
            assert np.array_equal(found[f"data/{key}"][:], wanted), (path, key)
    assert found.attrs["fps"] == 20
    subprocess.run(["rm", "-r", "out.zarr"], check=True)


def read_variants():
    for name, options in {
            "plain.hdf5": {}, "gzip.hdf5": {"compression": "gzip", "shuffle": True},
            "lzf.hdf5": {"compression": "lzf", "shuffle": True},
            "deep.hdf5": {"compression": "gzip", "number": ">f8", "chunks": True, "lengths": (40, 3)}, "chunked.hdf5": {"chunks": True},
            "many.hdf5": {"lengths": range(1, 13)}, "counted.hdf5": {"with_lengths": False}, "chw.hdf5": {"chw": True},
            "big_endian.hdf5": {"number": ">f8"}, "half.hdf5": {"number": "<f2"}, "integers.hdf5": {"number": "<i8"},
            "any_name": {}}.items():
        write_demos(name, **options)
        expect_equal(name, chw=options.get("chw", False))
    os.mkdir("several")
    write_demos("several/task_2.hdf5")
    write_demos("several/task_10.hdf5", lengths=(2,))
    assert "4 episodes, 14 steps, 20 Hz" in run("dataset", "info", "several")


def warn_and_refuse():
    def changed(change, *arguments, **options):
        write_demos("changed.hdf5")
        with h5py.File("changed.hdf5", "a") as file:
            change(file)
        return run("dataset", "info", "changed.hdf5", *arguments, **options)

    def add(name, values):
        def change(file):
            for demo in file["data"].values():
                demo[f"obs/{name}"] = np.resize(values, (len(demo["actions"]), *np.shape(values)[1:]))
        return change

    def remove(path):
        def change(file):
            del file[path]
        return change

    changed(add("names", np.array(["a"], "S4")), text="obs/names (it holds texts)")
    changed(add("pair", np.zeros(1, [("a", "f4"), ("b", "i4")])), text="obs/pair (it holds a compound type)")
    changed(add("masks", np.zeros((1, 16, 20, 1), np.uint8)), text="obs/masks (images with 1 channel")
    changed(remove("data/demo_1/actions"), text="without an array 'actions' (1): data/demo_1")
    changed(remove("data/demo_1/obs/pose"), code=6, text="/data/demo_1/obs/pose: expected an array")
    assert "is_open" in changed(add("is_open", np.array([True])))
    run("dataset", "info", "changed.hdf5")

    def lengthen(file):
        file["data/demo_1"].attrs["num_samples"] = 9
    changed(lengthen, code=6, text="expected 9 steps, as num_samples of the demonstration says, found 3")

    write_demos("checked.hdf5", fletcher32=True)
    run("dataset", "info", "checked.hdf5", code=6, text="compressed with filter 3 (fletcher32), which is not read")
    write_demos("empty.hdf5", lengths=(4, 0, 2))
    assert "1 of 3 episodes have no steps" in run("dataset", "info", "empty.hdf5", text="2 episodes, 6 steps")
    write_demos("no_rate.hdf5", rate=None)
    assert "rate unknown" in run("dataset", "info", "no_rate.hdf5")
    run("dataset", "convert", "no_rate.hdf5", "no_rate_copy.hdf5")
    assert "rate unknown" in run("dataset", "info", "no_rate_copy.hdf5")
    run("dataset", "convert", "no_rate.hdf5", "with_rate.hdf5", "--fps", 50)
    assert ", 50 Hz" in run("dataset", "info", "with_rate.hdf5")
    content = pathlib.Path("plain.hdf5").read_bytes()
    pathlib.Path("cut.hdf5").write_bytes(content[:len(content) // 2])
    run("dataset", "info", "cut.hdf5", code=6, text="libhdf5 says: truncated file")
    os.mkfifo("fifo.hdf5")
    assert "zip" not in run("dataset", "info", "fifo.hdf5", code=6)


def write_for_others():
    """What robomimic's SequenceDataset and ACT's EpisodicDataset read."""
    write_demos("source.hdf5")
    run("dataset", "convert", "source.hdf5", "copy.hdf5", "--format", "hdf5", "--param", "gzip=4")
    with h5py.File("copy.hdf5") as file, h5py.File("source.hdf5") as source:
        demos = sorted(file["data"], key=lambda name: int(name[5:]))
        assert json.loads(file["data"].attrs["env_args"])["env_kwargs"]["control_freq"] == 20
        assert file["data"].attrs["total"] == 12
        assert [file["data"][demo].attrs["num_samples"] for demo in demos] == [5, 3, 4]
        for demo in demos:
            for array in ("actions", "obs/pose", "obs/image"):
                values = file[f"data/{demo}/{array}"][()]
                assert np.array_equal(values, source[f"data/{demo}/{array}"][()].astype(values.dtype)), array
    expect_equal("copy.hdf5")

    run("dataset", "convert", "source.hdf5", "act", "--format", "hdf5", "--param", "layout=act", "--param",
        'names={"pose": "qpos"}', text="ACT's own programs read observations/qvel")
    assert sorted(os.listdir("act")) == [f"episode_{i}.hdf5" for i in range(3)]
    with h5py.File("act/episode_1.hdf5") as file, h5py.File("source.hdf5") as source:
        assert not file.attrs["sim"] and not file.attrs.get("compress", False)
        for array, wanted in {"action": "actions", "observations/qpos": "obs/pose",
                              "observations/images/image": "obs/image"}.items():
            assert np.array_equal(file[array][()], source[f"data/demo_1/{wanted}"][()].astype(file[array].dtype)), array
    run("dataset", "convert", "act", "back.hdf5", "--format", "hdf5", "--param", 'names={"qpos": "pose"}')
    assert ", 20 Hz" in run("dataset", "info", "act")
    expect_equal("back.hdf5")

    run("dataset", "split", "source.hdf5", "train.hdf5", "val.hdf5", "--val-ratio", "0.3")
    run("dataset", "merge", "train.hdf5", "val.hdf5", "--output", "merged.hdf5")
    assert "hdf5, 3 episodes, 12 steps" in run("dataset", "info", "merged.hdf5")
    run("dataset", "convert", "source.hdf5", "copy.hdf5", "--format", "hdf5", code=2, text="copy.hdf5 exists")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        read_variants()
        warn_and_refuse()
        write_for_others()


if __name__ == "__main__":
    main()
