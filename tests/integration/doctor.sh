#!/usr/bin/env bash
# dp_bench doctor on this machine, and on one where something is wrong.
# Usage: doctor.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder

echo "on a healthy machine every plugin works"
expect_exit 0 "0 broken" "$dp_bench" doctor --config-dir "$configs"
for line in "^ok .*processor" "^ok .*LibTorch" "^ok .*videos .*H.264" "^ok .*env kuavo_dualarm .*obs .*rgbd" "^ok .*policy transformer" \
            "^ok .*dataset zarr_replay" "^ok .*configs"; do
  grep -q "$line" out.txt || fail "no line '$line' in $(cat out.txt)"
done

echo "the same as JSON"
expect_exit 0 "" "$dp_bench" doctor --config-dir "$configs" --json
python3 - out.txt <<'PYTHON' || fail "$(cat out.txt)"
import json, sys
checkups = json.load(open(sys.argv[1]))
assert all(set(c) == {"subject", "health", "found", "advice"} for c in checkups), checkups
assert {c["health"] for c in checkups} <= {"ok", "missing"}, checkups
PYTHON

echo "a damaged plugin and a temporary folder that is not there are named, with what to do"
mkdir damaged
echo "not a library" > damaged/libdpb_policy_mine.so
TMPDIR=/nowhere expect_exit 1 "3 broken" "$dp_bench" doctor --plugin-dir damaged --config-dir "$configs"
grep -q "^broken .*policy mine" out.txt || fail "$(cat out.txt)"
grep -q "build .*libdpb_policy_mine.so again, or remove it" out.txt || fail "$(cat out.txt)"
grep -q "^broken .*temporary folder" out.txt || fail "$(cat out.txt)"
grep -q "set TMPDIR to a writable folder" out.txt || fail "$(cat out.txt)"
