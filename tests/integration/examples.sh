#!/usr/bin/env bash
# The plugins in examples/ are built against an installation, keep their contracts, and train together. The HDF5 reader
# gives what h5py wrote, and explains damaged files.
# Usage: examples.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
root=$(readlink -f "$2/..")
build=$3
pkg-config --exists hdf5 || { echo "SKIPPED: no libhdf5; scripts/setup.sh installs it"; exit 77; }
for python in "$root/.venv/bin/python" python3 ""; do
  [ -n "$python" ] || { echo "SKIPPED: no Python with h5py; scripts/setup.sh installs it"; exit 77; }
  ! "$python" -c "import h5py" 2>/dev/null || break
done
enter_scratch_folder

prefix="$work/an installation"
install_dp_bench "$build" "$prefix"
dp_bench=$prefix/bin/dp_bench

for example in robomimic_reader behaviour_cloning; do
  cp -r "$root/examples/$example" .
  [ ! -f "$example/make_demonstrations.py" ] ||
    "$python" "$example/make_demonstrations.py" "$example/demonstrations.hdf5" --episodes 11 --image-size 12
  build_project "$prefix" "$example" "$example/build"
  echo "$example keeps its contract"
  expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir "$example/build"
done

both=(--plugin-dir robomimic_reader/build/plugins --plugin-dir behaviour_cloning/build/plugins --env point_mass_robomimic)
demonstrations=robomimic_reader/demonstrations.hdf5
inspect() {  # inspect FILE OVERRIDES...
  "$dp_bench" inspect "${both[@]}" --json dataset.params.path="$1" "${@:2}"
}

echo "the reader gives what h5py wrote, in the order of the demonstrations' numbers"
# exit code 1: it finds episodes that are shorter than the horizon
inspect "$demonstrations" 'dataset.params.obs=[]' >all.json || [ $? -eq 1 ] || fail "$(cat all.json)"
inspect "$demonstrations" dataset.params.filter_key=valid >valid.json || [ $? -eq 1 ] || fail "$(cat valid.json)"
"$python" - "$demonstrations" <<'PYTHON' || fail "the data differ"
import json, sys
import h5py, numpy as np

def compare(shown, data, demos):
    lengths = [len(data[demo]["actions"]) for demo in demos]
    assert shown["episode_lengths"] == lengths, (shown["episode_lengths"], lengths)
    for key in shown["keys"]:
        path = "actions" if key["name"] == "action" else "obs/" + key["name"]
        values = np.concatenate([data[demo][path][:] for demo in demos]).astype(np.float64)
        if values.ndim == 4:  # of each colour
            values = values.reshape(-1, 3)
        for name in ("min", "max", "mean"):
            expected = getattr(values, name)(axis=0)
            assert np.allclose(np.ravel(key["stats"][name]), expected, atol=1e-6), (key["name"], name, key["stats"], expected)

with h5py.File(sys.argv[1]) as file:
    everything = json.load(open("all.json"))
    assert [key["name"] for key in everything["keys"]] == ["action", "agent_pos", "goal", "image"], everything["keys"]
    compare(everything, file["data"], [f"demo_{i}" for i in range(11)])
    compare(json.load(open("valid.json")), file["data"], ["demo_0"])
PYTHON

echo "the policy trains on numbers and pictures of the file"
expect_exit 0 "trained 3 steps" "$dp_bench" train "${both[@]}" --policy behaviour_cloning --obs image \
  dataset.params.path="$demonstrations" dataset.params.filter_key=train env.params.image_size=12 training.max_train_steps=3 \
  training.num_epochs=1 training.lr_warmup_steps=1 dataloader.batch_size=16 --output trained

expect_fault() {  # expect_fault MESSAGE PYTHON: the file that Python makes of `file` (h5py) or `path`
  cp "$demonstrations" fault.hdf5
  "$python" - "$2" <<'PYTHON'
import os, sys
import h5py, numpy as np
path = "fault.hdf5"
if "path" in sys.argv[1]:
    exec(sys.argv[1])
else:
    with h5py.File(path, "a") as file:
        demo = file["data/demo_1"]
        exec(sys.argv[1])
PYTHON
  expect_exit 6 "fault.hdf5$1" inspect fault.hdf5 'dataset.params.obs=[]' dataset.params.filter_key=train
}

echo "a damaged file is named with the place and what was expected"
expect_fault ": expected a complete HDF5 file; libhdf5 says: truncated file" 'os.truncate(path, os.path.getsize(path) // 2)'
expect_fault ": expected a complete HDF5 file; libhdf5 says: file signature not found" 'open(path, "w").write("text")'
expect_fault ", mask/train: expected a group or array, found nothing" 'del file["mask/train"]'
expect_fault ", mask/train: expected a list of strings of fixed length" 'del file["mask/train"]; file["mask/train"] = ["demo_1"]'
expect_fault ", data/demo_77/obs: expected a group or array, found nothing" \
  'del file["mask/train"]; file["mask/train"] = np.array(["demo_77"], dtype="S")'
expect_fault ", data/demo_1: expected the attribute 'num_samples', found none" 'del demo.attrs["num_samples"]'
expect_fault ", data/demo_1/obs/goal: expected [0-9]* steps, as num_samples of the demonstration says, found 2" \
  'del demo["obs/goal"]; demo["obs/goal"] = np.zeros((2, 2))'
expect_fault ", data/demo_1/dones: expected [0-9]* steps" 'del demo["dones"]; demo["dones"] = np.zeros(2)'
expect_fault ", data/demo_1/actions: expected float32 or float64 \[N, Da\], found int64 \[2, 2\]" \
  'del demo["actions"]; demo["actions"] = np.zeros((2, 2), np.int64)'
expect_fault ", data/demo_2/actions: expected steps of float32 \[2\], as in demo_1, found float32 \[3\]" \
  'n = file["data/demo_2"].attrs["num_samples"]; del file["data/demo_2/actions"]; file["data/demo_2/actions"] = np.zeros((n, 3))'
expect_fault ", data/demo_1/obs/image: .* found float32 \[2, 4, 4, 1\]; name the observations" \
  'del demo["obs/image"]; demo["obs/image"] = np.zeros((2, 4, 4, 1), np.float32)'
expect_fault ", data/demo_1/actions: expected data, found a link" \
  'del demo["actions"]; demo["actions"] = h5py.ExternalLink("other.hdf5", "/actions")'
expect_fault ", data/demo_1/actions: expected data, found a reference to other files" \
  'n = demo.attrs["num_samples"]; del demo["actions"]; demo.create_dataset("actions", (n, 2), "f8", external=[("other.raw", 0, n * 16)])'
expect_fault ", data/demo_1/actions: expected data for its shape, found only 0 bytes" \
  'del demo["actions"]; demo.create_dataset("actions", (10**9, 2), "f8", chunks=(1000, 2)); demo.attrs["num_samples"] = 10**9'
expect_fault ", data/demo_1/actions: expected chunks of at most 256 MiB" \
  'del demo["actions"]; demo.create_dataset("actions", (10**8, 2), "f8", chunks=(10**8, 2)); demo.attrs["num_samples"] = 10**8'
