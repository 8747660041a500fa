#!/usr/bin/env bash
# Trains this policy again, in four steps: demonstrations, a first policy, the expert's way out of its mistakes, and the
# policy of this folder, which learns on from the first one. Run it again after an interruption, and it continues.
# Usage: models/kuavo_weigh_relay_rgbd_fusion/train.sh [FOLDER]      datasets and runs; default runs/weigh_relay_rgbd
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
folder=${1:-runs/weigh_relay_rgbd}
dp_bench=build/release/bin/dp_bench
config=configs/experiment/kuavo_weigh_relay_rgbd_small.json
# the images take 20 GB; those beyond this limit are read again and again, which takes longer and changes nothing
memory_mb=$(awk '/MemAvailable/ {print int($2 / 2048)}' /proc/meminfo)

run() {  # run FOLDER ARGUMENTS...: or continues it
  if [ -e "$1/config.json" ]; then
    "$dp_bench" run --resume "$1"
  else
    "$dp_bench" run --config "$config" --output "$1" training.seed=42 "dataset.params.memory_limit_mb=$memory_mb" "${@:2}"
  fi
}

"$dp_bench" collect --config "$config" --output "$folder/demonstrations.zarr"
run "$folder/first" --dataset "$folder/demonstrations.zarr"
"$dp_bench" collect --config "$config" --output "$folder/corrections.zarr" --episodes 350 collect.start_seed=2000000 \
  "collect.takeover={\"checkpoint\": \"$folder/first/checkpoints/latest\", \"max_steps\": 160}"
[ -e "$folder/both.zarr" ] ||
  "$dp_bench" dataset merge "$folder/demonstrations.zarr" "$folder/corrections.zarr" --output "$folder/both.zarr"
run "$folder/second" --dataset "$folder/both.zarr" training.num_epochs=7 training.rollout_every=0 optimizer.lr=5e-4 \
  "training.init_checkpoint={\"path\": \"$folder/first/checkpoints/latest\", \"normalizer\": true}"
