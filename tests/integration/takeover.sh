#!/usr/bin/env bash
# collect.takeover: demonstrations that begin where a policy leads, and a training that continues with them.
# Usage: takeover.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
export OMP_NUM_THREADS=1
train_briefly "$dp_bench" "$configs" first

collect() {  # collect OUTPUT OVERRIDES...
  "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 12 --output "$1" collect.start_seed=5000 \
    'collect.takeover={"checkpoint": "first", "max_steps": 30}' "${@:2}" >collect.txt 2>&1 || fail "$(cat collect.txt)"
}

echo "the expert takes over at different steps"
collect corrections.zarr collect.n_workers=1
python3 - <<'PYTHON' || fail "$(cat corrections.zarr/.zattrs)"
import json, pathlib, struct
attributes = json.loads(pathlib.Path("corrections.zarr/.zattrs").read_text())
takeover = attributes["origin"]["takeover"]
assert takeover["max_steps"] == 30 and len(takeover["weights"]) == 64, takeover
assert len(attributes["episodes"]["seed"]) == 12
PYTHON

echo "the number of threads changes no episode, the policy does"
collect three_threads.zarr collect.n_workers=3
diff -r -x .zattrs corrections.zarr three_threads.zarr >diff.txt || fail "$(cat diff.txt)"
"$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 12 --output alone.zarr collect.start_seed=5000 \
  >collect.txt 2>&1 || fail "$(cat collect.txt)"
! diff -rq corrections.zarr/data alone.zarr/data >/dev/null || fail "the policy changed nothing"

echo "another policy does not continue the same folder"
train_briefly "$dp_bench" "$configs" second
expect_exit 2 "other" "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 14 --output corrections.zarr \
  collect.start_seed=5000 'collect.takeover={"checkpoint": "second", "max_steps": 31}'

echo "the policy learns on from its weights, with both datasets"
"$dp_bench" dataset merge alone.zarr corrections.zarr --output both.zarr >out.txt 2>&1 || fail "$(cat out.txt)"
"$dp_bench" train --config first/config.json --dataset both.zarr --output corrected \
  'training.init_checkpoint={"path": "first/checkpoints/latest", "normalizer": true}' >out.txt 2>&1 || fail "$(cat out.txt)"
cmp {first,corrected}/checkpoints/latest/normalizer.safetensors || fail "another normalizer"
! cmp -s {first,corrected}/checkpoints/latest/model.safetensors || fail "it learned nothing"

echo "such a training can be resumed"
"$dp_bench" train --resume corrected training.num_epochs=2 >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q '"epoch":1' corrected/logs.json.txt || fail "there is no second epoch"

echo "what is refused"
expect_exit 2 "found no folder 'no_such_run'" "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 1 --output refused.zarr \
  'collect.takeover={"checkpoint": "no_such_run"}'
expect_exit 2 "max_steps" "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 1 --output refused.zarr \
  'collect.takeover={"checkpoint": "first", "max_steps": 0}'
expect_exit 2 "in the policy of collect.takeover" "$dp_bench" collect --config-dir "$configs" --env pusht --episodes 1 --output refused.zarr \
  'collect.takeover={"checkpoint": "first"}'
[ ! -e refused.zarr ] || fail "a refused collection left a folder"
