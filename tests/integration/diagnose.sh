#!/usr/bin/env bash
# dp_bench diagnose: on a config, on a run and on a checkpoint, as text and as JSON; bad input.
# Usage: diagnose.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
task=(--policy unet_hybrid --env point_mass --config-dir "$configs" 'policy.params.down_dims=[32,64]'
      collect.n_episodes=40 dataloader.batch_size=64 training.lr_warmup_steps=20 optimizer.lr=2e-3)

echo "a healthy config has no problem"
expect_exit 0 "no problem found" "$dp_bench" diagnose "${task[@]}"

echo "a faulty one is named, with its config key"
expect_exit 1 "learning.lr_too_high" "$dp_bench" diagnose "${task[@]}" optimizer.lr=0.5
grep -q "\[optimizer.lr\]" out.txt || fail "the key is missing: $(cat out.txt)"

echo "the same as JSON"
status=0
"$dp_bench" diagnose "${task[@]}" optimizer.lr=0.5 --json >found.json 2>errors.txt || status=$?
[ "$status" -eq 1 ] || fail "ended with $status: $(cat errors.txt)"
python3 - <<'PYTHON' || fail "$(cat found.json)"
import json
found = json.load(open("found.json"))
confirmed = {f["id"]: f for f in found["findings"] if f["verdict"] == "CONFIRMED"}
assert found["n_problems"] >= 1 and confirmed["learning.lr_too_high"]["config_key"] == "optimizer.lr"
assert {f["verdict"] for f in found["findings"]} <= {"CONFIRMED", "REJECTED", "INCONCLUSIVE"}
PYTHON

echo "a policy of demonstrations alone has no env"
"$dp_bench" collect --env point_mass --config-dir "$configs" collect.n_episodes=40 --output alone.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"
expect_exit 0 "no problem found" "$dp_bench" diagnose --policy unet_hybrid --dataset alone.zarr --config-dir "$configs" \
  'policy.params.down_dims=[32,64]' dataloader.batch_size=64 training.lr_warmup_steps=20 optimizer.lr=2e-3

echo "a run that was stopped before it learned anything"
"$dp_bench" train "${task[@]}" --output run training.num_epochs=1 training.max_train_steps=2 \
  training.rollout_every=0 >train.txt 2>&1 || fail "$(cat train.txt)"
expect_exit 1 "weights.untrained" "$dp_bench" diagnose --run run --html page.html --markdown report.md
expect_exit 1 "weights.untrained" "$dp_bench" diagnose --checkpoint run/checkpoints/latest
grep -q "rollout.unseen_states" out.txt || fail "it was not rolled out: $(cat out.txt)"
expect_exit 1 "weights.untrained" "$dp_bench" diagnose --checkpoint run/checkpoints/latest --rollouts 0
if grep -q "rollout.unseen_states" out.txt; then fail "it was rolled out: $(cat out.txt)"; fi

echo "where its 40 demonstrations are missing, 24 are collected, and their smaller ranges are no fault"
mkdir elsewhere
cd elsewhere
expect_exit 1 "24 of the 40 episodes that it was trained on are enough" \
  "$dp_bench" diagnose --checkpoint ../run/checkpoints/latest --rollouts 0
grep -q "dataset: .*, 24 episodes" out.txt || fail "$(cat out.txt)"
grep -q "REJECTED     normalizer.wrong_statistics" out.txt || fail "$(cat out.txt)"
grep -q "the values of .* keys lie in the fitted range" out.txt || fail "$(cat out.txt)"
expect_exit 1 "dataset: .*, 30 episodes" \
  "$dp_bench" diagnose --checkpoint ../run/checkpoints/latest --rollouts 0 collect.n_episodes=30
cd ..

echo "its report, as a page and as Markdown"
for part in Summary "Hypothesis A" "Hypothesis F" "Key findings" "Points to watch" Advice Conclusion "unet.*hybrid on point.*mass"; do
  grep -q "$part" page.html || fail "the page lacks '$part'"
  grep -q "$part" report.md || fail "the Markdown lacks '$part'"
done
grep -q "<polyline" page.html || fail "the page has no plot"
grep -q '"train_predicted_x0_std"' run/logs.json.txt || fail "the log has no ranges: $(head -c 600 run/logs.json.txt)"
grep -q "log, first tenth" report.md || fail "the log is not in the tables"

echo "what its sampling does, with the dataset and without"
expect_exit 1 "sampling.no_better_than_mean" "$dp_bench" diagnose --sampling run
grep -q "recorded observations" out.txt || fail "not for recorded observations: $(cat out.txt)"
grep -q "limits maps the actions to \[-1, 1\]; predictions are clipped to +-1, which cuts none" out.txt ||
  fail "no clip range in normalized units: $(cat out.txt)"
status=0
"$dp_bench" diagnose --sampling --json run/checkpoints/latest dataset.plugin=zarr_replay \
  dataset.params.path=nowhere >sampling.json 2>errors.txt || status=$?
[ "$status" -le 1 ] || fail "ended with $status: $(cat errors.txt)"
python3 - <<'PYTHON' || fail "$(cat sampling.json)"
import json
sampling = json.load(open("sampling.json"))
assert sampling["error"] is None and sampling["n_chunks"] == 8
steps = sampling["steps"]
assert [s["timestep"] for s in steps] == list(range(90, -1, -10)), steps
assert steps[0]["n_clipped"] > 0 and steps[-1]["x_0_max"] <= 1.0 and steps[-1]["x_0_change"] > 0.0
ids = {f["id"] for f in sampling["findings"]}
assert {"sampling.out_of_range", "sampling.many_clipped", "sampling.clip_range_wide"} <= ids, ids
PYTHON
expect_exit 2 "--rollouts excludes --sampling" "$dp_bench" diagnose --sampling run --rollouts 2
expect_exit 2 "with its own config; found --config run/config.json" "$dp_bench" diagnose --sampling run --config run/config.json
expect_exit 2 "with its own config" "$dp_bench" diagnose --run run --config run/config.json
expect_exit 2 "needs a checkpoint" "$dp_bench" diagnose --sampling --policy unet_hybrid --env point_mass

echo "bad input"
expect_exit 2 "nothing to run" "$dp_bench" diagnose
expect_exit 2 "nowhere" "$dp_bench" diagnose --run nowhere
expect_exit 2 "the dataset does not fit shape_meta: 'agent_pos' differs" "$dp_bench" diagnose --policy unet_hybrid \
  --dataset alone.zarr --config-dir "$configs" 'shape_meta.obs.agent_pos.shape=[3]'
: >run/checkpoints/latest/ema.safetensors
expect_exit 6 "ema.safetensors" "$dp_bench" diagnose --run run
