#!/usr/bin/env bash
# dp_bench compare: two evaluations of one checkpoint, runs that differ on known seeds, three runs, JSON, and refused
# input. dp_bench gate: a baseline, every verdict with its exit code, and its files.
# Usage: compare.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
enter_scratch_folder
compare=("$dp_bench" compare)

expect_json() {  # expect_json EXPRESSION COMMAND...: a Python expression over `found`
  local expression=$1
  shift
  rm -f found.json  # the answers to --published, --real and --allocate are another kind of file
  "$@" --json found.json >out.txt 2>&1 || fail "$*: $(cat out.txt)"
  python3 - "$expression" <<'PYTHON' || fail "$* does not satisfy $expression: $(cat found.json)"
import json, sys
found = json.load(open("found.json"))
sys.exit(not eval("(" + sys.argv[1] + ")"))
PYTHON
}

outcomes() {  # outcomes FOLDER LETTERS: a copy of `real` whose episodes succeed (s) or do not (f)
  cp -r real "$1"
  without_id "$1"
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

echo "an empty file name is no file name"
expect_exit 2 "--json: expected a value, found none" "${compare[@]}" real real --json ""

echo "a run and its evaluation show no difference"
"$dp_bench" eval --checkpoint real/checkpoints/latest --output again >eval.txt 2>&1 || fail "$(cat eval.txt)"
expect_exit 0 "B against A, 10 shared seeds" "${compare[@]}" real again
expect_exit 0 "success rate  +0.000" "${compare[@]}" real again
expect_json 'found["comparisons"][0]["discordant"] == [] and found["comparisons"][0]["mcnemar"]["p_exact"] == 1
             and found["comparisons"][0]["score"]["std_dev"] == 0 and found["notes"] == []' "${compare[@]}" real again

echo "a result of another program is compared unpaired, unless its seeds are said to be the same"
{ echo "seed,success"; for i in 0 1 2 3 4 5 6 7 8 9; do echo "$((100000 + i)),0"; done; } >theirs.csv
expect_exit 0 "B against A, unpaired: the seeds of real are from dp_bench, those of theirs.csv from a table" "${compare[@]}" real theirs.csv --html page.html
grep -q "(Newcombe, unpaired)" page.html || fail "the page does not say unpaired"
expect_exit 0 "B against A, 10 shared seeds" "${compare[@]}" real theirs.csv --same-seeds
expect_exit 0 "is the baseline now" "$dp_bench" gate --baseline theirs.json --update-baseline --candidate theirs.csv
expect_exit 3 "unpaired" "$dp_bench" gate --baseline theirs.json --candidate real

echo "known differences are told, with the seeds and their videos"
outcomes a ssssffffff
outcomes b fsssssssff
outcomes c ffffffffff
expect_exit 0 "success rate  +0.300  95 % interval" "${compare[@]}" a b
for line in "^A  *0.400  0.168 to 0.687 *4/10" "both succeed 3, only A 1, only B 4, neither 2" \
            "McNemar       p = 0.375 (exact, two-sided)$" \
            "only A succeeds  seed 100000  a/media/test_100000.mp4  b/media/test_100000.mp4" \
            "only B succeeds  seed 100004  no video  no video" "a difference of 5 points takes about .* more"; do
  grep -q -- "$line" out.txt || fail "no line '$line': $(cat out.txt)"
done

echo "several candidates are corrected for, by name"
expect_exit 0 "with Holm's correction for 2 candidates" "${compare[@]}" a b c
grep -q "B, the best of 3 runs" out.txt || fail "$(cat out.txt)"
expect_json 'found["correction"] == "holm" and [r["label"] for r in found["runs"]] == ["A", "B", "C"]
             and found["comparisons"][1]["success_rate"]["difference"] == -0.4
             and [d["seed"] for d in found["comparisons"][1]["discordant"]] == list(range(100000, 100004))
             and found["difference_to_detect"] == 0.1' "${compare[@]}" a b c --difference 0.1

echo "a page shows it all, with the videos that are there"
expect_exit 0 "report: pages.html" "${compare[@]}" a b c --html pages.html --interval clopper-pearson
for text in "./a/media/test_100000.mp4" "./b/media/test_100000.mp4" "Clopper-Pearson" "<th>letters</th>" "no video"; do
  grep -q "$text" pages.html || fail "no '$text' in the page"
done
! grep -q "http" pages.html || fail "the page wants the network"
expect_json 'len(found["all_pairs"]) == 3
             and found["runs"][0]["success_rate"]["method"] == "clopper_pearson"
             and all(r["letters"] for r in found["runs"])' "${compare[@]}" a b c --interval clopper-pearson
expect_exit 2 "interval" "${compare[@]}" a b --interval wald
expect_exit 6 "nowhere" "${compare[@]}" a b --html nowhere/page.html

echo "runs that are not comparable are refused, with the field"
outcomes other sssssfffff
sed -i 's/"max_steps": 20/"max_steps": 25/' other/config.json
expect_exit 4 "env_runner.max_steps is 20 in a, 25 in other" "${compare[@]}" a other
expect_exit 0 "NOT COMPARABLE: env_runner.max_steps" "${compare[@]}" a other --force
outcomes fewer ssssssssss
sed -i '1,3d' fewer/episodes.jsonl
expect_exit 0 "B did not run: 100000, 100001, 100002" "${compare[@]}" a fewer
cp -r a elsewhere
sed -i -E 's/("seed": *)10000/\120000/' elsewhere/episodes.jsonl
many=()
for ((i = 0; i < 26; i++)); do many+=(b); done
expect_exit 2 "expected at most 26 runs, found 27" "${compare[@]}" a "${many[@]}"
expect_exit 4 "the list of test seeds is 10 from 100000 to 100009 in a, 10 from 200000 to 200009 in elsewhere" "${compare[@]}" a elsewhere

echo "episodes.jsonl alone is enough, with a note"
mkdir bare
cp b/episodes.jsonl bare
expect_exit 0 "bare has no config.json" "${compare[@]}" a bare

echo "a published number, a real robot, and the next episodes"
expect_exit 0 "^CREDIBLE" "${compare[@]}" a --published 5/10
expect_json 'found["verdict"] == "ours is lower" and found["published"]["n_success"] == 990' "${compare[@]}" a --published 99%/1000
expect_exit 2 "expected successes and episodes" "${compare[@]}" a --published 11/10
printf 'seed,success\n0,1\n1,0\n' >result.csv
expect_exit 2 "is named twice" "${compare[@]}" result.csv ./result.csv --published 4/5
printf 'seed,success\n100000,1\n100001,0\n100002,1\n' >real.csv
expect_json 'found["simulated"]["n"] == 10 and found["real_alone"]["n"] == 3 and found["low"] < found["rate"] < found["high"]' \
  "${compare[@]}" a --real real.csv
printf 'seed,success\n7,1\n' >elsewhere.csv
expect_exit 4 "'a' and 'elsewhere.csv' share no test seed" "${compare[@]}" a --real elsewhere.csv --json unpaired.json
[ ! -e unpaired.json ] || fail "an answer without a shared seed"
printf 'seed,success,task\n0,0,lift\n0,1,push\n' >tasks.csv
expect_exit 4 "tasks.csv has the tasks lift, push, result.csv has no names of tasks" "${compare[@]}" tasks.csv --real result.csv
expect_exit 0 "unpaired: tasks.csv has the tasks lift, push" "${compare[@]}" tasks.csv result.csv
expect_exit 2 "--real needs one run" "${compare[@]}" a b --real real.csv
expect_exit 2 "give one" "${compare[@]}" a --real real.csv --published 5/10
expect_json '0 < found["n_episodes"] <= 6 and found["policies"][0]["n_more"] == found["policies"][1]["n_more"] > 0' \
  "${compare[@]}" a b --allocate 6
expect_exit 0 "dp_bench eval --resume a env_runner.n_test=1" "${compare[@]}" a b --allocate 6

expect_exit 2 "is named twice" "${compare[@]}" a a/ --allocate 6
expect_exit 4 "env_runner.max_steps is 20 in a" "${compare[@]}" a other --allocate 6
expect_exit 4 "env_runner.max_steps is 20 in a" "${compare[@]}" a other --published 5/10
expect_exit 2 "is named twice" "${compare[@]}" a a/ --published 5/10
cp -r a a_copy
expect_exit 2 "a and a_copy have the same episode of test seed 100000" "${compare[@]}" a a_copy --published 5/10

echo "options without effect are refused, before anything is written"
expect_exit 2 "compare --published does not use --html" "${compare[@]}" a --published 5/10 --html refused.html --json refused.json
expect_exit 2 "compare --real does not use --interval" "${compare[@]}" a --real real.csv --interval wilson
expect_exit 2 "compare --allocate does not use --html" "${compare[@]}" a b --allocate 6 --html refused.html
for option in "--json refused.json" "--junit refused.xml" "--markdown refused.md" "--max-pairs 60" --nightly --same-seeds; do
  # shellcheck disable=SC2086
  expect_exit 2 "gate --update-baseline does not use ${option%% *}" \
    "$dp_bench" gate --baseline refused.json --update-baseline --candidate a $option
done
expect_exit 0 "is the baseline now" "$dp_bench" gate --baseline planned.json --update-baseline --candidate a
expect_exit 2 "gate --plan does not use --junit" "$dp_bench" gate --baseline planned.json --plan --junit refused.xml
expect_exit 2 "gate --plan does not use --output" "$dp_bench" gate --baseline planned.json --plan --output refused
for option in "--output refused" --overwrite "--weights ema" "--device cpu"; do
  # shellcheck disable=SC2086
  expect_exit 2 "${option%% *} is for rollouts of a checkpoint, but no --candidate is a checkpoint" \
    "$dp_bench" gate --baseline planned.json --candidate a $option
done
! ls -d refused* >out.txt 2>/dev/null || fail "a refused command wrote $(cat out.txt)"

echo "bad input gives a message and its exit code"
expect_exit 2 "two runs or more, or one with" "${compare[@]}" a
expect_exit 2 "nowhere" "${compare[@]}" a nowhere
expect_exit 2 "not in range" "${compare[@]}" a b --difference 0
mkdir empty
expect_exit 6 "empty has no test episodes" "${compare[@]}" a empty
cat b/episodes.jsonl b/episodes.jsonl >bare/episodes.jsonl
expect_exit 6 "two test episodes of seed 100000" "${compare[@]}" a bare
echo "{" >bare/episodes.jsonl
expect_exit 6 "bare/episodes.jsonl:1: not an episode's row" "${compare[@]}" a bare

echo "the gate passes what did not change, and fails what broke"
gate=("$dp_bench" gate --baseline baseline.json)
expect_exit 0 "real is the baseline now" "${gate[@]}" --candidate real --update-baseline
expect_exit 0 "PASS: no change: 10 of 10" "${gate[@]}" --candidate again --json gate.json --junit gate.xml --markdown gate.md
python3 -c 'import json, xml.etree.ElementTree as xml
found, suite = json.load(open("gate.json")), xml.parse("gate.xml").getroot()
assert found["status"] == "PASS" and found["tasks"][0]["signature"] and found["exit_code"] == 0, found
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

echo "an inconclusive gate continues with more seeds, and equals an uninterrupted one"
part() {  # part FOLDER RUN N: its first N episodes
  cp -r "$2" "$1"
  head -n "$3" "$2/episodes.jsonl" >"$1/episodes.jsonl"
}
part b6 b 6
part good6 good 6
expect_exit 0 "is the baseline now" "${gate[@]}" --candidate good --update-baseline
expect_exit 3 "INCONCLUSIVE: 6 seeds" "${gate[@]}" --candidate b6 --json stopped.json
expect_exit 3 "INCONCLUSIVE: 10 seeds" "${gate[@]}" --candidate b --continue stopped.json --json continued.json
expect_exit 3 "INCONCLUSIVE: 10 seeds" "${gate[@]}" --candidate b --json one_go.json
cmp continued.json one_go.json
expect_exit 3 "INCONCLUSIVE" "${gate[@]}" --candidate b --continue stopped.json --nightly --json night.json
grep -q '"max_pairs": 1500' night.json && grep -q '"margin": 0.1' night.json || fail "$(cat night.json)"
expect_exit 4 "margin is 0.1 in stopped.json, now 0.2" "${gate[@]}" --candidate b --continue stopped.json --margin 0.2
expect_exit 4 "outcomes of the first 6 seeds" "${gate[@]}" --candidate c --continue stopped.json
expect_exit 4 "number of shared seeds" "${gate[@]}" --candidate good6 --continue one_go.json
expect_exit 6 "not what dp_bench gate --json wrote" "${gate[@]}" --candidate b --continue a/config.json
cp stopped.json state.json  # --continue and --json of one file: a gate that cannot continue leaves it, one that can replaces it
on=("${gate[@]}" --continue state.json --json ./state.json --candidate)
expect_exit 4 "state.json keeps the state of the earlier gate" "${on[@]}" c
expect_exit 4 "margin is 0.1" "${on[@]}" b --margin 0.2
part broken b 10
sed -i '7,$ s/"failure_reason": null/"failure_reason": "the env threw"/' broken/episodes.jsonl
expect_exit 5 "state.json keeps the state of the earlier gate" "${on[@]}" broken
expect_exit 6 "has no test episodes" "${on[@]}" empty
cmp state.json stopped.json
expect_exit 3 "INCONCLUSIVE: 10 seeds" "${on[@]}" b
cmp state.json one_go.json

echo "several tasks have one verdict"
without_id again
for run in good b c again; do
  cp -r "$run" "$run.lift"
  sed -i 's/"plugin": "point_mass"/"plugin": "other_mass"/' "$run.lift/config.json"
done
expect_exit 0 "two.json: good.lift is the baseline now" "$dp_bench" gate --baseline baseline.json two.json \
  --update-baseline --candidate good good.lift
both=("$dp_bench" gate --baseline baseline.json two.json)
expect_exit 0 "PASS: all 2 tasks pass" "${both[@]}" --candidate good.lift good --margin 0.9 --junit gate.xml
grep -q 'tests="3" failures="0"' gate.xml || fail "$(cat gate.xml)"
expect_exit 3 "no verdict yet in point_mass; other_mass" "${both[@]}" --candidate c.lift b --json two_of.json
expect_exit 3 "" "${both[@]}" --candidate b c.lift --continue two_of.json --json again_of.json
cmp two_of.json again_of.json
expect_exit 1 "FAIL: a drop is shown in other_mass" "${both[@]}" --candidate c.lift b --alpha 0.02
expect_exit 2 "not clear" "${both[@]}" --candidate b
expect_exit 2 "not clear" "${both[@]}" --candidate b c

echo "a checkpoint is rolled out as far as the verdict takes it"
"$dp_bench" eval --checkpoint real/checkpoints/latest --output long env_runner.n_train=0 env_runner.n_test=60 \
  env_runner.n_videos=0 >eval.txt 2>&1 || fail "$(cat eval.txt)"
expect_exit 0 "is the baseline now" "${gate[@]}" --candidate long --update-baseline
expect_exit 0 "PASS: no change: 8 of 8" "${gate[@]}" --candidate real/checkpoints/latest --output own
[ "$(wc -l <own/episodes.jsonl)" -eq 8 ] || fail "expected 8 episodes: $(cat out.txt)"
cmp <(head -n 8 long/episodes.jsonl) own/episodes.jsonl
grep -q "8 of the 60 test seeds of config.json were run" own/report.html || fail "the report hides the early stop"
expect_exit 0 "PASS: no change: 8 of 8" "${gate[@]}" --candidate own
expect_exit 3 "INCONCLUSIVE: 30 seeds" "${gate[@]}" --candidate real/checkpoints/latest --weights model --output model \
  --max-pairs 30 --json model.json
[ "$(wc -l <model/episodes.jsonl)" -eq 30 ] || fail "expected 30 episodes: $(cat out.txt)"
expect_exit 0 "PASS: after 40 seeds" "${gate[@]}" --candidate real/checkpoints/latest --weights model --output more \
  --max-pairs 60 --continue model.json
sed -i 's/"trace_hash":"[0-9a-f]*"/"trace_hash":"x"/; s/"success":false/"success":true/' baseline.json
expect_exit 1 "FAIL: after 10 seeds" "${gate[@]}" --candidate real/checkpoints/latest --output worse
[ "$(wc -l <worse/episodes.jsonl)" -eq 40 ] || fail "expected 40 episodes: $(cat out.txt)"
sed 's/"seed":100001,/"seed":100011,/' baseline.json >gap.json
expect_exit 2 "no --candidate is a checkpoint" "${gate[@]}" --candidate b --output nowhere
expect_exit 6 "seed 100011 is not the previous seed plus 1" "$dp_bench" gate --baseline gap.json --candidate real/checkpoints/latest

echo "what needs no policy loads no LibTorch"
export XDG_CACHE_HOME=$work/cache
loads() {  # loads COMMAND...: whether it loads LibTorch
  LD_DEBUG=files LD_DEBUG_OUTPUT=loaded "$dp_bench" "$@" >out.txt 2>&1 || true
  grep -qs "calling init: .*/libtorch" loaded.*
  local status=$?
  rm -f loaded.*
  return $status
}
"$dp_bench" keys policy >keys.txt 2>&1
"$dp_bench" plugins >plugins.txt 2>&1
for command in --version "compare real real" "video real --output video.gif" "gate --baseline baseline.json --candidate long" \
  "keys policy" plugins; do
  # shellcheck disable=SC2086
  ! loads $command || fail "dp_bench $command loads LibTorch"
  [ "$command" = --version ] || [ -s out.txt ] || fail "dp_bench $command prints nothing"
done
cmp keys.txt <("$dp_bench" keys policy)
cmp plugins.txt <("$dp_bench" plugins)
loads keys training || fail "an answer that was never asked for was recalled, or LibTorch is not found by this test"
mkdir others
more=("$dp_bench" plugins --plugin-dir "$work/others")
expect_exit 0 "point_mass" "${more[@]}"
echo "no plugin" >others/libdpb_env_other.so
for i in 1 2; do expect_exit 2 "refused: .*/libdpb_env_other.so" "${more[@]}"; done
rm others/libdpb_env_other.so
for i in 1 2; do expect_exit 0 "point_mass" "${more[@]}"; done
XDG_CACHE_HOME=/proc/none expect_exit 0 "point_mass" "$dp_bench" plugins
