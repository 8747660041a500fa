#!/usr/bin/env bash
# dp_bench eval --realtime, --latencies and --delays: success by latency, stale steps, methods, the files of the runs,
# refused input.
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
expect_exit 0 "curve/delays.html" "${evaluate[@]}" --output curve --latencies 0,150,450
python3 - <<'PYTHON' || fail "$(cat curve/delays.json)"
import json
rows = json.load(open("curve/delays.json"))["rows"]
assert [row["delay_ms"] for row in rows] == [0, 150, 450]
assert all(row["n_episodes"] == 6 and row["low"] <= row["success_rate"] <= row["high"] for row in rows)
stale = [row["n_stale_steps"] / row["n_steps"] for row in rows]
assert stale[0] == 0 < stale[1] < stale[2] <= 1, stale
for row in rows:
    episodes = [json.loads(line) for line in open(f"curve/{row['folder']}/episodes.jsonl")]
    assert sum(e.get("n_stale_steps", 0) for e in episodes) == row["n_stale_steps"]
PYTHON
grep -q "^naive *0 ms .* 0.0 %" out.txt || fail "$(cat out.txt)"
cmp plain/episodes.jsonl curve/naive_latency_0/episodes.jsonl || fail "a latency of 0 is not an evaluation without one"
if cmp -s plain/episodes.jsonl curve/naive_latency_150/episodes.jsonl; then fail "a latency changed no episode"; fi
for file in eval_log.json report.html; do
  grep -q "n_stale_steps" curve/naive_latency_150/$file || fail "naive_latency_150/$file lacks the stale steps"
done

expect_exit 2 "policy.params.max_prefix" "${evaluate[@]}" --output plain --overwrite \
  env_runner.chunking.method=training_time_rtc env_runner.chunking.delay=1
[ -e plain/eval_log.json ] || fail "a refused command removed the results"
"${evaluate[@]}" --output mean --delays 0 --chunking naive temporal_ensemble_coeff=0.01 >out.txt 2>&1 || fail "$(cat out.txt)"
cmp plain/episodes.jsonl mean/naive_delay_0/episodes.jsonl || fail "naive averages plans"
"${evaluate[@]}" --output mean_too --delays 0 temporal_ensemble_coeff=0.01 >out.txt 2>&1 || fail "$(cat out.txt)"
[ -d mean_too/temporal_ensembling_delay_0 ] || fail "a grid of an ensembling policy is not called so: $(ls mean_too)"

for other in realtime=false:env_runner.realtime=true,--delays chunking.delay=0:env_runner.chunking.delay=3,--latencies \
  chunking.latency.distribution=none:env_runner.chunking.latency.distribution=long_tail,--delays; do
  IFS=, read -r given list <<<"${other#*:}"
  expect_exit 2 "and so does the config: set env_runner.${other%%:*}" "${evaluate[@]}" --output refused_grid "$list" 0 "$given"
done
expect_exit 0 "of_delays/delays.html" "${evaluate[@]}" --output of_delays --delays 0 env_runner.chunking.delay=3
expect_exit 2 "begin again in another --output, and set env_runner.chunking.delay=0" \
  "$dp_bench" eval --resume of_delays --latencies 0

echo "interrupted, it continues, and has the curve of one that was not"
expect_stopped stopped "repeat the command with --resume stopped" "${evaluate[@]}" env_runner.n_test=60 --latencies 0,150
expect_exit 0 "stopped/delays.html" "$dp_bench" eval --resume stopped --latencies 0,150
"${evaluate[@]}" env_runner.n_test=60 --latencies 0,150 --output whole >out.txt 2>&1 || fail "$(cat out.txt)"
for point in naive_latency_0 naive_latency_150; do
  cmp "stopped/$point/episodes.jsonl" "whole/$point/episodes.jsonl" || fail "$point has other episodes"
done
expect_exit 2 "with its own config" "$dp_bench" eval --resume stopped --latencies 0,150 env_runner.n_test=8

echo "a grid of delays, steps and methods, on the same seeds"
for again in 1 2; do  # a head may replace another one
  "$dp_bench" correct --checkpoint trained/checkpoints/latest --output a2c2.safetensors --steps 20 >out.txt 2>&1 || fail "$(cat out.txt)"
done
grid=("${evaluate[@]}" --delays 0,2,4 --execute 2,4 --chunking naive,rtc,hard_prefix,bid,temporal_ensembling,a2c2,state_roll_forward
      env_runner.chunking.n_samples=2 env_runner.chunking.corrector=a2c2.safetensors
      'env_runner.chunking.followed_actions={"agent_pos":[0,1]}')
"${grid[@]}" --output grid >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q "note: left out, because the delay is longer than execute: naive_delay_4_execute_2, rtc_delay_4" out.txt || fail "$(cat out.txt)"
"${grid[@]}" env_runner.n_workers=1 --output grid_1 >out.txt 2>&1 || fail "$(cat out.txt)"
python3 - <<'PYTHON' || fail "$(cat grid/delays.json)"
import json
rows = json.load(open("grid/delays.json"))["rows"]
assert len(rows) == 7 * 5, len(rows)  # a delay of 4 does not go with 2 executed steps
traces = {}
for row in rows:
    file = f"{row['folder']}/episodes.jsonl"
    assert open(f"grid/{file}").read() == open(f"grid_1/{file}").read(), file  # for any number of workers
    episodes = [json.loads(line) for line in open(f"grid/{file}")]
    traces[row["method"], row["delay"], row["execute"]] = [e["trace_hash"] for e in episodes]
    assert (row["against_naive"] is None) == (row["method"] == "naive"), row
    assert (row["against_waiting"] is None) == (row["delay"] == 0), row
for method in ("rtc", "bid", "temporal_ensembling", "a2c2"):
    assert traces[method, 2, 4] != traces["naive", 2, 4], method
assert traces["hard_prefix", 0, 4] == traces["naive", 0, 4]  # nothing is executed in any case
assert traces["state_roll_forward", 0, 4] == traces["naive", 0, 4]
PYTHON

echo "a resumed grid gets new points and keeps the old ones; late plans are named"
expect_exit 0 "note: plans are late at naive_delay_2_execute_8: a chunk has 8 actions" \
  "$dp_bench" eval --resume grid_1 --delays 2 --execute 8 --chunking naive
python3 - <<'PYTHON' || fail "$(cat grid_1/delays.json)"
import json
rows = json.load(open("grid_1/delays.json"))["rows"]
assert rows[:-1] == json.load(open("grid/delays.json"))["rows"]
assert rows[-1]["execute"] == 8 and rows[-1]["late_share"] > 0, rows[-1]
PYTHON

echo "new points of another env have the config of the old ones"
"${evaluate[@]}" --env point_mass --config-dir "$2" --delays 0 --execute 4 --output of_env >out.txt 2>&1 || fail "$(cat out.txt)"
"$dp_bench" eval --resume of_env --delays 2 --execute 4 >out.txt 2>&1 || fail "$(cat out.txt)"
config_of() { grep -v '"delay":' "of_env/naive_delay_$1_execute_4/config.json"; }
diff <(config_of 0) <(config_of 2) || fail "a resumed grid lost its config"

echo "two grids on one page: a curve for each policy and method, paired"
"${evaluate[@]}" --output other --weights model --delays 0,2 --execute 4 --chunking naive,rtc >out.txt 2>&1 || fail "$(cat out.txt)"
expect_exit 0 "report: both.html" "$dp_bench" compare grid other --html both.html --json both.json
expect_exit 2 "compare of grids does not use --interval" "$dp_bench" compare grid other --interval wilson
python3 - <<'PYTHON' || fail "$(cat both.json)"
import json, os, re
rows = json.load(open("both.json"))["rows"]
assert len(rows) == 7 * 5 + 4, len(rows)
for row in rows:
    assert (row["against_first"] is None) == (row["policy"] == "grid"), row
page = open("both.html").read()
assert "other, rtc" in page and "grid, bid" in page
links = re.findall(r'<td><a href="([^"]*)"', page)
assert len(links) == len(rows) and all(os.path.exists(link) for link in links), links
PYTHON
expect_exit 0 "^other *rtc *2 *4 " "$dp_bench" compare grid other
"${evaluate[@]}" env_runner.test_start_seed=7 --output elsewhere --latencies 0 >out.txt 2>&1 || fail "$(cat out.txt)"
expect_exit 4 "not comparable: the list of test seeds" "$dp_bench" compare curve elsewhere
expect_exit 4 "no delay with the same execute" "$dp_bench" compare grid curve
expect_exit 2 "is a grid of evaluations; expected only such, or none" "$dp_bench" compare grid plain
mkdir empty
echo '{"points": []}' >empty/delays.json
expect_exit 6 "the grid has no point" "$dp_bench" compare grid empty

echo "latencies of a file are drawn, and stay in the run's config"
printf 'ms\n90\n110\n450\n' >robot.csv
drawn=("${evaluate[@]}" env_runner.chunking.latency.distribution=measured env_runner.chunking.latency.file=robot.csv)
"${drawn[@]}" --output drawn >out.txt 2>&1 || fail "$(cat out.txt)"
rm robot.csv
grep -q '"samples_ms": *\[' drawn/config.json || fail "$(cat drawn/config.json)"
"$dp_bench" replay --run drawn --episode 0 >out.txt 2>&1 || fail "$(cat out.txt)"
printf '90\nsoon\n' >robot.csv
expect_exit 6 "robot.csv, line 2: expected a time in ms" "${drawn[@]}" --output refused

echo "a latency of the config is repeatable, also at another speed"
"${evaluate[@]}" --output given --realtime env_runner.realtime_latency_ms=150 >given.txt 2>&1 || fail "$(cat given.txt)"
cmp given/episodes.jsonl curve/naive_latency_150/episodes.jsonl || fail "other episodes than at this latency of the curve"
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
expect_exit 2 "expected some of naive" "${evaluate[@]}" --delays 1 --chunking mine
expect_exit 2 "needs the file that" "${evaluate[@]}" --delays 1 --chunking a2c2
expect_exit 2 "which observations follow which actions" "${evaluate[@]}" --delays 1 --chunking state_roll_forward
expect_exit 2 "trained with policy.params.max_prefix" "${evaluate[@]}" --delays 1 --chunking training_time_rtc
expect_exit 2 "--execute and --chunking are lists" "${evaluate[@]}" --execute 4
expect_exit 2 "the grid has no point" "${evaluate[@]}" --delays 4 --execute 2
expect_exit 2 "--verify-against judges a single evaluation" "${evaluate[@]}" --verify-against trained --delays 0 --output verified
expect_exit 2 "give env_runner.realtime_latency_ms" "${evaluate[@]}" --verify-against trained --realtime --output verified
[ ! -e verified ] && [ ! -e verified_reference ] || fail "the verification began"
expect_exit 2 "env_runner.realtime_latency_ms" "${evaluate[@]}" --realtime env_runner.realtime_latency_ms=-1
