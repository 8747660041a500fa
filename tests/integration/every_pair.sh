#!/usr/bin/env bash
# Every policy on every env, with every kind of observation that both support: 20 training steps and an evaluation of
# two episodes. Then a policy with images is evaluated by 1, 2 and 8 workers; each episode's hash covers states,
# actions and pixels.
# Usage: every_pair.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder

# networks small enough for a test
encoder='{"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8}'
fusion='{"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8, "n_head": 2}'
steps=policy.params.noise_scheduler.num_inference_steps=2
unet=(--policy unet_hybrid "$steps" "policy.params.down_dims=[16,32]" policy.params.n_groups=4
      "policy.params.obs_encoder=$encoder")
transformer=(--policy transformer "$steps" policy.params.n_layer=2 policy.params.n_emb=24
             "policy.params.obs_encoder=$encoder")
rgbd_fusion=(--policy rgbd_fusion "$steps" policy.params.crop_shape=null policy.params.resize_shape=null
             "policy.params.obs_encoder=$fusion" policy.params.denoiser.n_layer=2
             policy.params.denoiser.n_emb=64)
act=(--policy act policy.params.dim_model=24 policy.params.dim_feedforward=48
     'policy.params.obs_encoder={"resnet_width": 8, "resnet_stages": 2}')

# tasks that collect a few demonstrations of small images
kuavo=(--env kuavo_dualarm collect.n_episodes=2 env.params.image_width=32 env.params.image_height=24
       env_runner.max_steps=12)
pusht=(--env pusht_expert collect.n_episodes=2 env_runner.max_steps=20)
mkdir -p more/task
cat >more/task/pusht_expert_image.json <<'JSON'
{"name": "pusht_expert_image", "env": {"plugin": "pusht", "params": {"obs": ["agent_pos", "image"]}}, "collect": {}}
JSON
cat >more/task/kuavo_dualarm_small_rgb.json <<'JSON'
{"include": "kuavo_dualarm.json", "name": "small_rgb", "env": {"params": {"obs": "rgb"}}}
JSON
cat >more/task/kuavo_dualarm_small_rgbd.json <<'JSON'
{"include": "kuavo_dualarm.json", "name": "small_rgbd", "env": {"params": {"obs": "rgbd"}}}
JSON
cp "$configs/task/kuavo_dualarm.json" more/task/

run() {  # run NAME ARGUMENTS...
  local name=$1
  shift
  "$dp_bench" run --config-dir "$configs" --config-dir more "$@" --output "$name" \
    training.num_epochs=1 training.max_train_steps=20 training.sample_every=0 training.lr_warmup_steps=2 \
    dataloader.batch_size=4 val_dataloader.batch_size=4 dataset.val_ratio=0 \
    env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0 env_runner.micro_batch=2 \
    training.rollout_every=0 >"$name.txt" 2>&1 ||
    fail "$name: $(cat "$name.txt")"
  [ "$(wc -l <"$name/episodes.jsonl")" -eq 2 ] || fail "$name: expected 2 episodes"
  ! grep -q '"failure_reason":"[^"]' "$name/episodes.jsonl" || fail "$name: $(cat "$name/episodes.jsonl")"
  echo "  $name"
}

echo "pairs that train and roll out"
run unet_hybrid_pusht "${unet[@]}" "${pusht[@]}"
run unet_hybrid_pusht_image "${unet[@]}" "${pusht[@]}" --obs image
run unet_hybrid_kuavo "${unet[@]}" "${kuavo[@]}"
run unet_hybrid_kuavo_rgb "${unet[@]}" "${kuavo[@]}" --obs small_rgb
run transformer_pusht "${transformer[@]}" "${pusht[@]}"
run transformer_pusht_image "${transformer[@]}" "${pusht[@]}" --obs image
run transformer_kuavo "${transformer[@]}" "${kuavo[@]}"
run transformer_kuavo_rgb "${transformer[@]}" "${kuavo[@]}" --obs small_rgb
run act_pusht "${act[@]}" "${pusht[@]}"
run act_pusht_image "${act[@]}" "${pusht[@]}" --obs image
run act_kuavo "${act[@]}" "${kuavo[@]}"
run act_kuavo_rgb "${act[@]}" "${kuavo[@]}" --obs small_rgb
run unet_hybrid_pusht_image_inpainting "${unet[@]}" "${pusht[@]}" --obs image policy.params.obs_as_global_cond=false
run transformer_kuavo_inpainting "${transformer[@]}" "${kuavo[@]}" policy.params.obs_as_global_cond=false
run rgbd_fusion_pusht_image "${rgbd_fusion[@]}" "${pusht[@]}" --obs image
run rgbd_fusion_kuavo_rgb "${rgbd_fusion[@]}" "${kuavo[@]}" --obs small_rgb
run rgbd_fusion_kuavo_rgbd "${rgbd_fusion[@]}" "${kuavo[@]}" --obs small_rgbd

echo "pairs that cannot be say why"
expect_exit 2 "needs a camera" "$dp_bench" train --config-dir "$configs" --config-dir more "${rgbd_fusion[@]}" \
  "${pusht[@]}" --output bad1
expect_exit 2 "is depth" "$dp_bench" train --config-dir "$configs" --config-dir more "${transformer[@]}" \
  "${kuavo[@]}" --obs small_rgbd --output bad2

expect_exit 2 "is depth" "$dp_bench" train --config-dir "$configs" --config-dir more "${act[@]}" \
  "${kuavo[@]}" --obs small_rgbd --output bad3

echo "and they say it before they look for data"
mkdir without_data
cd without_data
for verb in run train profile; do
  expect_exit 2 "needs a camera.* Use a task with images" "$dp_bench" "$verb" --config-dir "$configs" \
    --policy rgbd_fusion --env pusht
  expect_exit 6 "get_data.sh pusht" "$dp_bench" "$verb" --config-dir "$configs" --policy unet_hybrid --env pusht
done
[ ! -e data ] || fail "expected no data folder"
cd ..

echo "one hash per episode of states, actions and pixels, for any number of workers"
for run in rgbd_fusion_kuavo_rgbd act_kuavo_rgb; do  # the second one ensembles its plans
  for workers in 1 2 8; do
    "$dp_bench" eval --checkpoint "$run/checkpoints/latest" --output "eval_$run$workers" \
      env_runner.n_test=8 env_runner.n_workers="$workers" env_runner.n_envs="$workers" >eval.txt 2>&1 ||
      fail "$(cat eval.txt)"
    cmp "eval_${run}1/episodes.jsonl" "eval_$run$workers/episodes.jsonl"
  done
  [ "$(grep -o '"trace_hash":"[0-9a-f]*"' "eval_${run}1/episodes.jsonl" | sort -u | wc -l)" -eq 8 ] ||
    fail "expected 8 hashes: $(cat "eval_${run}1/episodes.jsonl")"
done
