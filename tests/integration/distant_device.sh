#!/usr/bin/env bash
# The program on a device whose memory the processor cannot access, as a substitute for a GPU. Training, resuming and
# rollouts there equal those on the CPU, up to rounding.
# Usage: distant_device.sh <dp_bench program> <configs folder> <library of the device>
# Where there is a GPU, it runs on that.
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
library=$3
enter_scratch_folder

if "$dp_bench" doctor | grep "^ok *GPU"; then
  device=cuda
  with_device=()
  without_device=(env CUDA_VISIBLE_DEVICES=)
else
  device=hpu
  with_device=(env LD_PRELOAD="$library")
  without_device=()
fi
far() { "${with_device[@]}" "$dp_bench" "$@"; }
near() { "${without_device[@]}" "$dp_bench" "$@"; }
encoder='{"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8}'
small=(--config-dir "$configs" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]"
       policy.params.n_groups=4 training.mixed_precision=no collect.n_episodes=4 training.num_epochs=2 training.lr_warmup_steps=2
       training.max_grad_norm=1 dataloader.batch_size=32 env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0
       env_runner.max_steps=20 policy.params.noise_scheduler.num_inference_steps=2)
images=(--config-dir "$configs" --policy transformer --env pusht_expert --obs image
          training.mixed_precision=no policy.params.n_layer=2 policy.params.n_emb=24 "policy.params.obs_encoder=$encoder"
          collect.n_episodes=2 dataset.val_ratio=0 training.num_epochs=1 training.max_train_steps=4
          training.lr_warmup_steps=2 dataloader.batch_size=4)

pair() {  # pair NAME TOLERANCE VERB ARGUMENTS...: the same curves on both devices
  local name=$1 tolerance=$2
  shift 2
  near "$@" --output "$name.cpu" >out.txt 2>&1 || fail "$name on the CPU: $(cat out.txt)"
  far "$@" --device "$device" --output "$name.far" >out.txt 2>&1 || fail "$name: $(cat out.txt)"
  same_curves "$name.cpu" "$name.far" "$tolerance"
  echo "  $name"
}

echo "training, validation, rollouts, EMA and checkpoints"
pair plain 1e-4 run "${small[@]}"
pair bf16 2e-2 train "${small[@]}" training.mixed_precision=bf16 training.rollout_every=0 training.sample_every=0
pair images 1e-3 train "${images[@]}" training.rollout_every=0 policy.params.gradient_checkpointing=true

echo "an evaluation of the checkpoint gives the run's own episodes"
far eval --checkpoint plain.far/checkpoints/latest --device "$device" --output eval >out.txt 2>&1 || fail "$(cat out.txt)"
cmp plain.far/episodes.jsonl eval/episodes.jsonl

echo "an episode of a run is replayed there, and on a machine without the device"
far replay --run plain.far --episode 1 >out.txt 2>&1 || fail "$(cat out.txt)"
expect_exit 2 "finds 0 devices of that type" near replay --run plain.far --episode 1
status=0
near replay --run plain.far --episode 1 --device cpu --output replay >out.txt 2>&1 || status=$?
[ "$status" -le 1 ] && [ -s replay/media/*.mp4 ] || fail "it ended with $status: $(cat out.txt)"

echo "an interrupted training resumes to the same weights"
far train "${small[@]}" --device "$device" --output whole >out.txt 2>&1 || fail "$(cat out.txt)"
"${with_device[@]}" "$dp_bench" train "${small[@]}" --device "$device" --output parts >parts.txt 2>&1 &
child=$!
for _ in $(seq 600); do
  grep -q "^epoch 0" parts.txt && break
  sleep 0.1
done
kill -TERM "$child"
expect_ended 75 parts.txt "$child"
far train --resume parts >out.txt 2>&1 || fail "$(cat out.txt)"
cmp whole/checkpoints/latest/model.safetensors parts/checkpoints/latest/model.safetensors

echo "training steps that are replayed as a graph give the same weights"
far train "${small[@]}" --device "$device" policy.params.cuda_graph=true --output graph >out.txt 2>&1 || fail "$(cat out.txt)"
cmp whole/checkpoints/latest/model.safetensors graph/checkpoints/latest/model.safetensors

echo "bench counts the work that a graph replays"
bench=(bench policy "${small[@]}" --chunks 1 --repetitions 1 --seconds 0 policy.params.cuda_graph=true)
near "${bench[@]}" --json near.json >out.txt 2>&1 || fail "$(cat out.txt)"
far "${bench[@]}" --device "$device" --json far.json >out.txt 2>&1 || fail "$(cat out.txt)"
python3 -c 'import json; near, far = (json.load(open(f))["rows"] for f in ("near.json", "far.json"))
for a, b in zip(near, far, strict=True):
    assert a["weight_bytes"] == b["weight_bytes"] and 0.9 < b["flop"] / a["flop"] < 1.3, (a, b)  # the CPU leaves padding out' || fail "bench"

echo "profile measures there"
far profile "${small[@]}" --device "$device" --steps 2 >out.txt 2>&1 || fail "$(cat out.txt)"

echo "a device that is not there is refused"
expect_exit 2 "finds 0 devices of that type" near train "${small[@]}" --device "$device" --output none
