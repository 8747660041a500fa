#!/usr/bin/env bash
# Paths that are not regular files, and JSON that is nested without end: every command that reads them ends at once with
# the exit code for bad input, and never reports a bug.
# Usage: hostile_files.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
program=$1
configs=$2
enter_scratch_folder

refuses() {  # refuses CODE TEXT COMMAND...: within ten seconds and half a gigabyte of heap
  expect_exit "$1" "$2" timeout 10 "$program" "${@:3}"
  ! grep -q "bug in dp_bench" out.txt || fail "${*:3} calls it a bug: $(cat out.txt)"
}

deep=$(printf '[%.0s' $(seq 100000))
mkfifo fifo

echo "a run that is whole"
train_briefly "$program" "$configs" run
"$program" eval --checkpoint run/checkpoints/latest env_runner.n_test=2 env_runner.n_videos=1 \
  env_runner.max_steps=4 --output eval >eval.txt 2>&1 || fail "$(cat eval.txt)"
"$program" gate --candidate eval --baseline base.json --update-baseline >gate.txt 2>&1 || fail "$(cat gate.txt)"
compare=(compare eval broken)
broken() { rm -rf broken; cp -r eval broken; }

echo "FIFOs and devices instead of files"
refuses 2 "found a named pipe" inspect --config fifo
for file in episodes.jsonl eval_log.json config.json manifest.json logs.json.txt; do
  broken
  rm -f "broken/$file"
  ln -s "$work/fifo" "broken/$file"
  refuses 6 "found a named pipe" "${compare[@]}"
  rm "broken/$file"
  ln -s /dev/zero "broken/$file"
  refuses 6 "found a device" "${compare[@]}"
done
refuses 6 "found a named pipe" gate --candidate eval --baseline fifo
refuses 6 "found a device" gate --candidate eval --baseline /dev/zero
for file in manifest.json state.json config.json ema.safetensors; do
  rm -rf checkpoint
  cp -r run/checkpoints/latest checkpoint
  rm "checkpoint/$file"
  ln -s "$work/fifo" "checkpoint/$file"
  refuses 6 "found a named pipe" inspect --checkpoint checkpoint
done
broken
rm -f broken/media/*.mp4
for video in eval/media/*.mp4; do ln -s "$work/fifo" "broken/media/$(basename "$video")"; done
refuses 6 "found a named pipe" video broken --output video.mp4
mkdir plugins
mkfifo plugins/libdpb_env_x.so
timeout 10 "$program" plugins --plugin-dir plugins >plugins.txt 2>&1 || true
grep -q "found a named pipe" plugins.txt || fail "$(cat plugins.txt)"

echo "nesting without end"
for file in episodes.jsonl eval_log.json manifest.json; do
  broken
  echo "{\"a\":$deep" >"broken/$file"
  refuses 6 "nested deeper" "${compare[@]}"
done
echo "{\"a\":$deep" >deep.json
refuses 6 "nested deeper" gate --candidate eval --baseline deep.json
refuses 6 "nested deeper" gate --candidate eval --baseline base.json --continue deep.json
refuses 2 "nested deeper" inspect --config deep.json
rm -rf checkpoint
cp -r run/checkpoints/latest checkpoint
cp deep.json checkpoint/manifest.json
refuses 6 "nested deeper" inspect --checkpoint checkpoint
cp -r eval part
rm part/episodes.jsonl part/eval_log.json
cp deep.json part/episodes.partial.jsonl
refuses 6 "" eval --resume part
echo "{\"checkpoint\": {\"folder\": 3}}" >part/manifest.json
refuses 6 "checkpoint.folder: expected a string" eval --resume part

echo "a run folder whose config asks for other files"
sed '/"run_id"/d; /"config_sha256"/d' eval/manifest.json >part/manifest.json  # like a version without ids
echo '{"include": "../base.json"}' >part/config.json
refuses 2 "is outside " eval --resume part

echo "a batch that no memory holds is estimated, not tried"
timeout 120 "$program" train --dry-run --config-dir "$configs" --policy unet_hybrid --env point_mass \
  "policy.params.down_dims=[16,32]" policy.params.n_groups=4 collect.n_episodes=4 \
  dataloader.batch_size=1000000000 >dry.txt 2>&1 || fail "$(cat dry.txt)"
grep -q "WARNING: that is more than is free" dry.txt || fail "$(cat dry.txt)"
expect_exit 2 "a step of this size needs" timeout 120 "$program" inspect --policy unet_hybrid --env point_mass --config-dir "$configs" \
  --batch-size 1048576
