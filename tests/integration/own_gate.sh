#!/usr/bin/env bash
# The gate on the policy that ships with dp_bench: this build must not make it worse. On the kind of machine that made
# the baseline, all episodes are equal bit for bit. Elsewhere the statistics decide, and may need more seeds.
# Usage: own_gate.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
models=$2/../models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$dp_bench" eval --checkpoint "$models/pusht_unet_hybrid" --output "$work/candidate" env_runner.n_train=0 \
  env_runner.n_videos=0 >"$work/eval.txt" 2>&1 || fail "$(cat "$work/eval.txt")"
status=0
"$dp_bench" gate --baseline "$models/pusht_unet_hybrid_baseline.json" --candidate "$work/candidate" || status=$?
case $status in
  0) ;;
  3) echo "no drop is shown" ;;
  *) fail "the gate ended with $status" ;;
esac

# when the gate rolls out itself, it runs only as many episodes as the verdict needs
status=0
"$dp_bench" gate --baseline "$models/pusht_unet_hybrid_baseline.json" --candidate "$models/pusht_unet_hybrid" \
  --output "$work/own" >"$work/own.txt" 2>&1 || status=$?
case $status in
  0 | 3) ;;
  *) fail "the gate's own rollouts ended with $status: $(cat "$work/own.txt")" ;;
esac
n_run=$(wc -l <"$work/own/episodes.jsonl")
cmp <(head -n "$n_run" "$work/candidate/episodes.jsonl") "$work/own/episodes.jsonl" || fail "it ran other episodes"

# the number of threads of its matrix products does not change the result
OMP_NUM_THREADS=1 "$dp_bench" eval --checkpoint "$models/pusht_unet_hybrid" --output "$work/one_thread" env_runner.n_train=0 \
  env_runner.n_test=8 env_runner.n_videos=0 >"$work/eval.txt" 2>&1 || fail "$(cat "$work/eval.txt")"
cmp <(head -n 8 "$work/candidate/episodes.jsonl") "$work/one_thread/episodes.jsonl" || fail "one thread changed the episodes"

# a policy with damaged weights fails
cp -r "$models/pusht_unet_hybrid" "$work/damaged"
python3 - "$work/damaged" <<'PYTHON'
import hashlib, json, pathlib, random, struct, sys
folder = pathlib.Path(sys.argv[1])
path = folder / "ema.safetensors"
data = bytearray(path.read_bytes())
(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
random.seed(0)
for name, tensor in header.items():
    if name == "__metadata__" or tensor["dtype"] != "F32":
        continue
    begin, end = (8 + length + offset for offset in tensor["data_offsets"])
    values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    data[begin:end] = struct.pack(f"<{len(values)}f", *(v * (1 + random.gauss(0, 0.3)) for v in values))
path.write_bytes(data)
manifest_path = folder / "manifest.json"
manifest = json.loads(manifest_path.read_text())
manifest["files"]["ema.safetensors"]["sha256"] = hashlib.sha256(data).hexdigest()
manifest_path.write_text(json.dumps(manifest))
PYTHON
"$dp_bench" eval --checkpoint "$work/damaged" --output "$work/worse" env_runner.n_train=0 env_runner.n_videos=0 \
  >"$work/eval.txt" 2>&1 || fail "$(cat "$work/eval.txt")"
cd "$work"
expect_exit 1 "FAIL" "$dp_bench" gate --baseline "$models/pusht_unet_hybrid_baseline.json" --candidate worse
head -1 out.txt
