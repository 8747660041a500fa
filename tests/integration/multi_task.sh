#!/usr/bin/env bash
# One policy for several tasks: a mixture of datasets, the task key in training and rollouts, an interruption, what is
# refused.
# Usage: multi_task.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
export OMP_NUM_THREADS=1

for task in near far; do
  "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes $([ $task = near ] && echo 3 || echo 6) \
    --output $task.zarr collect.start_seed=$([ $task = near ] && echo 10 || echo 500) >out.txt 2>&1 || fail "$(cat out.txt)"
done
small=(policy.params.n_layer=1 policy.params.n_head=2 policy.params.n_emb=16 policy.params.task_embed_dim=4
       training.num_epochs=3 training.max_train_steps=4 training.lr_warmup_steps=2 training.rollout_every=0 training.sample_every=1
       dataloader.batch_size=16 dataset.val_ratio=0.2 env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0
       env_runner.micro_batch=2 env_runner.max_steps=12)
mixture=(dataset.mixture.datasets.near.path=near.zarr dataset.mixture.datasets.far.path=far.zarr
         dataset.mixture.sampling=balanced)
train=("$dp_bench" train --config-dir "$configs" --policy transformer --env point_mass "${small[@]}")
tasks='task_key.tasks=["near","far"]'

echo "the task key enters shape_meta, and the data have it"
"${train[@]}" --output run name=near "$tasks" "${mixture[@]}" >out.txt 2>&1 || fail "$(cat out.txt)"
python3 - <<'PYTHON' || fail "$(cat run/config.json)"
import json
config = json.load(open("run/config.json"))
assert config["shape_meta"]["obs"]["task"] == {"dtype": "float32", "shape": [2], "type": "task"}, config["shape_meta"]
plugins = [(p["kind"], p["name"]) for p in json.load(open("run/manifest.json"))["plugins"]]
assert ("dataset", "zarr_replay") in plugins, plugins
PYTHON

echo "the same checkpoint is evaluated in each task"
for task in near far; do
  "$dp_bench" eval --checkpoint run --output eval_$task name=$task >out.txt 2>&1 || fail "$(cat out.txt)"
done
[ "$(hashes eval_near)" != "$(hashes eval_far)" ] || fail "the task changed no episode"
expect_exit 2 "the env's task is 'fur', which is none of its tasks; did you mean 'far'" "$dp_bench" eval --checkpoint run --output x name=fur

echo "a training that was interrupted and resumed has the weights of one that was not"
"${train[@]}" --output parts name=near "$tasks" "${mixture[@]}" training.max_minutes=0.0001 >out.txt 2>&1 || fail "$(cat out.txt)"
more_minutes() { python3 -c 'import json; print(json.load(open("parts/checkpoints/latest/state.json"))["seconds"] / 60 + 0.0001)'; }
for i in $(seq 100); do
  "$dp_bench" train --resume parts "training.max_minutes=$(more_minutes)" >out.txt 2>&1 || fail "$(cat out.txt)"
  ! grep -q "nothing left to train" out.txt || break
done
[ "$i" -gt 5 ] || fail "the training was interrupted $i times"
cmp {run,parts}/checkpoints/latest/model.safetensors || fail "the resumed training differs"

echo "a single dataset has the task of the config"
"${train[@]}" --output one name=far "$tasks" --dataset far.zarr >out.txt 2>&1 || fail "$(cat out.txt)"

echo "each task's expert collects a dataset"
"$dp_bench" run --config-dir "$configs" --policy act --env kuavo_dualarm --task pick_place \
  'shape_meta.obs={"observation.state": {"shape": [16]}}' 'task_key.tasks=["pick_place","weigh_relay"]' \
  'dataset.mixture.tasks=["weigh_relay","pick_place"]' policy.params.dim_model=24 horizon=8 n_action_steps=8 \
  temporal_ensemble_coeff=null env_runner.max_steps=20 dataloader.batch_size=8 val_dataloader.batch_size=8 --dry-run \
  >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q "collecting 2 episodes of kuavo_dualarm_weigh_relay with its expert" out.txt || fail "$(cat out.txt)"
grep -q "every part works" out.txt || fail "$(cat out.txt)"

echo "what is refused"
expect_exit 2 "task_key: expected tasks, vectors or file" "${train[@]}" --output x name=near task_key.tasks=[] "${mixture[@]}"
expect_exit 2 "the task of episode 0 of 'far' is 'far', which is none" "${train[@]}" --output x name=near 'task_key.tasks=["near"]' "${mixture[@]}"
expect_exit 2 "section task_key" "${train[@]}" --output x name=near 'shape_meta.obs.task={"type": "task", "shape": [2]}' "${mixture[@]}"
expect_exit 2 "expected none beside dataset.mixture" "${train[@]}" --output x name=near --dataset near.zarr "$tasks" "${mixture[@]}"
expect_exit 2 "dataset.mixture.datasets.near.pth" "${train[@]}" --output x name=near "$tasks" "${mixture[@]}" \
  dataset.mixture.datasets.near.pth=near.zarr
[ ! -e x ] || fail "a refused command made a folder"
