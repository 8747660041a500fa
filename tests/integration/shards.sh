#!/usr/bin/env bash
# Shards of an evaluation: any number of them, killed, repeated, or with several ranks each, merge to the files of one process.
# Usage: shards.sh <dp_bench program> <configs folder> <mpirun> [kills of shards, 6 by default] [kills of ranks, 1 by default]
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$(readlink -f "$1") configs=$(readlink -f "$2") mpirun=$3
n_kills=${4:-${DPB_KILLS:-6}}
n_rank_kills=${5:-1}
enter_scratch_folder
train_briefly "$dp_bench" "$configs" trained
evaluate=("$dp_bench" eval --checkpoint trained env_runner.n_test=60 env_runner.n_train=3 env_runner.n_videos=2
          env_runner.micro_batch=4)
"${evaluate[@]}" --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"

expect_whole() {  # expect_whole FOLDER
  local file
  for file in episodes.jsonl eval_log.json config.json media/test_100000.mp4 media/train_0.mp4; do
    cmp "whole/$file" "$1/$file" || fail "$1/$file differs from that of one process"
  done
  [ -s "$1/report.html" ] || fail "$1 has no report"
}

echo "1, 2, 3 and 7 shards, in any order and some of them twice"
for n in 1 2 3 7; do
  for i in $(seq $((n - 1)) -1 0) 0; do
    "${evaluate[@]}" --output "of_$n" --shard "$i/$n" >shard.txt 2>&1 || fail "$(cat shard.txt)"
  done
  grep -q "shard 0 of $n: .* episodes done" shard.txt || fail "$(cat shard.txt)"
  "$dp_bench" merge "of_$n" >merge.txt 2>&1 || fail "$(cat merge.txt)"
  expect_whole "of_$n"
done

echo "parts of other splits that overlap, and a whole run"
"$dp_bench" merge of_2/shard_0_of_2 of_3 whole --output overlapping >merge.txt 2>&1 || fail "$(cat merge.txt)"
grep -q "more than once with the same trace" merge.txt || fail "$(cat merge.txt)"
expect_whole overlapping

echo "shards that are killed at random moments"
RANDOM=11
n_killed=0
while [ "$n_killed" -lt "$n_kills" ]; do
  rm -rf killed
  n_begun=0
  merged=75
  while [ "$merged" -ne 0 ]; do
    for i in 0 1 2; do
      "${evaluate[@]}" --output killed --shard "$i/3" >"killed$i.txt" 2>&1 &
      if [ "$n_begun" -lt 9 ] && [ "$n_killed" -lt "$n_kills" ]; then
        sleep "0.$((4 + RANDOM % 6))"
        kill -9 $! 2>/dev/null || true
      fi
      n_begun=$((n_begun + 1))
      status=0
      wait $! 2>/dev/null || status=$?
      [ "$status" -eq 0 ] || [ "$status" -eq 137 ] || fail "$(cat "killed$i.txt")"
      [ "$status" -eq 0 ] || n_killed=$((n_killed + 1))  # else it was quicker
    done
    merged=0
    "$dp_bench" merge killed >merge.txt 2>&1 || merged=$?
    [ "$merged" -eq 0 ] || [ "$merged" -eq 75 ] || [ "$merged" -eq 2 ] || fail "merge ended with $merged: $(cat merge.txt)"
  done
  expect_whole killed
done
echo "$n_killed shards were killed"

echo "what is missing is run where the merge is"
"${evaluate[@]}" --output part --shard 0/4 >shard.txt 2>&1 || fail "$(cat shard.txt)"
"${evaluate[@]}" --output part --shard 2/4 >shard.txt 2>&1 || fail "$(cat shard.txt)"
expect_exit 75 "31 episodes are missing.*dp_bench eval --resume part" "$dp_bench" merge part --html part.html
grep -q 'http-equiv="refresh"' part.html || fail "the page does not show itself again"
"$dp_bench" eval --resume part >resume.txt 2>&1 || fail "$(cat resume.txt)"
expect_whole part
"$dp_bench" merge part --html part.html >merge.txt 2>&1 || fail "a second merge loses the resumed episodes: $(cat merge.txt)"
expect_whole part

echo "the engine says which shard it is"
for i in 1 2 3; do
  SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3 \
    "${evaluate[@]}" --output array --shard auto >shard.txt 2>&1 || fail "$(cat shard.txt)"
done
"$dp_bench" merge array >merge.txt 2>&1 || fail "$(cat merge.txt)"
expect_whole array

echo "what cannot be merged"
"${evaluate[@]}" --output other --shard 0/2 env_runner.max_steps=9 >shard.txt 2>&1 || fail "$(cat shard.txt)"
expect_exit 6 "they differ in config/env_runner/max_steps" "$dp_bench" merge of_2/shard_0_of_2 other --output mixed
expect_exit 2 "begun with another config" "${evaluate[@]}" --output other --shard 0/2
expect_exit 2 "needs --output" "${evaluate[@]}" --shard 0/2
expect_exit 2 "i from 0 to n - 1" "${evaluate[@]}" --output other --shard 2/2
expect_exit 2 "nothing says which part" "${evaluate[@]}" --output other --shard auto
mkdir empty
expect_exit 2 "no evaluation and no shards" "$dp_bench" merge empty

echo "--overwrite begins a shard of another config again"
"${evaluate[@]}" --output other --shard 0/2 --overwrite >shard.txt 2>&1 || fail "$(cat shard.txt)"
episodes_of() { sort "$1/shard_0_of_2/episodes.partial.jsonl"; }
diff <(episodes_of of_2) <(episodes_of other) || fail "it has other episodes"

echo "demonstrations in parts"
for i in 0 1 2; do
  "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 10 --output demonstrations --shard "$i/3" >collect.txt 2>&1 || fail "$(cat collect.txt)"
done
"$dp_bench" dataset merge demonstrations/shard_*.zarr --output joined.zarr >joined.txt 2>&1 || fail "$(cat joined.txt)"
"$dp_bench" dataset info joined.zarr >info.txt 2>&1 || fail "$(cat info.txt)"
grep -q "10 episodes" info.txt || fail "$(cat info.txt)"

echo "two shards ask one policy server at once"
"$dp_bench" serve --checkpoint trained --port 0 >server.txt 2>server_log.txt &
server=$!
until [ -s server.txt ]; do kill -0 $server || fail "$(cat server_log.txt)"; sleep 0.05; done
remote=("$dp_bench" eval --config-dir "$configs" --policy remote --env point_mass "policy.params.url=$(cat server.txt)"
        env_runner.n_test=40 env_runner.n_videos=0)
"${remote[@]}" --output remote_whole >remote.txt 2>&1 || fail "$(cat remote.txt)"
"${remote[@]}" --output remote --shard 0/2 >remote0.txt 2>&1 &
"${remote[@]}" --output remote --shard 1/2 >remote1.txt 2>&1 || fail "$(cat remote1.txt)"
wait $! || fail "$(cat remote0.txt)"
kill $server
"$dp_bench" merge remote >merge.txt 2>&1 || fail "$(cat merge.txt)"
cmp remote_whole/episodes.jsonl remote/episodes.jsonl || fail "shards that share a server have other outcomes"

echo "a merge ends with the exit code of one process: here all episodes broke"
mkdir broken
cp -r of_2/shard_* broken
sed -i -E 's/"failure_reason": *null/"failure_reason": "the env broke"/' broken/*/episodes*.jsonl
expect_exit 5 "episodes failed" "$dp_bench" merge broken

if [ -z "$mpirun" ]; then exit 0; fi
echo "ranks take one episode after the other, and a shard may have several"
ranks=("$mpirun" --oversubscribe -n)
"${ranks[@]}" 3 "${evaluate[@]}" --output ranks >ranks.txt 2>&1 || fail "$(cat ranks.txt)"
expect_whole ranks
"${ranks[@]}" 2 "${evaluate[@]}" --output mixed_ranks --shard 0/2 >ranks.txt 2>&1 || fail "$(cat ranks.txt)"
"${evaluate[@]}" --output mixed_ranks --shard 1/2 >shard.txt 2>&1 || fail "$(cat shard.txt)"
"$dp_bench" merge mixed_ranks >merge.txt 2>&1 || fail "$(cat merge.txt)"
expect_whole mixed_ranks

echo "ranks that know nothing of each other collect a shard each"
"${ranks[@]}" 2 "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 10 --output ranks_apart --shard auto \
  >collect.txt 2>&1 || fail "$(cat collect.txt)"
"$dp_bench" dataset merge ranks_apart/shard_*.zarr --output ranks_apart.zarr >joined.txt 2>&1 || fail "$(cat joined.txt)"
"$dp_bench" dataset info ranks_apart.zarr >info.txt 2>&1 || fail "$(cat info.txt)"
grep -q "10 episodes" info.txt || fail "$(cat info.txt)"

echo "a rank that dies costs only its running episodes; the evaluation continues with any number of ranks"
n_killed=0
while [ "$n_killed" -lt "$n_rank_kills" ]; do
  rm -rf died
  "${ranks[@]}" 3 "${evaluate[@]}" --output died >ranks.txt 2>&1 &
  job=$!
  n_episodes=$((RANDOM % 30))
  [ "$n_episodes" -gt 0 ] || sleep "0.$((3 + RANDOM % 7))"  # while it begins
  until [ "$(cat died/episodes.partial*.jsonl 2>/dev/null | grep -c trace_hash)" -ge "$n_episodes" ]; do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.02
  done
  kill -9 "$(pgrep -P "$job" | sed -n "$((1 + RANDOM % 3))p")" 2>/dev/null || true  # mpirun ends the other ranks
  wait "$job" 2>/dev/null || true
  if [ -f died/eval_log.json ]; then continue; fi  # it was quicker
  n_killed=$((n_killed + 1))
  if [ -f died/config.json ]; then
    n_ranks=$((1 + n_killed % 3))
    "${ranks[@]}" "$n_ranks" "$dp_bench" eval --resume died >ranks.txt 2>&1 || fail "$(cat ranks.txt)"
  else  # before it began
    "${ranks[@]}" 2 "${evaluate[@]}" --output died >ranks.txt 2>&1 || fail "$(cat ranks.txt)"
  fi
  expect_whole died
done
echo "$n_killed ranks were killed"
