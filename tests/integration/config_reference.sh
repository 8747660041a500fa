#!/usr/bin/env bash
# docs/config_reference.md is what the program prints of the code that reads configs, and every key has a meaning.
set -euo pipefail
source "$(dirname "$0")/expect.sh"

program=$1 page=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# the limit: no weights are drawn, which takes 10 s and more
(ulimit -t 6 && DP_BENCH_PLUGIN_PATH='' "$program" keys --markdown >printed.md 2>status.txt) || fail "$(cat status.txt)"
diff "$page" printed.md || fail "$page is old: run 'dp_bench keys --markdown > docs/config_reference.md'"

"$program" keys training >training.txt
grep -q '^  lr_power .*number, 1e-06 to 1000 .*polynomial only' training.txt || fail "$(cat training.txt)"
grep -q '^env' training.txt && fail "keys of another section: $(cat training.txt)"
"$program" keys env --env pusht >env.txt
grep -q '^env.params of pusht' env.txt || fail "$(cat env.txt)"
grep -q 'kuavo' env.txt && fail "keys of another plugin: $(cat env.txt)"
expect_exit 2 "a config has no section 'trainig'" "$program" keys trainig
expect_exit 2 "did you mean\|there is no\|no env plugin" "$program" keys env --env psht
