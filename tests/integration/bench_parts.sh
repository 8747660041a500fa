#!/usr/bin/env bash
# dp_bench bench: the figures of a policy and an env, and a peer beside them.
# Usage: bench_parts.sh <dp_bench program> <configs folder>
set -euo pipefail
tests=$(dirname "$(readlink -f "$0")")
peers=$tests/../../python/peers
source "$tests/expect.sh"
enter_scratch_folder
export OMP_NUM_THREADS=1
quick=(--config-dir "$2" --env point_mass --repetitions 2 --seconds 0.01)

echo "a policy's chunks and training step are timed and counted"
expect_exit 0 "training step" "$1" bench policy "${quick[@]}" --policy unet_hybrid --chunks 1,3 --json policy.json \
  "policy.params.down_dims=[16,32]" policy.params.n_groups=4 training.mixed_precision=no dataloader.batch_size=8
python3 - <<'PYTHON' || fail "policy.json: $(cat policy.json)"
import json
rows = json.load(open("policy.json"))["rows"]
assert [(row["work"], row["batch_size"]) for row in rows] == [("action chunk", 1), ("action chunk", 3), ("training step", 8)]
for row in rows:
    assert len(row["rounds_ms"]) == 2 and min(row["rounds_ms"]) <= row["ms"] <= max(row["rounds_ms"]), row
    assert 0 < row["limit_ms"] < row["ms"] and row["flop"] > 0, row
assert 2.9 < rows[1]["flop"] / rows[0]["flop"] < 3.1, rows  # three rows are three times the work of one
PYTHON

echo "with bf16 weights a chunk reads half the bytes"
bf16=("$1" bench policy "${quick[@]}" --policy unet_hybrid --chunks 1 --work chunks "policy.params.down_dims=[16,32]" policy.params.n_groups=4)
expect_exit 0 "action chunk" "${bf16[@]}" --json float32.json
expect_exit 0 "action chunk" "${bf16[@]}" --json bf16.json policy.weights=bf16
python3 -c 'import json; a, b = (json.load(open(f))["rows"] for f in ("float32.json", "bf16.json")); assert len(a) == 1
assert a[0]["weight_bytes"] == 2 * b[0]["weight_bytes"], (a, b)' || fail "weight_bytes"

echo "a peer is measured in turns with ours; one whose packages are missing is left out"
cat >slow.py <<'PYTHON'
import time
TITLE, PACKAGES = "A slow env", ("pip",)
OURS = {"": ["env", "--env", "point_mass", "--config-dir", CONFIGS]}
def cases(program):
    def two_steps():
        time.sleep(0.02)
        return 2
    return {"env step": {"slow": two_steps, "slower": lambda: time.sleep(0.03)}}
PYTHON
sed -i "s|CONFIGS|'$2'|" slow.py
sed 's/^import time/import no_such_package/' slow.py >missing.py
expect_exit 0 "A slow env" "$1" bench peers --python python3 --peer missing.py --peer slow.py --repetitions 3 --seconds 0.01 --json peers.json
grep -q "missing is not measured: No module named 'no_such_package'" out.txt || fail "$(cat out.txt)"
python3 - <<'PYTHON' || fail "peers.json: $(cat peers.json)"
import json
row, = json.load(open("peers.json"))["peers"][0]["rows"]
assert len(row["ours_ms"]) == 3 and all(9 < ms < 100 for ms in row["peer_ms"]["slow"]), row
PYTHON
grep -q "ms (slow) " out.txt || fail "the faster way of the peer counts: $(cat out.txt)"
expect_exit 1 "nothing was measured" "$1" bench peers --python python3 --peer missing.py
expect_exit 1 "expected one of lerobot_unet" "$1" bench peers --python python3 --peer lerobot
expect_exit 6 "cannot start no_such_python" "$1" bench peers --python no_such_python

echo "the tables go into a page between their marks, and --check finds a page that differs"
printf 'before\n<!-- begin of `dp_bench bench peers` -->\n<!-- end of `dp_bench bench peers` -->\nafter\n' >page.md
expect_exit 1 "differs from what was measured" python3 "$peers" --page page.md --check peers.json
python3 "$peers" --page page.md peers.json
python3 "$peers" --page page.md --check peers.json
python3 "$peers" --page "$tests/../../docs/benchmarks.md" --check "$tests"/../../docs/benchmarks/*.json
grep -q '^| env step | .* ms (slow) | .* µs | \*\*' page.md && grep -q ^before page.md && grep -q ^after page.md || fail "$(cat page.md)"
echo nothing >page.md
expect_exit 1 "expected one line" python3 "$peers" --page page.md peers.json

echo "bad input gives a message and its exit code"
expect_exit 2 "nothing to run" "$1" bench policy
expect_exit 2 "policy,env,dataset,peers" "$1" bench nothing
expect_exit 2 "bench dataset does not use --json" "$1" bench dataset --dataset nowhere.zarr --json dataset.json
expect_exit 2 "bench dataset does not use --env" "$1" bench dataset --dataset nowhere.zarr --env point_mass
expect_exit 2 "bench peers does not use --policy" "$1" bench peers --peer missing.py --policy unet_hybrid
expect_exit 2 "bench peers does not use policy.weights=bf16" "$1" bench peers policy.weights=bf16
expect_exit 2 "bench env does not use --chunks" "$1" bench env "${quick[@]}" --chunks 1
expect_exit 2 "down_dimm" "$1" bench policy "${quick[@]}" --policy unet_hybrid "policy.params.down_dimms=[16]"
