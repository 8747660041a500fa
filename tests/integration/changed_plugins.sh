#!/usr/bin/env bash
# A plugin that is another file than in the training, in the other run or in the collection is named; episodes of two
# builds of an env never get into one dataset. Also: a run folder is as good as a checkpoint.
# Usage: changed_plugins.sh <dp_bench program> <configs folder> <folder with libdpb_env_faulty.so>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
enter_scratch_folder
mkdir plugins
cp "$3/libdpb_env_faulty.so" plugins
cat >config.json <<JSON
{"name": "faulty", "env": {"plugin": "faulty"}, "policy": {"plugin": "constant_action"},
 "collect": {"n_episodes": 3, "start_seed": 7, "keep_failures": true}, "dataloader": {"batch_size": 4},
 "env_runner": {"n_train": 0, "n_test": 2, "n_videos": 0},
 "training": {"num_epochs": 1, "max_train_steps": 1, "rollout_every": 0}}
JSON
with=(--config-dir "$2" --plugin-dir plugins)
train=("$dp_bench" train --config config.json "${with[@]}" --output)
evaluate=("$dp_bench" eval --checkpoint trained --plugin-dir plugins --output)
collect=("$dp_bench" collect --config config.json "${with[@]}" --output kept.zarr --episodes)
silent() { ! grep -q "changed since" out.txt || fail "it warns of the same plugin: $(cat out.txt)"; }

echo "the same plugins are no reason for a warning, and a run folder is a checkpoint"
expect_exit 0 "trained 1 steps" "${train[@]}" trained
expect_exit 0 "" "${evaluate[@]}" same
silent
expect_exit 0 "3 episodes" "${collect[@]}" 3
expect_exit 0 "collected before" "${train[@]}" again
silent

echo "another build of the env is named by eval, by compare, and where its dataset is used"
echo >>plugins/libdpb_env_faulty.so  # the library stays what it is
expect_exit 0 "the env plugin 'faulty' changed since the training: version 0.1.0, sha256" "${evaluate[@]}" other
expect_exit 0 "ran different builds of the env plugin" "$dp_bench" compare same other
expect_exit 0 "the env plugin 'faulty' changed since it collected data/faulty" "${train[@]}" changed
expect_exit 0 "the env plugin 'faulty' changed since it collected kept.zarr" "${collect[@]}" 3

echo "and its episodes are not added to those of the first"
expect_exit 2 "holds 3 episodes of another build of the env plugin" "${collect[@]}" 4
cp "$3/libdpb_env_faulty.so" plugins
expect_exit 0 "4 episodes" "${collect[@]}" 4
