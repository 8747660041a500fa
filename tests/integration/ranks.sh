#!/usr/bin/env bash
# Training, rollouts and errors on two ranks of mpirun, compared with one process on the small task.
# Usage: ranks.sh <dp_bench program> <configs folder> <mpirun>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
mpirun=$3
version=$("$dp_bench" --version)
if grep -q "MPI: not built in" <<<"$version" || ! command -v "$mpirun" >/dev/null; then
  echo "skipped: no MPI was found"
  exit 77
fi
grep -q "^MPI: .*[0-9]" <<<"$version" || fail "--version names no MPI"
enter_scratch_folder
export OMP_NUM_THREADS=1

ranks=("$mpirun" -n 2 "$dp_bench")
small=(--config-dir "$configs" --policy unet_hybrid --env point_mass
       "policy.params.down_dims=[16,32]" policy.params.n_groups=4 training.mixed_precision=no collect.n_episodes=10
       training.lr_warmup_steps=2 dataloader.batch_size=32 val_dataloader.batch_size=32
       env_runner.n_test=5 env_runner.n_videos=2 env_runner.micro_batch=4)

expect_interrupted() {  # expect_interrupted MPIRUN_PID
  expect_ended 75 out.txt "$1"
  [ "$(grep -c "interrupted at step" out.txt)" -eq 1 ] || fail "$(cat out.txt)"
}

wait_until() {  # wait_until COMMAND...: at most a minute
  for _ in $(seq 600); do
    "$@" && return
    sleep 0.1
  done
  fail "$* did not come true: $(cat out.txt)"
}

rank_pid() {  # rank_pid MPIRUN_PID N: the process id of rank n
  for pid in $(pgrep -P "$1"); do
    grep -qzx "OMPI_COMM_WORLD_RANK=$2" "/proc/$pid/environ" && echo "$pid"
  done
}

echo "two ranks have the curves of one process, and collect, record and report once"
"${ranks[@]}" run "${small[@]}" training.num_epochs=3 training.max_grad_norm=1 --output together >out.txt 2>&1 || fail "$(cat out.txt)"
[ "$(grep -c "run folder: together" out.txt)" -eq 1 ] || fail "more than one rank spoke: $(cat out.txt)"
for file in config.json manifest.json logs.json.txt eval_log.json episodes.jsonl report.html \
            checkpoints/latest/manifest.json media/test_100000.mp4 media/test_100001.mp4; do
  [ -s "together/$file" ] || fail "together/$file is missing"
done
grep -q '"ranks": 2' together/manifest.json || fail "the manifest lacks the ranks"
"$dp_bench" train "${small[@]}" training.num_epochs=3 training.max_grad_norm=1 --output alone >out.txt 2>&1 || fail "$(cat out.txt)"
same_curves together alone 1e-5

echo "so they have with accumulated gradients"
for run in together alone; do
  command=("$dp_bench")
  [ "$run" = alone ] || command=("${ranks[@]}")
  "${command[@]}" train "${small[@]}" training.num_epochs=3 training.gradient_accumulate_every=4 \
    dataloader.batch_size=13 --output "${run}_4" >out.txt 2>&1 || fail "$(cat out.txt)"
done
same_curves together_4 alone_4 1e-5

echo "a checkpoint evaluates to the same episodes on one rank and on two"
"$dp_bench" eval --checkpoint together/checkpoints/latest --output eval1 >out.txt 2>&1 || fail "$(cat out.txt)"
"${ranks[@]}" eval --checkpoint together/checkpoints/latest --output eval2 >out.txt 2>&1 || fail "$(cat out.txt)"
cmp eval1/episodes.jsonl eval2/episodes.jsonl
cmp eval1/episodes.jsonl together/episodes.jsonl
cmp eval1/eval_log.json eval2/eval_log.json

echo "and records the same dataset"
record=(eval --checkpoint together/checkpoints/latest --record-dataset)
"$dp_bench" "${record[@]}" a.zarr --output record1 >out.txt 2>&1 || fail "$(cat out.txt)"
"${ranks[@]}" "${record[@]}" b.zarr --output record2 >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q "dataset: b.zarr, 5 episodes" out.txt || fail "$(cat out.txt)"
diff -r -x .zattrs a.zarr b.zarr >diff.txt || fail "$(head -3 diff.txt)"
cmp record1/episodes.jsonl record2/episodes.jsonl
[ ! -e record2/recording ] || fail "the recorded episodes are still there: $(ls record2/recording)"
expect_exit 2 "'a.zarr' exists" "${ranks[@]}" "${record[@]}" a.zarr --output refused
[ "$(grep -c "'a.zarr' exists" out.txt)" -eq 1 ] || fail "more than one rank said it: $(cat out.txt)"

echo "a signal to mpirun or to one rank stops both; resumed, the files are those of an unbroken run"
long=("${small[@]}" training.num_epochs=50 training.rollout_every=0 training.checkpoint_every=1)
"${ranks[@]}" train "${long[@]}" --output whole >out.txt 2>&1 || fail "$(cat out.txt)"
"${ranks[@]}" train "${long[@]}" --output broken >out.txt 2>&1 &
job=$!
wait_until test -e broken/checkpoints/latest/manifest.json
kill -TERM "$(rank_pid "$job" 1)"
expect_interrupted "$job"
rm out.txt  # of the run before, whose epochs would count
"${ranks[@]}" train --resume broken >out.txt 2>&1 &
job=$!
wait_until grep -q "^epoch" out.txt
kill -USR2 "$job"
expect_interrupted "$job"

echo "a rank that is killed ends the other soon, and the last checkpoint resumes"
rm out.txt
"${ranks[@]}" train --resume broken >out.txt 2>&1 &
job=$!
wait_until grep -q "^epoch" out.txt
start=$SECONDS
kill -KILL "$(rank_pid "$job" 1)"
status=0
wait "$job" || status=$?
[ "$status" -ne 0 ] || fail "mpirun hides that a rank was killed"
[ $((SECONDS - start)) -lt 60 ] || fail "the ranks took $((SECONDS - start)) s to end"
grep -q "rank 1 .*signal 9" out.txt || fail "it does not say what happened: $(cat out.txt)"
"${ranks[@]}" train --resume broken >out.txt 2>&1 || fail "$(cat out.txt)"
cmp whole/checkpoints/latest/ema.safetensors broken/checkpoints/latest/ema.safetensors
cmp whole/logs.json.txt broken/logs.json.txt

echo "two ranks continue what one began"
"$dp_bench" train "${small[@]}" training.num_epochs=3 training.max_grad_norm=1 training.max_minutes=1e-9 \
  --output handed >out.txt 2>&1 || fail "$(cat out.txt)"
"${ranks[@]}" train --resume handed training.max_minutes=null >out.txt 2>&1 || fail "$(cat out.txt)"
same_curves handed alone 1e-5

echo "bad input is said once, with the exit code that one process has"
expect_exit 2 "batch_size.* is 1, but 2 ranks" "${ranks[@]}" train "${small[@]}" dataloader.batch_size=1 --output bad1
[ "$(grep -c "is 1, but 2 ranks" out.txt)" -eq 1 ] || fail "more than one rank said it: $(cat out.txt)"
expect_exit 2 "already has files of a training" "${ranks[@]}" train "${small[@]}" --output whole
expect_exit 2 "supports only one" "${ranks[@]}" collect --config-dir "$configs" --env point_mass --output bad.zarr
