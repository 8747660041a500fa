#!/usr/bin/env bash
# dp_bench compare: two evaluations of one checkpoint, runs that differ on known seeds, three runs, JSON, and what is
# refused. dp_bench gate: a baseline, every verdict with its exit code, and its files.
# Usage: compare.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
compare=("$dp_bench" compare)

expect_json() {  # expect_json EXPRESSION COMMAND...: a Python expression over `found`
  local expression=$1
  shift
  "$@" --json found.json >out.txt 2>&1 || fail "$*: $(cat out.txt)"
  python3 - "$expression" <<'PYTHON' || fail "$* does not satisfy $expression: $(cat found.json)"
import json, sys
found = json.load(open("found.json"))
sys.exit(not eval("(" + sys.argv[1] + ")"))
PYTHON
}

outcomes() {  # outcomes FOLDER LETTERS: a copy of `real` whose episodes succeed (s) or do not (f)
  cp -r real "$1"
  python3 - "$1/episodes.jsonl" "$2" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == len(sys.argv[2]), rows
for row, letter in zip(rows, sys.argv[2]):
    row["success"], row["score"] = letter == "s", 1.0 if letter == "s" else 0.5
open(sys.argv[1], "w").writelines(json.dumps(row) + "\n" for row in rows)
PYTHON
}

"$dp_bench" run --config-dir "$2" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]" \
  policy.params.n_groups=4 collect.n_episodes=4 training.num_epochs=1 training.lr_warmup_steps=2 \
  dataloader.batch_size=32 env_runner.n_test=10 env_runner.n_videos=2 env_runner.micro_batch=4 \
  env_runner.max_steps=20 --output real >run.txt 2>&1 || fail "$(cat run.txt)"

echo "a run and its evaluation show no difference"
"$dp_bench" eval --checkpoint real/checkpoints/latest --output again >eval.txt 2>&1 || fail "$(cat eval.txt)"
expect_exit 0 "B against A, 10 shared seeds" "${compare[@]}" real again
expect_exit 0 "success rate  +0.000" "${compare[@]}" real again
expect_json 'found["comparisons"][0]["discordant"] == [] and found["comparisons"][0]["mcnemar"]["p_exact"] == 1
             and found["comparisons"][0]["score"]["std_dev"] == 0 and found["notes"] == []' "${compare[@]}" real again

echo "known differences are told, with the seeds and their videos"
outcomes a ssssffffff
outcomes b fsssssssff
outcomes c ffffffffff
expect_exit 0 "success rate  +0.300  95 % interval" "${compare[@]}" a b
for line in "^A  *0.400  0.168 to 0.687 *4/10" "both succeed 3, only A 1, only B 4, neither 2" \
            "McNemar       p = 0.3750 (exact, two-sided)$" \
            "only A succeeds  seed 100000  a/media/test_100000.mp4  b/media/test_100000.mp4" \
            "only B succeeds  seed 100004  no video  no video" "a difference of 5 points takes about .* more"; do
  grep -q -- "$line" out.txt || fail "no line '$line': $(cat out.txt)"
done

echo "several candidates are corrected for, by name"
expect_exit 0 "with Holm's correction for 2 candidates" "${compare[@]}" a b c
grep -q "the best of several runs" out.txt || fail "$(cat out.txt)"
expect_json 'found["correction"] == "holm" and [r["label"] for r in found["runs"]] == ["A", "B", "C"]
             and found["comparisons"][1]["success_rate"]["difference"] == -0.4
             and [d["seed"] for d in found["comparisons"][1]["discordant"]] == list(range(100000, 100004))
             and found["difference_to_detect"] == 0.1' "${compare[@]}" a b c --difference 0.1

echo "runs that are not comparable are refused, with the field"
outcomes other sssssfffff
sed -i 's/"max_steps": 20/"max_steps": 25/' other/config.json
expect_exit 4 "env_runner.max_steps is 20 in a, 25 in other" "${compare[@]}" a other
expect_exit 0 "NOT COMPARABLE: env_runner.max_steps" "${compare[@]}" a other --force
outcomes fewer ssssssssss
sed -i '1,3d' fewer/episodes.jsonl
expect_exit 4 "test seeds is 10 from 100000 to 100009 in a, 7 from 100003 to 100009 in fewer" "${compare[@]}" a fewer
expect_exit 0 "B did not run: 100000, 100001, 100002" "${compare[@]}" a fewer --force

echo "episodes alone are enough, with a remark"
mkdir bare
cp b/episodes.jsonl bare
expect_exit 0 "bare has no config.json" "${compare[@]}" a bare

echo "bad input says what is wrong, with its own exit code"
expect_exit 2 "runs" "${compare[@]}" a
expect_exit 2 "nowhere" "${compare[@]}" a nowhere
expect_exit 2 "not in range" "${compare[@]}" a b --difference 0
mkdir empty
expect_exit 6 "empty has no test episodes" "${compare[@]}" a empty
cat b/episodes.jsonl b/episodes.jsonl >bare/episodes.jsonl
expect_exit 6 "two test episodes of seed 100000" "${compare[@]}" a bare
echo "{" >bare/episodes.jsonl
expect_exit 6 "bare/episodes.jsonl:1: not the row of an episode" "${compare[@]}" a bare

echo "the gate passes what did not change, and fails what broke"
gate=("$dp_bench" gate --baseline baseline.json)
expect_exit 0 "real is the baseline now" "${gate[@]}" --candidate real --update-baseline
expect_exit 0 "PASS: no change: 10 of 10" "${gate[@]}" --candidate again --json gate.json --junit gate.xml --markdown gate.md
python3 -c 'import json, xml.etree.ElementTree as xml
found, suite = json.load(open("gate.json")), xml.parse("gate.xml").getroot()
assert found["status"] == "PASS" and found["signature"] and found["exit_code"] == 0, found
assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")' || fail "gate.json, gate.xml"
grep -q "### Success rate: PASS" gate.md || fail "$(cat gate.md)"
outcomes good ssssssssss
sed -i 's/"trace_hash": "[0-9a-f]*"/"trace_hash": "other"/' good/episodes.jsonl
expect_exit 0 "is the baseline now" "${gate[@]}" --candidate good --update-baseline
expect_exit 1 "FAIL: after 10 seeds a drop" "${gate[@]}" --candidate c --junit gate.xml
grep -q '<failure message="FAIL' gate.xml || fail "$(cat gate.xml)"
expect_exit 3 "INCONCLUSIVE: 10 seeds neither" "${gate[@]}" --candidate b
expect_exit 3 "exclude one of 5 points" "${gate[@]}" --candidate b --nightly
expect_exit 0 "a drop of 90 points is excluded" "${gate[@]}" --candidate b --margin 0.9
expect_exit 4 "NOT COMPARABLE: env_runner.max_steps" "${gate[@]}" --candidate other
sed 's/"failure_reason": null/"failure_reason": "the env threw"/' good/episodes.jsonl >bare/episodes.jsonl
expect_exit 5 "INFRA: 10 of 10 episodes of bare broke" "${gate[@]}" --candidate bare
expect_exit 2 "margin" "${gate[@]}" --candidate b --margin 1.5
expect_exit 6 "not a baseline" "$dp_bench" gate --baseline a/config.json --candidate b
expect_exit 6 "has no test episodes" "${gate[@]}" --candidate empty
