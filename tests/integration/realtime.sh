#!/usr/bin/env bash
# dp_bench eval --realtime and --latencies: success by latency, stale steps, the files of the runs, refused input.
# Usage: realtime.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
enter_scratch_folder
export OMP_NUM_THREADS=1

train_briefly "$dp_bench" "$2" trained
evaluate=("$dp_bench" eval --checkpoint trained/checkpoints/latest env_runner.n_test=6 env_runner.n_train=0
          env_runner.n_videos=0 env_runner.micro_batch=4)
"${evaluate[@]}" --output plain >plain.txt 2>&1 || fail "$(cat plain.txt)"

echo "success against latency: none has no stale step, more has more of them"
expect_exit 0 "curve/realtime.json" "${evaluate[@]}" --output curve --latencies 0,150,450
python3 - <<'PYTHON' || fail "$(cat curve/realtime.json)"
import json
rows = json.load(open("curve/realtime.json"))
assert [row["latency_ms"] for row in rows] == [0, 150, 450]
assert all(row["n_episodes"] == 6 and row["low"] <= row["success_rate"] <= row["high"] for row in rows)
stale = [row["n_stale_steps"] / row["n_steps"] for row in rows]
assert stale[0] == 0 < stale[1] < stale[2] <= 1, stale
for row in rows:
    episodes = [json.loads(line) for line in open(f"curve/{row['folder']}/episodes.jsonl")]
    assert sum(e.get("n_stale_steps", 0) for e in episodes) == row["n_stale_steps"]
PYTHON
grep -q "^ *0 ms .* 0.0 %$" out.txt || fail "$(cat out.txt)"
cmp plain/episodes.jsonl curve/latency_0/episodes.jsonl || fail "a latency of 0 is not an evaluation without one"
if cmp -s plain/episodes.jsonl curve/latency_150/episodes.jsonl; then fail "a latency changed no episode"; fi
for file in eval_log.json report.html; do
  grep -q "n_stale_steps" curve/latency_150/$file || fail "latency_150/$file lacks the stale steps"
done

echo "interrupted, it says how to get the whole curve"
expect_stopped stopped "repeat the command with --overwrite" "${evaluate[@]}" env_runner.n_test=60 --latencies 0,150
expect_exit 0 "stopped/realtime.json" "${evaluate[@]}" --output stopped --overwrite --latencies 0,150

echo "a latency of the config is repeatable, also at another speed"
"${evaluate[@]}" --output given --realtime env_runner.realtime_latency_ms=150 >given.txt 2>&1 || fail "$(cat given.txt)"
cmp given/episodes.jsonl curve/latency_150/episodes.jsonl || fail "other episodes than at this latency of the curve"
grep -q "while the policy was planning" given.txt || fail "$(cat given.txt)"
"${evaluate[@]}" --output fast env_runner.realtime=3 env_runner.realtime_latency_ms=50 >fast.txt 2>&1 || fail "$(cat fast.txt)"
cmp given/episodes.jsonl fast/episodes.jsonl || fail "three times 50 ms are not 150 ms"

echo "without one it is measured, and stays in the run's config"
expect_exit 0 "a plan takes .* ms (median of" "${evaluate[@]}" --output measured --realtime
grep -q '"realtime_latency_ms": [0-9.]*[1-9]' measured/config.json || fail "$(cat measured/config.json)"

echo "runs of different latency are not compared"
expect_exit 4 "simulated latency" "$dp_bench" compare plain given

echo "bad input gives a message and its exit code"
expect_exit 2 "excludes" "${evaluate[@]}" --latencies 100 --perturb delay
expect_exit 2 "not in range" "${evaluate[@]}" --latencies=-1
expect_exit 2 "env_runner.realtime_latency_ms" "${evaluate[@]}" --realtime env_runner.realtime_latency_ms=-1
