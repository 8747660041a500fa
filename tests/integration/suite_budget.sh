#!/usr/bin/env bash
# A suite with a budget of test episodes: the rounds follow from the outcomes alone, so killed ones and a raised budget
# come to the same table, whose cells are ordinary evaluations of the first seeds.
# Usage: suite_budget.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$(readlink -f "$1")
enter_scratch_folder

cat >suite.json <<JSON
{
  "name": "small",
  "policies": [
    {"policy": "unet_hybrid", "overrides": ["policy.params.down_dims=[16,32]", "policy.params.n_groups=4"]},
    {"policy": "random", "trained": false},
    {"policy": "random", "name": "short", "trained": false, "overrides": ["env_runner.max_steps=20"]}
  ],
  "tasks": [{"name": "still", "env": "point_mass"}],
  "overrides": ["collect.n_episodes=6", "training.num_epochs=15", "training.lr_warmup_steps=2",
                "training.rollout_every=0", "dataloader.batch_size=32", "env_runner.n_videos=0"]
}
JSON
run=("$dp_bench" suite --config-dir "$(readlink -f "$2")" suite.json)
"${run[@]}" --budget 41 --output whole --dry-run >dry.txt 2>&1 || fail "$(cat dry.txt)"
grep -q "^30 of 41 test episodes: round 1, 10 test seeds of each cell; later ones have up to 7 episodes" dry.txt || fail "$(cat dry.txt)"
[ "$(grep -c "^to do  .*, 10 test seeds" dry.txt)" -eq 3 ] || fail "$(cat dry.txt)"

"${run[@]}" --budget 41 --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"
for round in "37 of 41 test episodes: round 2" "41 of 41 test episodes: round 3" "41 of 41 test episodes: the budget is spent"; do
  grep -q "^$round" whole.txt || fail "no '$round': $(cat whole.txt)"
done
grep -q "a budget of 41 test episodes, 41 used in 3 rounds" whole/suite.md || fail "$(cat whole/suite.md)"
grep -q "budget of 41 test episodes" whole/suite.html || fail "the page does not tell of the budget"
cut -d, -f3,5,14 whole/suite.csv >cells.csv
grep -q "^policy,n,budget$" cells.csv || fail "$(cat cells.csv)"
[ "$(awk -F, 'NR > 1 && $3 == 41 { n += $2 } END { print n }' cells.csv)" -eq 41 ] || fail "$(cat cells.csv)"
while IFS=, read -r policy n _; do  # ordinary run folders
  [ "$policy" = policy ] && continue
  folder=$(echo "whole/cells/$policy/still/"*/run)
  grep -q "\"n_test\": $n," "$folder/config.json" || fail "$folder does not have $n test seeds"
  [ "$(wc -l <"$folder/episodes.jsonl")" -eq "$n" ] || fail "$folder does not have $n episodes"
done <cells.csv
"${run[@]}" --budget 41 --output whole >again.txt 2>&1 || fail "$(cat again.txt)"
! grep -q ^begin again.txt || fail "a spent budget ran again: $(cat again.txt)"

# the rounds of a smaller budget are the first ones of a larger one, and a kill changes nothing
cp -r whole larger
"${run[@]}" --budget 51 --output larger >larger.txt 2>&1 || fail "$(cat larger.txt)"
[ "$(grep -c "^begin" larger.txt)" -le 4 ] || fail "it did not continue: $(cat larger.txt)"
mkdir killed
cp -r whole/datasets killed
for begun in 2 4 5; do  # kill it in the first round, and in later ones
  "${run[@]}" --budget 51 --output killed >killed.txt 2>&1 &
  until [ "$(find killed -name output.txt -path "*cells*" -exec cat {} + | grep -c "^--- dp_bench")" -ge $begun ]; do
    kill -0 $! 2>/dev/null || fail "it ended before it was killed: $(cat killed.txt)"
    sleep 0.05
  done
  kill -9 $!
  wait $! 2>/dev/null || true
done
"${run[@]}" --budget 51 --output killed >killed.txt 2>&1 || fail "$(cat killed.txt)"
cmp larger/suite.json killed/suite.json || fail "a killed suite has other results"

expect_exit 2 "a budget of 2 episodes is less than one for each of the 3 cells" "${run[@]}" --budget 2 --output none
expect_exit 2 "excludes" "${run[@]}" --budget 100 --shard 0/2 --output none
