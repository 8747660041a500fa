#!/usr/bin/env bash
# Evaluations that are killed at random moments or ended by a signal, and continued to the same files. Then dp_bench
# replay and dp_bench diff on the results.
# Usage: continued_eval.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
n_kills=${DPB_KILLS:-8}
enter_scratch_folder

small=(--config-dir "$2" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]" policy.params.n_groups=4
       collect.n_episodes=4 training.num_epochs=1 training.lr_warmup_steps=2 training.rollout_every=0 dataloader.batch_size=32)
seeds=(env_runner.n_test=50 env_runner.n_train=2 env_runner.n_videos=2 env_runner.micro_batch=4)
"$dp_bench" train "${small[@]}" --output trained >train.txt 2>&1 || fail "$(cat train.txt)"
evaluate=("$dp_bench" eval --checkpoint trained/checkpoints/latest "${seeds[@]}")
start=$(date +%s%3N)
"${evaluate[@]}" --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"
duration=$(($(date +%s%3N) - start))  # [ms]

expect_whole() {  # expect_whole FOLDER: the results, the videos and nothing else
  local file
  for file in episodes.jsonl eval_log.json media/test_100000.mp4 media/train_0.mp4; do
    cmp "whole/$file" "$1/$file" || fail "$1/$file differs from that of an evaluation in one go"
  done
  [ "$(ls "$1")" = "$(ls whole)" ] || fail "$1 holds $(ls "$1")"
}

# kill each evaluation, perhaps several times, until it finishes
RANDOM=7
n_killed=0 n_finished=0 n_continued=0
while [ "$n_killed" -lt "$n_kills" ]; do
  if [ -d killed ]; then command=("$dp_bench" eval --resume killed); else command=("${evaluate[@]}" --output killed); fi
  "${command[@]}" >killed.txt 2>&1 &
  moment=$((duration * (20 + RANDOM % 80) / 100))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  if kill -9 $! 2>/dev/null; then n_killed=$((n_killed + 1)); fi
  status=0
  wait $! 2>/dev/null || status=$?
  rows=$( (grep trace_hash killed/episodes.partial.jsonl 2>/dev/null || true) | wc -l)
  if [ "$rows" -gt 0 ]; then n_continued=$((n_continued + 1)); fi
  if [ "$status" -eq 0 ]; then
    expect_whole killed
    rm -r killed
    n_finished=$((n_finished + 1))
  else
    [ "$status" -eq 137 ] || fail "it ended with $status: $(cat killed.txt)"
    # killed before there was anything to continue
    [ -f killed/config.json ] || rm -rf killed
  fi
done
if [ -d killed ]; then
  "$dp_bench" eval --resume killed >killed.txt 2>&1 || fail "$(cat killed.txt)"
  expect_whole killed
  n_finished=$((n_finished + 1))
fi
echo "$n_killed kills, $n_continued of them with episodes to go on from; $n_finished evaluations, all as if in one go"

# killed after its last episode, before anything was written about them: it makes no new plans
mkdir unreported
cp -r whole/config.json whole/manifest.json whole/media unreported
cp whole/episodes.jsonl unreported/episodes.partial.jsonl
# another machine of the same outcome class may continue, and one with a new kernel
sed -i -E 's/("(system|cpu)": )"[^"]*"/\1"another"/; s/("threads": )[0-9]+/\1 999/' unreported/manifest.json
cmp -s whole/manifest.json unreported/manifest.json && fail "the manifest names no machine"
"$dp_bench" eval --resume unreported >unreported.txt 2>&1 || fail "$(cat unreported.txt)"
expect_whole unreported

# a signal ends it soon, and it prints the command that continues
expect_stopped stopped "continue with dp_bench eval --resume stopped" "${evaluate[@]}"
"$dp_bench" eval --resume stopped >stopped.txt 2>&1 || fail "$(cat stopped.txt)"
expect_whole stopped
"$dp_bench" eval --resume stopped >stopped.txt 2>&1 || fail "a finished one cannot be resumed: $(cat stopped.txt)"
expect_whole stopped

# more seeds for a finished evaluation, in one step or two, and for an unfinished one: as in one go
fewer=("${evaluate[@]}" env_runner.n_test=20)
"${fewer[@]}" --output extended >extended.txt 2>&1 || fail "$(cat extended.txt)"
cp -r extended mpi
find extended -type f -exec sha256sum {} + | sort >before.txt
expect_exit 2 "only env_runner.n_test=N" "$dp_bench" eval --resume extended env_runner.max_steps=5
expect_exit 2 "only env_runner.n_test=N" "$dp_bench" eval --resume extended env_runner.n_test=25 env_runner.n_envs=2
expect_exit 2 "can only be raised" "$dp_bench" eval --resume extended env_runner.n_test=15
find extended -type f -exec sha256sum {} + | sort | diff before.txt - || fail "a refused command changed files"
for n in 30 50 50; do
  "$dp_bench" eval --resume extended env_runner.n_test=$n >extended.txt 2>&1 || fail "$(cat extended.txt)"
done
expect_whole extended
for file in config.json manifest.json; do cmp whole/$file extended/$file || fail "$file differs"; done
"${fewer[@]}" --output extended2 >extended.txt 2>&1 || fail "$(cat extended.txt)"
mv extended2/episodes.jsonl extended2/episodes.partial.jsonl
sed -i '10,$d' extended2/episodes.partial.jsonl
rm extended2/eval_log.json
"$dp_bench" eval --resume extended2 env_runner.n_test=50 >extended.txt 2>&1 || fail "$(cat extended.txt)"
expect_whole extended2
# the same command continues an extension that was killed
for i in $(seq "$n_kills"); do
  rm -rf extended3
  cp -r mpi extended3
  "$dp_bench" eval --resume extended3 env_runner.n_test=50 >extended.txt 2>&1 &
  sleep "0.$((i * 3 % 7 + 1))$((i % 10))"
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  "$dp_bench" eval --resume extended3 env_runner.n_test=50 >extended.txt 2>&1 || fail "$(cat extended.txt)"
  expect_whole extended3
  for file in config.json manifest.json; do cmp whole/$file extended3/$file || fail "$file differs"; done
done

# more seeds for the evaluation of a run, whose training stays what it is
"$dp_bench" run "${small[@]}" "${seeds[@]}" env_runner.n_test=20 --output ran >ran.txt 2>&1 || fail "$(cat ran.txt)"
cp -r ran ran2
find ran -type f -exec sha256sum {} + | sort >before.txt
expect_exit 2 "only env_runner.n_test=N" "$dp_bench" eval --resume ran env_runner.max_steps=5
expect_exit 2 "can only be raised" "$dp_bench" eval --resume ran env_runner.n_test=15
find ran -type f -exec sha256sum {} + | sort | diff before.txt - || fail "a refused command changed files"
"$dp_bench" eval --resume ran env_runner.n_test=50 >ran.txt 2>&1 || fail "$(cat ran.txt)"
grep -q "rollout .*30/30" ran.txt || fail "it repeated episodes: $(cat ran.txt)"
"$dp_bench" eval --resume ran2 env_runner.n_test=50 >ran.txt 2>&1 &
until [ "$(cat ran2/episodes.partial.jsonl 2>/dev/null | wc -l)" -gt 23 ]; do  # beyond those that were there
  kill -0 $! || fail "it ended before it was killed"
  sleep 0.02
done
kill -9 $!
wait $! 2>/dev/null || true
expect_exit 6 "continue with dp_bench eval --resume ran2" "$dp_bench" compare ran2 ran
"$dp_bench" eval --resume ran2 >ran.txt 2>&1 || fail "$(cat ran.txt)"
for folder in ran ran2; do
  for file in episodes.jsonl media/test_100000.mp4; do cmp whole/$file $folder/$file || fail "$folder/$file differs"; done
  [ ! -e $folder/episodes.partial.jsonl ] || fail "$folder keeps its journal"
  grep -q '"n_selection": 0' $folder/config.json || fail "the training had no seeds: $(cat $folder/config.json)"
  expect_exit 0 "nothing left to train" "$dp_bench" train --resume $folder
done
for file in config.json manifest.json eval_log.json; do cmp ran/$file ran2/$file || fail "ran2/$file differs"; done
"$dp_bench" run "${small[@]}" env_runner.n_test=2 training.num_epochs=2 training.max_minutes=1e-9 --output cut >ran.txt 2>&1 ||
  fail "$(cat ran.txt)"
"$dp_bench" eval --resume cut env_runner.n_test=4 >ran.txt 2>&1 || fail "a training whose time is over: $(cat ran.txt)"
expect_exit 0 "training.max_minutes is over" "$dp_bench" train --resume cut
[ -f cut/eval_log.json ] || fail "a training that did not go on lost its evaluation"
"$dp_bench" train "${small[@]}" training.num_epochs=2 training.max_minutes=1e-9 --output cut2 >ran.txt 2>&1 || fail "$(cat ran.txt)"
expect_exit 2 "nothing was evaluated" "$dp_bench" eval --resume cut2 env_runner.n_test=4
"$dp_bench" train --resume ran training.num_epochs=2 >ran.txt 2>&1 || fail "$(cat ran.txt)"
expect_exit 2 "nothing was evaluated" "$dp_bench" eval --resume ran env_runner.n_test=200
cmp ran/set_aside/1/episodes.jsonl whole/episodes.jsonl || fail "training on lost the evaluation of the earlier weights"

# a value that only a training reads is named
one=("$dp_bench" eval --checkpoint trained/checkpoints/latest env_runner.n_test=1 env_runner.n_train=0 env_runner.n_videos=0)
expect_exit 0 "training.use_ema=false: an evaluation does not read this key, .* --weights" \
  "${one[@]}" training.use_ema=false --output warned
expect_exit 0 "optimizer.lr=0.1: an evaluation does not read this key" "${one[@]}" optimizer.lr=0.1 training.device=cpu --output warned2
! grep -q "training.device=cpu: " out.txt || fail "$(cat out.txt)"

# another evaluation is refused
expect_exit 2 "dp_bench eval --checkpoint trained env_runner.n_test=N" "$dp_bench" eval --resume trained
cp -r whole foreign
sed -i 's/"core_build_id": "/&x/' foreign/manifest.json
expect_exit 2 "another core_build_id" "$dp_bench" eval --resume foreign
expect_exit 2 "excludes" "$dp_bench" eval --resume whole --weights model

# one episode again, larger
"$dp_bench" replay --run whole --episode 5 --size 320 240 >replay.txt 2>&1 || fail "$(cat replay.txt)"
grep -q "trace hash as recorded" replay.txt || fail "$(cat replay.txt)"
[ -s whole/replay/media/test_100003.mp4 ] || fail "no video of the replay"
expect_exit 2 "has no episode 999" "$dp_bench" replay --run whole --episode 999
sed 's/"trace_hash":"./"trace_hash":"x/' whole/episodes.jsonl >foreign/episodes.jsonl
cp whole/manifest.json foreign/
expect_exit 6 "not of one run: eval_log.json is about episodes" "$dp_bench" replay --run foreign --episode 5
without_id foreign
expect_exit 1 "went differently" "$dp_bench" replay --run foreign --episode 5

# where two runs diverge: from recorded steps, and by running the episode again
"$dp_bench" eval --checkpoint trained/checkpoints/latest --weights model env_runner.n_test=3 env_runner.n_train=0 \
  env_runner.micro_batch=4 env_runner.record_traces=true --output other >other.txt 2>&1 || fail "$(cat other.txt)"
expect_exit 0 "0 of 52 episodes differ" "$dp_bench" diff whole stopped
expect_exit 1 "3 of 3 episodes differ" "$dp_bench" diff whole other
grep -q "episode 2 (test seed 100000): first difference at step 0, action\[0\]" out.txt || fail "$(cat out.txt)"
expect_exit 1 "(test seed 100002)" "$dp_bench" diff whole other --episode 4
echo "continued_eval: ok"
