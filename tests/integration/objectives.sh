#!/usr/bin/env bash
# Every objective with every network, from training to the report; the sampler changed at evaluation; the tools on
# policies that are no diffusion; settings that are refused.
# Usage: objectives.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
export OMP_NUM_THREADS=1

task=(--env point_mass --config-dir "$configs" collect.n_episodes=4 dataset.val_ratio=0.3 training.num_epochs=2
      training.max_train_steps=4 training.lr_warmup_steps=2 training.rollout_every=0 training.sample_every=1
      dataloader.batch_size=8 val_dataloader.batch_size=8 env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0
      env_runner.micro_batch=2 env_runner.max_steps=12 logging.ranges_every=1)
unet=(--policy unet_hybrid "policy.params.down_dims=[16,32]" policy.params.n_groups=4)
transformer=(--policy transformer policy.params.n_layer=2 policy.params.n_emb=24)

run() {  # run NAME ARGUMENTS...
  local name=$1
  shift
  "$dp_bench" run "${task[@]}" --output "$name" "$@" >"$name.txt" 2>&1 || fail "$name: $(cat "$name.txt")"
  [ "$(wc -l <"$name/episodes.jsonl")" -eq 2 ] || fail "$name: expected 2 episodes"
  ! grep -q '"failure_reason":"[^"]' "$name/episodes.jsonl" || fail "$name: $(cat "$name/episodes.jsonl")"
  grep -q '"val_loss"' "$name/logs.json.txt" || fail "$name: no validation loss"
  grep -q '"train_sample_steps"' "$name/logs.json.txt" || fail "$name: no sampled actions"
  [ -s "$name/report.html" ] || fail "$name: no report"
  echo "  $name"
}

echo "they train, roll out and report"
consistency=(policy.params.objective=consistency policy.params.noise_scheduler.prediction_type=v_prediction)
run unet_flow "${unet[@]}" policy.params.objective=flow_matching
run unet_mip "${unet[@]}" policy.params.objective=mip
run unet_regression "${unet[@]}" policy.params.objective=regression
run unet_consistency "${unet[@]}" "${consistency[@]}"
run transformer_flow "${transformer[@]}" policy.params.objective=flow_matching \
  policy.params.flow_matching.sampler=heun policy.params.flow_matching.num_inference_steps=3
run transformer_mip "${transformer[@]}" policy.params.objective=mip
run transformer_consistency "${transformer[@]}" "${consistency[@]}" policy.params.consistency.num_inference_steps=2
run unet_heun "${unet[@]}" policy.params.noise_scheduler.type=heun policy.params.noise_scheduler.num_inference_steps=3

calls=$(for name in unet_flow unet_mip unet_regression unet_consistency transformer_flow transformer_consistency; do network_calls_per_chunk $name; done)
[ "$(echo $calls)" = "10 2 1 1 6 2" ] || fail "numbers of network evaluations: $calls"

echo "the sampler and its steps are chosen at evaluation"
"$dp_bench" train "${task[@]}" "${unet[@]}" --output diffusion >train.txt 2>&1 || fail "$(cat train.txt)"
scheduler=policy.params.noise_scheduler
samplers=$("$dp_bench" keys policy --policy unet_hybrid --markdown | sed -n 's/^| `noise_scheduler.type` | one of \([^|]*\) |.*/\1/p')
[ -n "$samplers" ] || fail "no samplers in the table of keys"
for sampler in ${samplers//,/}; do
  "$dp_bench" eval --checkpoint diffusion --output "eval_$sampler" "$scheduler.type=$sampler" \
    "$scheduler.num_inference_steps=5" >eval.txt 2>&1 || fail "$sampler: $(cat eval.txt)"
  grep -q "\"type\": \"$sampler\"" "eval_$sampler/config.json" || fail "the config does not say $sampler"
  calls=$(network_calls_per_chunk "eval_$sampler")  # Heun's method has two a step, but one in the last
  [ "$calls" = "$([ "$sampler" = heun ] && echo 9 || echo 5)" ] || fail "$sampler took $calls evaluations"
done
[ "$(hashes eval_ddpm)" != "$(hashes eval_ddim)" ] || fail "ddpm and ddim gave the same episodes"
[ "$(hashes eval_heun)" != "$(hashes eval_ddim)" ] || fail "heun and ddim gave the same episodes"
"$dp_bench" eval --checkpoint unet_flow --output eval_flow policy.params.flow_matching.sampler=heun \
  policy.params.flow_matching.num_inference_steps=2 >eval.txt 2>&1 || fail "$(cat eval.txt)"
[ "$(network_calls_per_chunk eval_flow)" = 4 ] || fail "flow matching took $(network_calls_per_chunk eval_flow) evaluations"

echo "the tools say what they skip"
for name in unet_flow unet_mip unet_regression unet_consistency; do
  status=0
  "$dp_bench" diagnose --run "$name" --rollouts 0 >out.txt 2>&1 || status=$?
  [ "$status" -le 1 ] || fail "diagnose of $name ended with $status: $(cat out.txt)"
  grep -q "another objective than diffusion" out.txt || fail "diagnose of $name did not skip: $(cat out.txt)"
  status=0
  "$dp_bench" diagnose --sampling "$name" >out.txt 2>&1 || status=$?
  [ "$status" -le 1 ] || fail "diagnose --sampling of $name ended with $status: $(cat out.txt)"
  "$dp_bench" inspect --checkpoint "$name" >out.txt 2>&1 || fail "inspect of $name: $(cat out.txt)"
  "$dp_bench" profile --checkpoint "$name" --steps 2 >out.txt 2>&1 || fail "profile of $name: $(cat out.txt)"
  grep -q "denoising step" out.txt || fail "profile of $name has no denoising step: $(cat out.txt)"
done
"$dp_bench" inspect --checkpoint transformer_flow --attention >out.txt 2>&1 || fail "attention: $(cat out.txt)"

echo "what an objective does not have is refused before the training"
refuses() { expect_exit 2 "$1" "$dp_bench" train "${task[@]}" "${unet[@]}" --output refused "${@:2}"; }
refuses "loss_weighting: expected none with objective flow_matching, found min_snr" \
  policy.params.objective=flow_matching policy.params.loss_weighting=min_snr
refuses "expected sample or v_prediction with objective consistency" policy.params.objective=consistency
refuses "lower num_inference_steps" "$scheduler.type=dpmsolver++" "$scheduler.num_inference_steps=100"
refuses "policy.params.mip.num_inference_steps" policy.params.objective=mip \
  policy.params.mip.num_inference_steps=3
[ ! -e refused ] || fail "a refused training left a folder"
