#!/usr/bin/env bash
# policy.backend: OpenVINO plans as LibTorch does, and mistakes are named. Ends with 77 (skipped) in a build without OpenVINO.
# Usage: backends.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
policy=$2/../models/pusht_unet_hybrid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

few=(env_runner.n_train=0 env_runner.n_test=4 env_runner.n_videos=0 env_runner.max_steps=80)
expect_exit 2 "expected torch or openvino, found 'onnx'" \
  "$dp_bench" eval --checkpoint "$policy" --output "$work/wrong" "${few[@]}" policy.backend=onnx

if [ ! -e "$(dirname "$dp_bench")/../lib/libdp_bench_openvino.so" ]; then
  expect_exit 2 "libdp_bench_openvino.so" \
    "$dp_bench" eval --checkpoint "$policy" --output "$work/missing" "${few[@]}" policy.backend=openvino
  echo "SKIPPED: built without OpenVINO"
  exit 77
fi

for backend in torch openvino; do
  "$dp_bench" eval --checkpoint "$policy" --output "$work/$backend" "${few[@]}" "policy.backend=$backend" \
    >"$work/$backend.txt" 2>&1 || fail "$(cat "$work/$backend.txt")"
done
grep -q '"outcome_class": "no pictures, openvino' "$work/openvino/manifest.json" || fail "the manifest does not name the backend"
"$dp_bench" compare "$work/torch" "$work/openvino" >"$work/compare.txt" || fail "compare failed"
grep -q "only A 0, only B 0" "$work/compare.txt" || fail "the backends end differently: $(cat "$work/compare.txt")"

# closed loops amplify rounding, so scores are close and not equal
python3 - "$work/torch" "$work/openvino" <<'PYTHON'
import json, sys
scores = [[json.loads(line)["score"] for line in open(folder + "/episodes.jsonl")] for folder in sys.argv[1:]]
worst = max(abs(a - b) for a, b in zip(*scores))
assert len(scores[0]) == 4 and worst < 0.05, scores
PYTHON
