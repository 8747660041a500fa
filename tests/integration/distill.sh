#!/usr/bin/env bash
# dp_bench distill: a student of a trained policy, interrupted and resumed; its evaluation without the teacher; errors.
# Usage: distill.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
export OMP_NUM_THREADS=1

echo "a teacher that predicts noise, and its student"
"$dp_bench" train --config-dir "$configs" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]" \
  policy.params.n_groups=4 collect.n_episodes=4 training.num_epochs=2 training.lr_warmup_steps=2 \
  training.rollout_every=0 training.checkpoint_every=1 dataset.val_ratio=0.3 dataloader.batch_size=32 \
  policy.params.loss_weighting=min_snr env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0 \
  env_runner.micro_batch=2 env_runner.max_steps=12 --output teacher >train.txt 2>&1 || fail "$(cat train.txt)"
"$dp_bench" distill --checkpoint teacher --output student training.num_epochs=3 >distill.txt 2>&1 ||
  fail "$(cat distill.txt)"
python3 - <<'PYTHON' || fail "$(cat student/config.json)"
import json, pathlib
config = json.loads(pathlib.Path("student/config.json").read_text())
params = config["policy"]["params"]
assert params["objective"] == "consistency" and params["noise_scheduler"]["prediction_type"] == "v_prediction"
assert pathlib.Path(config["training"]["teacher"]["path"]).is_absolute() and config["ema"]["max_value"] == 0.99
assert config["policy"]["params"]["down_dims"] == [16, 32]
PYTHON
grep -q '"val_loss"' student/logs.json.txt || fail "the student has no validation loss"
cmp teacher/checkpoints/latest/normalizer.safetensors student/checkpoints/latest/normalizer.safetensors ||
  fail "the student has another normalizer"

echo "stopped after two of three epochs and resumed, it has the same weights"
"$dp_bench" distill --checkpoint teacher --output stopped training.num_epochs=3 training.max_minutes=1e-9 >out.txt 2>&1 ||
  fail "$(cat out.txt)"
"$dp_bench" train --resume stopped training.max_minutes=null >out.txt 2>&1 || fail "$(cat out.txt)"
for file in model ema; do
  cmp "student/checkpoints/latest/$file.safetensors" "stopped/checkpoints/latest/$file.safetensors" ||
    fail "$file differs after the resume"
done

echo "it plans in one and in two evaluations, without its teacher"
mv teacher elsewhere
for n in 1 2; do
  "$dp_bench" eval --checkpoint student --output "eval_$n" "policy.params.consistency.num_inference_steps=$n" \
    >eval.txt 2>&1 || fail "$(cat eval.txt)"
  [ "$(network_calls_per_chunk "eval_$n")" = "$n" ] || fail "not $n evaluations"
done
"$dp_bench" export --checkpoint student --output small >out.txt 2>&1 || fail "$(cat out.txt)"
"$dp_bench" eval --checkpoint small --output eval_small >out.txt 2>&1 || fail "$(cat out.txt)"
cmp <(cut -d, -f1-6 eval_1/episodes.jsonl) <(cut -d, -f1-6 eval_small/episodes.jsonl) || fail "the export acts differently"

echo "what cannot be distilled"
expect_exit 2 "expected a policy with objective diffusion, found consistency" \
  "$dp_bench" distill --checkpoint student --output refused
expect_exit 2 "noise_scheduler.type: expected ddim" \
  "$dp_bench" distill --checkpoint elsewhere --output refused policy.params.noise_scheduler.type=ddpm
expect_exit 2 "training.use_ema: expected true" \
  "$dp_bench" distill --checkpoint elsewhere --output refused training.use_ema=false
expect_exit 2 "expected the noise schedule of policy.params.noise_scheduler" \
  "$dp_bench" distill --checkpoint elsewhere --output refused policy.params.noise_scheduler.beta_schedule=linear
"$dp_bench" train --config-dir "$configs" --policy act --env point_mass policy.params.dim_model=16 policy.params.n_heads=2 \
  training.max_train_steps=1 training.rollout_every=0 --output act >out.txt 2>&1 || fail "$(cat out.txt)"
expect_exit 2 "expected a policy with objective diffusion, found policy act" \
  "$dp_bench" distill --checkpoint act --output refused
[ ! -e refused ] || fail "a refused distillation left a folder"
