#!/usr/bin/env bash
# The policy in examples/ is built against an installation, keeps its contract, and trains on numbers and images of an
# HDF5 file.
# Usage: examples.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
root=$(readlink -f "$2/..")
build=$3
enter_scratch_folder

prefix="$work/an installation"
install_dp_bench "$build" "$prefix"
dp_bench=$prefix/bin/dp_bench

cp -r "$root/examples/behaviour_cloning" .
build_project "$prefix" behaviour_cloning behaviour_cloning/build
echo "behaviour_cloning keeps its contract"
expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir behaviour_cloning/build

echo "it trains on numbers and images of an HDF5 file"
"$dp_bench" collect --env point_mass env.params.image_size=12 --episodes 11 --output demonstrations.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"
"$dp_bench" dataset convert demonstrations.zarr demonstrations.hdf5 --format hdf5 >convert.txt 2>&1 || fail "$(cat convert.txt)"
expect_exit 0 "trained 3 steps" "$dp_bench" train --plugin-dir behaviour_cloning/build/plugins --env point_mass env.params.image_size=12 \
  --policy behaviour_cloning --dataset demonstrations.hdf5 training.max_train_steps=3 training.num_epochs=1 \
  training.lr_warmup_steps=1 dataloader.batch_size=16 --output trained
