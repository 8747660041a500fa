#!/usr/bin/env bash
# policy.backend: graphs plan as the policy does, exports are verified, and mistakes are named. Ends with 77 (skipped) in a build without OpenVINO.
# Usage: backends.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
policy=$2/../models/pusht_unet_hybrid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

few=(env_runner.n_train=0 env_runner.n_test=4 env_runner.n_videos=0 env_runner.max_steps=80)
expect_exit 2 "expected torch, torchscript or openvino, found 'onnx'" \
  "$dp_bench" eval --checkpoint "$policy" --output "$work/wrong" "${few[@]}" policy.backend=onnx

# an export with its success rate; 8 seeds show that nothing changed, but not that nothing is lost
expect_exit 2 "Import the export" \
  "$dp_bench" export --checkpoint "$policy" --format lerobot --output "$work/lerobot" --verify 8
status=0
"$dp_bench" export --checkpoint "$policy" --format torchscript --output "$work/graphs" --verify 8 --margin 0.2 \
  >"$work/export.txt" 2>&1 || status=$?
[ $status = 0 ] || [ $status = 3 ] || fail "exit code $status: $(cat "$work/export.txt")"
grep -q '"outcome_class": "no pictures, torchscript' "$work/graphs_verification/manifest.json" || fail "not the graphs were verified"
cmp "$work/graphs/verification.json" "$work/graphs_verification/verification.json" || fail "the export lacks its verdict"
grep -q Verification "$work/graphs_verification/report.html" || fail "the report lacks the verdict"
expect_exit 2 "$work/graphs" \
  "$dp_bench" export --checkpoint "$policy" --format torchscript --output "$work/graphs" --verify 8

# what graphs lack is told
(cd "$work" && train_briefly "$dp_bench" "$2" mean temporal_ensemble_coeff=0.01)
expect_exit 0 "not in the graphs: your program must plan at every step and average what up to 8 plans" \
  "$dp_bench" export --checkpoint "$work/mean" --format torchscript --output "$work/mean_graphs"

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
