#!/usr/bin/env bash
# The gate on the policies that ship with dp_bench: this build must not make them worse. Within an outcome class (ADR 0004)
# all episodes are equal bit for bit. Elsewhere the statistics decide, and may need more seeds.
# Usage: own_gate.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
models=$(readlink -f "$2/../models")
enter_scratch_folder

for baseline in "$models"/*/baseline.json; do
  model=$(dirname "$baseline")
  name=$(basename "$model")
  echo "$name: only as many episodes run as the verdict needs"
  status=0
  "$dp_bench" gate --baseline "$baseline" --candidate "$model" --output "$name" >"$name.txt" 2>&1 || status=$?
  case $status in
    0) grep "PASS" "$name.txt" ;;
    3) echo "no drop is shown" ;;
    *) fail "the gate ended with $status: $(cat "$name.txt")" ;;
  esac
done

echo "a finished evaluation passes too, and the number of threads does not change the result"
policy=$models/pusht_unet_hybrid
evaluate() {  # evaluate CHECKPOINT OUTPUT N_TEST
  "$dp_bench" eval --checkpoint "$1" --output "$2" env_runner.n_train=0 env_runner.n_videos=0 \
    env_runner.test_start_seed=500000 env_runner.n_test="$3" >eval.txt 2>&1 || fail "$(cat eval.txt)"
}
OMP_NUM_THREADS=2 evaluate "$policy" two_threads 8
cmp <(head -n 8 pusht_unet_hybrid/episodes.jsonl) two_threads/episodes.jsonl || fail "two threads changed the episodes"
status=0
"$dp_bench" gate --baseline "$policy/baseline.json" --candidate two_threads >gate.txt 2>&1 || status=$?
case $status in
  0) grep "PASS" gate.txt ;;
  3) echo "too few episodes to compare with another outcome class" ;;
  *) fail "the gate of a finished evaluation ended with $status: $(cat gate.txt)" ;;
esac

echo "a policy with damaged weights fails"
python3 "$(dirname "$(readlink -f "$0")")/damage_weights.py" "$policy" damaged 0.3
evaluate damaged worse 20  # as good as none succeeds; ten lost seeds are proof
expect_exit 1 "FAIL" "$dp_bench" gate --baseline "$policy/baseline.json" --candidate worse
head -1 out.txt

echo "a policy of another task does not run"
expect_exit 4 "NOT COMPARABLE: env.plugin differs" "$dp_bench" gate --baseline "$policy/baseline.json" \
  --candidate "$models/kuavo_pick_place_transformer" --output another_task
[ ! -e another_task/episodes.jsonl ] || fail "it ran"

echo "a faster policy is judged against its reference"
verify() {  # verify CODE VERDICT OUTPUT ARGUMENTS...
  local code=$1 verdict=$2 output=$3
  shift 3
  expect_exit "$code" "$verdict" "$dp_bench" eval --verify-against "$policy" --output "$output" env_runner.n_videos=0 \
    env_runner.test_start_seed=500000 "$@"
  grep -q "\"status\": \"$verdict\"" "$output/verification.json" || fail "$output: $(cat "$output/verification.json")"
  grep -q "Verification" "$output/report.html" || fail "$output: the report does not show the verification"
}
verify 0 PASS unchanged --checkpoint "$policy" env_runner.n_test=8
verify 3 INCONCLUSIVE bf16 --checkpoint "$policy" policy.weights=bf16 env_runner.n_test=10

echo "an inconclusive verification gets more seeds, and is then the same as one that had them at once"
more=(eval --resume bf16 --verify-against "$policy")
grep -q "continue with dp_bench eval --resume .*bf16 --verify-against .* --margin 0.03 env_runner.n_test=20" out.txt || fail "$(cat out.txt)"
status=0
"$dp_bench" "${more[@]}" env_runner.n_test=24 >out.txt 2>&1 || status=$?
"$dp_bench" eval --verify-against "$policy" --output at_once env_runner.n_videos=0 env_runner.test_start_seed=500000 \
  --checkpoint "$policy" policy.weights=bf16 env_runner.n_test=24 >once.txt 2>&1 && once=0 || once=$?
[ "$status" = "$once" ] || fail "$status instead of $once: $(cat out.txt)"
cmp <(sed 's/"id": *"[^"]*"//' bf16/episodes.jsonl) <(sed 's/"id": *"[^"]*"//' at_once/episodes.jsonl)
python3 -c 'import json; a, b = (json.load(open(f"{name}/verification.json"))["gate"] for name in ("bf16", "at_once"))
def of(gate): return gate["status"], gate["config"], [{k: v for k, v in task.items() if k not in ("baseline", "candidate", "reason")} for task in gate["tasks"]]
assert of(a) == of(b), (a, b)' || fail "another verdict"
expect_exit 2 "was rolled out with" "$dp_bench" eval --resume bf16 --verify-against damaged env_runner.n_test=30
expect_exit 2 "was begun with 0.03, found 0.1" "$dp_bench" "${more[@]}" --margin 0.1 env_runner.n_test=30

verify 1 FAIL damaged_verified --checkpoint damaged env_runner.n_test=400
n_played=$(wc -l <damaged_verified/episodes.jsonl)
[ "$n_played" -lt 100 ] || fail "the verdict took $n_played seeds"
[ "$(wc -l <damaged_verified_reference/episodes.jsonl)" = "$n_played" ] || fail "the reference played other seeds"
verify 4 "NOT COMPARABLE" another_task_verified --checkpoint "$models/kuavo_pick_place_transformer" env_runner.n_test=400
grep -q '"weights": *"bf16"' bf16/config.json || fail "the candidate's config does not have its weights"
! grep -q '"weights": *"bf16"' bf16_reference/config.json || fail "the reference has the candidate's weights"
expect_exit 2 "nan is not a number" "$dp_bench" eval --checkpoint damaged --verify-against "$policy" --output refused \
  --margin nan
[ ! -e refused_reference ] || fail "the reference ran before --margin nan was refused"
expect_exit 2 "expected one of float32, bf16" "$dp_bench" eval --checkpoint "$policy" policy.weights=int3 --output refused
