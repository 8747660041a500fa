#!/usr/bin/env bash
# The outcome of a policy without images does not depend on the processor, as long as it has AVX2 and FMA; that of a
# policy with images does not depend on the number of threads. The same checkpoint is evaluated with the instruction
# sets of LibTorch, MKL and oneDNN switched, and on an emulated processor without AVX-512 where QEMU is installed.
# Usage: portable_outcomes.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
models=$(readlink -f "$configs/../models")
grep -q -w avx2 /proc/cpuinfo && grep -q -w fma /proc/cpuinfo || { echo "skipped: no AVX2 and FMA"; exit 77; }
enter_scratch_folder

# hashes CHECKPOINT ARGUMENTS...: the trace hashes of a short evaluation in the present environment
hashes() {
  local checkpoint=$1
  shift
  rm -rf out
  "${emulator[@]}" "$dp_bench" eval --checkpoint "$checkpoint" --output out env_runner.n_train=0 env_runner.n_videos=0 \
    "$@" >out.txt 2>&1 || fail "$(cat out.txt)"
  grep -o '"trace_hash":"[^"]*"' out/episodes.jsonl
}
emulator=()

# LibTorch does what ATEN_CPU_CAPABILITY says, even on a processor that cannot
capabilities=(default avx2)
if grep -q -w avx512f /proc/cpuinfo && grep -q -w avx512vl /proc/cpuinfo; then capabilities+=(avx512); fi

# expect_equal NAME CHECKPOINT ARGUMENTS...: in the present environment, the hashes are those of $expected
expect_equal() {
  local name=$1
  shift
  [ "$(hashes "$@")" == "$expected" ] || fail "$name: other outcomes: $(cat out/episodes.jsonl)"
}

# small networks with weights from a few training steps
train() {  # train NAME ARGUMENTS...
  local name=$1
  shift
  "$dp_bench" train "$@" --config-dir "$configs" --output "$name" collect.n_episodes=2 training.num_epochs=1 \
    training.max_train_steps=4 training.rollout_every=0 training.sample_every=0 dataloader.batch_size=4 \
    val_dataloader.batch_size=4 dataset.val_ratio=0 >"$name.txt" 2>&1 || fail "$name: $(cat "$name.txt")"
}
train transformer --policy transformer --env pusht_expert policy.params.n_layer=2 policy.params.n_emb=42

for case in "$models/pusht_unet_hybrid float32" "transformer/checkpoints/latest float32" \
  "$models/pusht_unet_hybrid bf16" "transformer/checkpoints/latest bf16"; do
  read -r checkpoint weights <<<"$case"
  arguments=("$checkpoint" env_runner.n_test=2 env_runner.max_steps=24 "policy.weights=$weights")
  expected=$(hashes "${arguments[@]}")
  for capability in "${capabilities[@]}"; do
    ATEN_CPU_CAPABILITY=$capability expect_equal "LibTorch with $capability" "${arguments[@]}"
  done
  MKL_ENABLE_INSTRUCTIONS=AVX2 MKL_CBWR=COMPATIBLE expect_equal "MKL with AVX2" "${arguments[@]}"
  ONEDNN_MAX_CPU_ISA=SSE41 expect_equal "oneDNN with SSE4.1" "${arguments[@]}"
  GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL expect_equal "libm without AVX-512" "${arguments[@]}"
  OMP_NUM_THREADS=1 expect_equal "one thread" "${arguments[@]}"
  OMP_NUM_THREADS=3 expect_equal "three threads" "${arguments[@]}"
done


# with images, the number of threads changes nothing
train images --policy unet_hybrid --env pusht_expert_image "policy.params.down_dims=[16,32]" \
  policy.params.n_groups=4 \
  'policy.params.obs_encoder={"resnet_width": 16, "resnet_stages": 3, "spatial_softmax_num_keypoints": 8}'
arguments=(images/checkpoints/latest env_runner.n_test=2 env_runner.max_steps=16)
expected=$(hashes "${arguments[@]}")
for n in 1 3; do
  OMP_NUM_THREADS=$n expect_equal "images with $n threads" "${arguments[@]}"
done

# The emulated processor is slow: one short episode. Unless GOMP_SPINCOUNT is set, LibTorch's threads make the program
# start itself again, outside the emulator.
if command -v qemu-x86_64 >/dev/null; then
  for weights in float32 bf16; do  # bf16: perhaps with AMX here, without there
    arguments=("$models/pusht_unet_hybrid" env_runner.n_test=1 env_runner.max_steps=9 "policy.weights=$weights")
    emulator=()
    expected=$(hashes "${arguments[@]}")
    emulator=(env GOMP_SPINCOUNT=5000 OMP_NUM_THREADS=1 qemu-x86_64 -cpu Haswell-v4)
    expect_equal "an emulated Haswell, $weights" "${arguments[@]}"
  done
else
  echo "qemu-x86_64 is not installed (apt package qemu-user): no emulated processor"
fi
