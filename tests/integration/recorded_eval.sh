#!/usr/bin/env bash
# eval --record-dataset: the same dataset after kills, what is refused before anything runs, and a dataset that cannot be
# written, which costs no result. recorded_dataset_test.cc checks the content.
# Usage: recorded_eval.sh <dp_bench program> <configs folder> <folder with libdpb_env_faulty.so>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
n_kills=${DPB_KILLS:-6}
enter_scratch_folder
train_briefly "$dp_bench" "$2" trained
evaluate=("$dp_bench" eval --checkpoint trained/checkpoints/latest env_runner.n_test=60 env_runner.n_train=2 env_runner.n_videos=0
          env_runner.micro_batch=4)

same_dataset() {  # same_dataset A.zarr B.zarr: but for the run folder that it is from
  diff -r -x .zattrs "$1" "$2" >diff.txt || fail "$1 and $2 differ: $(head -3 diff.txt)"
  cmp <(grep -v '"run": ' "$1/.zattrs") <(grep -v '"run": ' "$2/.zattrs") || fail "the attributes of $2 differ"
}
nothing_left() {  # nothing_left RUN DATASET
  [ ! -e "$1/recording" ] || fail "$1 keeps its recorded episodes: $(ls "$1/recording")"
  local beside
  beside=$(ls -d "$2.recording.zarr" "$2.unfinished"* 2>/dev/null || true)
  [ -z "$beside" ] || fail "left: $beside"
}
kill_once() {  # kill_once SIGNAL PATH COMMAND...: as soon as the path is there
  local signal=$1 path=$2
  shift 2
  "$@" >out.txt 2>&1 &
  until [ -e "$path" ] || ! kill -0 $! 2>/dev/null; do :; done
  kill "-$signal" $! 2>/dev/null || true
  wait $! 2>/dev/null || true
}

echo "recorded, with the same results"
"${evaluate[@]}" --output plain >plain.txt 2>&1 || fail "$(cat plain.txt)"
start=$(date +%s%3N)
"${evaluate[@]}" --output whole --record-dataset data/whole.zarr >whole.txt 2>&1 || fail "$(cat whole.txt)"
duration=$(($(date +%s%3N) - start))  # [ms]
cmp plain/episodes.jsonl whole/episodes.jsonl || fail "recording changed the outcomes"
grep -q "dataset: data/whole.zarr, 60 episodes" whole.txt || fail "$(cat whole.txt)"
nothing_left whole data/whole.zarr
expect_exit 0 "zarr, 60 episodes" "$dp_bench" dataset info data/whole.zarr
"$dp_bench" train --config-dir "$2" --policy unet_hybrid --dataset data/whole.zarr "policy.params.down_dims=[16,32]" \
  policy.params.n_groups=4 training.num_epochs=1 training.max_train_steps=2 training.lr_warmup_steps=1 \
  checkpoint.topk.monitor_key=train_loss checkpoint.topk.mode=min --output trained2 >train.txt 2>&1 || fail "$(cat train.txt)"
seen="60 of the 60 test seeds are seeds of episodes in the training dataset"
expect_exit 0 "warning.*$seen" "$dp_bench" run --config-dir "$2" --policy unet_hybrid --env point_mass --dataset data/whole.zarr \
  "policy.params.down_dims=[16,32]" policy.params.n_groups=4 training.num_epochs=1 training.max_train_steps=2 training.lr_warmup_steps=1 \
  training.rollout_every=0 env_runner.n_test=60 env_runner.n_train=0 env_runner.n_videos=0 --output seen
grep -q "WARNING: $seen" seen/report.html || fail "the report does not name the seeds of the dataset"
expect_exit 0 "WARNING: 2 of the 3 test seeds are seeds of episodes" "$dp_bench" eval --checkpoint seen/checkpoints/latest \
  env_runner.n_test=3 env_runner.test_start_seed=100058 env_runner.n_train=0 env_runner.n_videos=0 --output seen_later
"$dp_bench" collect --config-dir "$2" --env point_mass --episodes 3 --output collected.zarr >collect.txt 2>&1 ||
  fail "$(cat collect.txt)"
expect_exit 0 "63 episodes" "$dp_bench" dataset merge collected.zarr data/whole.zarr --output mixed.zarr

echo "only those with success"
n=$(grep -c '"split":"test","success":true' whole/episodes.jsonl || true)
expected="$n episodes ($n with success)"
[ "$n" -gt 0 ] || expected="none, because no episode is left"
expect_exit 0 "dataset: .*$expected" "${evaluate[@]}" --output good --record-dataset good.zarr --record-successes
nothing_left good good.zarr
mkdir good/recording
touch good/recording/test_100000.safetensors good/recording/recording_options.json  # as if it had been killed
expect_exit 0 "run folder: good" "${evaluate[@]}" env_runner.n_test=1 --output good --overwrite
nothing_left good good.zarr

echo "killed $n_kills times"
RANDOM=5
again=("${evaluate[@]}" --output killed)
for ((i = 0; i < n_kills; i++)); do
  "${again[@]}" --record-dataset killed.zarr >killed.txt 2>&1 &
  moment=$((duration * (30 + RANDOM % 65) / 100))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  if [ -f killed/config.json ]; then again=("$dp_bench" eval --resume killed); else rm -rf killed; fi
done
"${again[@]}" --record-dataset killed.zarr >killed.txt 2>&1 || fail "$(cat killed.txt)"
same_dataset data/whole.zarr killed.zarr
nothing_left killed killed.zarr
mkdir killed/recording  # as if it had been killed while it removed the episodes
cp plain/config.json killed/recording/test_100059.safetensors
cp -r data/whole.zarr killed.zarr.recording.zarr
expect_exit 0 "dataset: killed.zarr, 60 episodes" "$dp_bench" eval --resume killed --record-dataset killed.zarr
nothing_left killed killed.zarr
expect_exit 2 "'killed.zarr' exists" "$dp_bench" eval --resume killed env_runner.n_test=70 --record-dataset killed.zarr
expect_exit 2 "'killed.zarr' exists" "$dp_bench" eval --resume killed --record-dataset killed.zarr --record-successes

echo "stopped by a signal, it says how to go on"
expect_stopped stopped "--resume stopped --record-dataset stopped.zarr" "${evaluate[@]}" --record-dataset stopped.zarr
expect_exit 2 "recorded: continue it with dp_bench eval --resume stopped --record-dataset stopped.zarr" "$dp_bench" eval --resume stopped
expect_exit 2 "was begun without --record-successes" "$dp_bench" eval --resume stopped --record-dataset stopped.zarr --record-successes
cp -r data/whole.zarr other.zarr.recording.zarr
expect_exit 2 "'other.zarr.recording.zarr' exists" "$dp_bench" eval --resume stopped --record-dataset other.zarr
expect_exit 0 "dataset: stopped.zarr" "$dp_bench" eval --resume stopped --record-dataset stopped.zarr
same_dataset data/whole.zarr stopped.zarr

echo "stopped while the dataset is written"
kill_once INT halved.zarr.recording.zarr/.zattrs "${evaluate[@]}" --output halved --record-dataset halved.zarr
expect_exit 0 "dataset: halved.zarr, 60 episodes" "$dp_bench" eval --resume halved --record-dataset halved.zarr
same_dataset data/whole.zarr halved.zarr
nothing_left halved halved.zarr

echo "killed once the dataset is there"
"$dp_bench" plugins >plugins.txt 2>&1
for format in lerobot hdf5; do
  grep -q "^writer *$format" plugins.txt || continue
  recording=(--record-dataset "cut_$format" --format "$format")
  kill_once KILL "cut_$format" "${evaluate[@]}" --output "of_$format" "${recording[@]}"
  expect_exit 0 "dataset: cut_$format, 60 episodes" "$dp_bench" eval --resume "of_$format" "${recording[@]}"
  nothing_left "of_$format" "cut_$format"
  expect_exit 0 "60 episodes" "$dp_bench" dataset info "cut_$format"
  grep -q '"complete": true' "cut_$format.recording.json" || fail "$(cat "cut_$format.recording.json")"
done

echo "refused before anything runs"
expect_exit 2 "'data/whole.zarr' exists" "${evaluate[@]}" --output refused --record-dataset data/whole.zarr
expect_exit 2 "or is the folder of the run" "${evaluate[@]}" --output refused --record-dataset ./refused
mkdir empty b.zarr.unfinished
touch b.zarr.unfinished/writer.json
expect_exit 2 "'empty' exists" "${evaluate[@]}" --output refused --record-dataset empty --format hdf5
expect_exit 2 "'b.zarr.unfinished' exists" "${evaluate[@]}" --output refused --record-dataset b.zarr
expect_exit 2 "excludes" "${evaluate[@]}" --output refused --record-dataset a.zarr --perturb delay=1
expect_exit 2 "excludes" "${evaluate[@]}" --output refused --record-dataset a.zarr --latencies 0 10
expect_exit 2 "requires --record-dataset" "${evaluate[@]}" --output refused --format lerobot
expect_exit 2 "env.perturb changes them" "${evaluate[@]}" --output refused --record-dataset a.zarr env.perturb.delay=1
expect_exit 2 "nonsense" "${evaluate[@]}" --output refused --record-dataset a.zarr --format nonsense
[ ! -e refused ] || fail "a refused evaluation left its folder"
expect_exit 2 "were not recorded, such as test seed 100000" "$dp_bench" eval --resume plain --record-dataset a.zarr
expect_exit 2 "were not recorded" "$dp_bench" eval --resume whole env_runner.n_test=70 --record-dataset a.zarr
[ ! -e a.zarr ] && [ ! -e a.zarr.recording.zarr ] || fail "a refused recording wrote something"

echo "a dataset that cannot be written costs no result"
touch file
expect_exit 6 "the results are in held, but the dataset is not written yet" "${evaluate[@]}" --output held --record-dataset file/a.zarr
cmp plain/episodes.jsonl held/episodes.jsonl || fail "the results are not there"
cp -r data/whole.zarr held.zarr.recording.zarr  # as if it had been begun with fewer seeds
sed -i "s#\"run\": .*#\"run\": \"$(pwd -P)/held\",#; s/\"run_id\": \"..../\"run_id\": \"0000/; s/\"complete\": true/\"complete\": false/" \
  held.zarr.recording.zarr/.zattrs
expect_exit 0 "dataset: held.zarr, 60 episodes" "$dp_bench" eval --resume held --record-dataset held.zarr
same_dataset data/whole.zarr held.zarr
nothing_left held held.zarr

echo "episodes that fail are left out and named"
cat >faulty.json <<'JSON'
{"name": "faulty", "env": {"plugin": "faulty", "params": {"faults": []}}, "policy": {"plugin": "constant_action"},
 "collect": {"n_episodes": 3, "start_seed": 7, "keep_failures": true}, "dataloader": {"batch_size": 4},
 "env_runner": {"n_train": 0, "n_test": 6, "n_videos": 0}, "training": {"num_epochs": 1, "max_train_steps": 1, "rollout_every": 0}}
JSON
with=(--config-dir "$2" --plugin-dir "$3")
"$dp_bench" train --config faulty.json "${with[@]}" --output faulty >train.txt 2>&1 || fail "$(cat train.txt)"
broken=("$dp_bench" eval --checkpoint faulty/checkpoints/latest --plugin-dir "$3" --isolate)
expect_exit 0 "dataset: clean.zarr, 6 episodes" "${broken[@]}" --output clean --record-dataset clean.zarr
expect_exit 5 "dataset: broken.zarr, 5 episodes" "${broken[@]}" --output broken --record-dataset broken.zarr \
  'env.params.faults=[{"seed": 100001, "kind": "segv", "step": 5}]'
grep -q "without test seed 100001: step 5: the env plugin died" out.txt || fail "$(cat out.txt)"
python3 - <<'PYTHON' || fail "$(cat broken.zarr/.zattrs)"
import json
attributes = json.load(open("broken.zarr/.zattrs"))
assert attributes["episodes"]["seed"] == [100000, 100002, 100003, 100004, 100005] and attributes["complete"]
assert attributes["failures"][0]["seed"] == 100001
PYTHON
"$dp_bench" dataset trim clean.zarr trimmed.zarr --episodes 0,2-5 >trim.txt 2>&1 || fail "$(cat trim.txt)"
diff -r -x .zattrs trimmed.zarr broken.zarr >diff.txt || fail "the other episodes changed: $(head -3 diff.txt)"
echo "recorded_eval: ok"
