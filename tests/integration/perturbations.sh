#!/usr/bin/env bash
# dp_bench eval --perturb: an arm of strength 0 changes no bit, late and noisy actions do. Also the arms' folders, an
# interrupted and continued evaluation with arms, and refused input.
# Usage: perturbations.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
enter_scratch_folder

expect_effects() {  # expect_effects FOLDER EXPRESSION: a Python expression over `arm`, by name, and `control`
  python3 - "$1/perturbations.json" "$2" <<'PYTHON' || fail "$2 is not so: $(cat "$1/perturbations.json")"
import json, sys
effects = json.load(open(sys.argv[1]))
arm, control = {row["name"]: row for row in effects["arms"]}, effects["control"]
sys.exit(not eval("(" + sys.argv[2] + ")"))
PYTHON
}

train_briefly "$dp_bench" "$2" trained
evaluate=("$dp_bench" eval --checkpoint trained/checkpoints/latest env_runner.n_test=12 env_runner.n_train=1
          env_runner.n_videos=1 env_runner.micro_batch=4)
"${evaluate[@]}" --output plain >plain.txt 2>&1 || fail "$(cat plain.txt)"

echo "null changes no bit, delay and noise change every episode"
expect_exit 0 "perturbations.json" "${evaluate[@]}" --output whole --perturb null,delay=2,noise=0.1,delay=5
cmp plain/episodes.jsonl whole/episodes.jsonl || fail "the control is not an evaluation without arms"
[ "$(hashes whole)" = "$(hashes whole/perturbations/null)" ] || fail "null changed a trace"
expect_effects whole 'arm["null"]["n_changed"] == 0 and arm["null"]["score_effect"]["low"] == 0
                      and arm["null"]["score_effect"]["high"] == 0
                      and arm["null"]["success_rate_effect"]["difference"] == 0'
expect_effects whole 'arm["delay=2"]["n_changed"] == 12 and arm["noise=0.1"]["n_changed"] == 12
                      and arm["delay=2"]["score_effect"]["difference"] != 0 and control["n_episodes"] == 12
                      and list(arm) == ["null", "delay=2", "noise=0.1", "delay=5"] and arm["delay=5"]["strength"] == 5'
grep -q "^null .*+0.000 (+0.000 to +0.000) *0/12" out.txt || fail "$(cat out.txt)"
grep -q "<h2>Perturbations</h2>" whole/report.html || fail "the report does not show the arms"

echo "an arm is a run folder: it replays exactly, and cannot be compared with a run without perturbation"
[ -s whole/perturbations/delay=2/media/test_100000.mp4 ] || fail "no video"
expect_exit 0 "trace hash as recorded" "$dp_bench" replay --run whole/perturbations/noise=0.1 --episode 3
expect_exit 4 "env.perturb.delay is absent in whole" "$dp_bench" compare whole whole/perturbations/delay=2
expect_exit 4 "env.perturb.delay is 2" "$dp_bench" diff whole/perturbations/delay=2 whole/perturbations/delay=5
expect_exit 0 "is the baseline now" "$dp_bench" gate --baseline base.json --candidate whole --update-baseline
expect_exit 4 "NOT COMPARABLE: env.perturb" "$dp_bench" gate --baseline base.json --candidate whole/perturbations/null
"${evaluate[@]}" --output late env.perturb.delay=2 >late.txt 2>&1 || fail "$(cat late.txt)"
expect_exit 0 "0 of 13 episodes differ" "$dp_bench" diff whole/perturbations/delay=2 late

echo "neither workers nor processes change an arm"
expect_exit 0 "perturbations.json" "${evaluate[@]}" --output other --perturb delay=2,noise=0.1 --isolate \
  env_runner.n_workers=1 env_runner.n_envs=3
for arm in delay=2 noise=0.1; do
  [ "$(hashes whole/perturbations/$arm)" = "$(hashes other/perturbations/$arm)" ] || fail "$arm depends on the workers"
done

echo "after an interruption in an arm, only the missing episodes run"
"${evaluate[@]}" --output stopped --perturb null,delay=2,noise=0.1,delay=5 >stopped.txt 2>&1 &
until grep -qs trace_hash stopped/perturbations/delay=2/episodes.partial.jsonl; do
  kill -0 $! 2>/dev/null || break
  sleep 0.01
done
kill -INT $! 2>/dev/null || true
expect_ended 75 stopped.txt $!
grep -q -- "--resume stopped --perturb null,delay=2,noise=0.1,delay=5" stopped.txt || fail "$(cat stopped.txt)"
expect_exit 0 "perturbations.json" "$dp_bench" eval --resume stopped --perturb null,delay=2,noise=0.1,delay=5
cmp whole/perturbations.json stopped/perturbations.json || fail "other effects than in one go"
for arm in null delay=2 noise=0.1 delay=5; do
  cmp "whole/perturbations/$arm/episodes.jsonl" "stopped/perturbations/$arm/episodes.jsonl" || fail "$arm"
done

echo "what an env does not have is refused, with all there is"
expect_exit 2 "env 'point_mass' has no perturbation 'light'; it has delay, noise and null" "${evaluate[@]}" --perturb light
expect_exit 2 "has no perturbation 'lite'" "${evaluate[@]}" --perturb delay,lite
expect_exit 2 "expected a number after the '=' of 'delay=x'" "${evaluate[@]}" --perturb delay=x
expect_exit 2 "'delay' is listed twice" "${evaluate[@]}" --perturb delay,delay
expect_exit 2 "env.perturb.delay" "${evaluate[@]}" --perturb delay=-1
expect_exit 2 "arms are compared with an unperturbed" "${evaluate[@]}" --perturb delay env.perturb.noise=0.1
[ ! -d runs ] || fail "a refused evaluation left a run folder"
expect_exit 2 "nothing reads this key" "${evaluate[@]}" env.params.perturb.light=1
echo "perturbations: ok"
