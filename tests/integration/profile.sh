#!/usr/bin/env bash
# dp_bench profile: its tables, its JSON, and a trace with nested events; bad input.
# Usage: profile.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
enter_scratch_folder
export OMP_NUM_THREADS=1
profile=("$1" profile --config-dir "$2" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]"
         policy.params.n_groups=4 training.mixed_precision=no collect.n_episodes=4 dataloader.batch_size=8 dataloader.num_workers=0 --steps 3)

echo "the tables say where the time goes"
expect_exit 0 "for https://ui.perfetto.dev" "${profile[@]}" --trace trace.json --json profile.json --operators 4
for line in "^profile of unet_hybrid for point_mass on cpu, float32$" "^limits of this machine, 1 threads" \
            "^training step, batch size 8, mean of 3" "^  forward .* %$" "^action chunk, batch 1$" "^action chunk, batch 16$" \
            "^  denoising step (10 x)" "^memory of a training step" "^advice"; do
  grep -q -- "$line" out.txt || fail "no line '$line': $(cat out.txt)"
done
[ "$(sed -n '/operators per step/,/^$/p' out.txt | wc -l)" -eq 7 ] || fail "expected 4 operators: $(cat out.txt)"  # title, head, blank

echo "a batch of 8 at this rate is small, which is told with key, value and figure"
grep -q '"advice"' profile.json || fail "$(cat profile.json)"
python3 - <<'PYTHON' || fail "profile.json: $(head -c 2000 profile.json)"
import json
found = json.load(open("profile.json"))
training = found["training"]
assert training["batch_size"] == 8 and training["steps"] == 3 and training["step_ms"] > 0
assert abs(sum(training["phases_ms"].values()) / training["step_ms"] - 1) < 0.2, training["phases_ms"]
assert [each["batch_size"] for each in found["inference"]] == [1, 16]
assert all("denoising step" in each["stages"] for each in found["inference"])
assert training["flops"] < found["limits"]["float32_flops"] and training["recorded"]["flop_each"] > 0
assert found["advice"] and all(each["key"].split(".")[0] in ("dataloader", "training", "policy") and each["reason"]
                               for each in found["advice"]), found["advice"]
text = open("out.txt").read()
assert all(f'  {each["key"]}={each["value"]}: ' in text for each in found["advice"])
PYTHON

echo "the trace: each event within the one that was running when it began"
python3 - <<'PYTHON' || fail "trace.json"
import json
from decimal import Decimal
events = json.load(open("trace.json"), parse_float=Decimal)["traceEvents"]
assert any(e["ph"] == "M" and e["args"]["name"] == "dp_bench: unet_hybrid on point_mass" for e in events)
calls = [e for e in events if e["ph"] == "X"]
assert {"forward", "denoising step"} <= {e["name"] for e in calls if e["cat"] == "scope"}
assert any(e["cat"] == "backward" for e in calls) and any(e["args"].get("flops", 0) > 0 for e in calls)
deepest = 0
for thread in {e["tid"] for e in calls}:
    running = []  # ends of the events around
    for event in sorted((e for e in calls if e["tid"] == thread), key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while running and running[-1] <= event["ts"]:
            running.pop()
        assert not running or end <= running[-1], event
        running.append(end)
        deepest = max(deepest, len(running))
assert deepest >= 3, deepest
PYTHON

echo "short memory: a smaller batch, with the figures"
limited=("${profile[@]}" "policy.params.down_dims=[256,512]" policy.params.n_groups=8 dataloader.batch_size=64)
status=0
(ulimit -v 1800000; exec "${limited[@]}" --json short.json) >out.txt 2>&1 || status=$?
[ "$status" -eq 0 ] || fail "with short memory profile ended with $status: $(tail -c 2000 out.txt)"
python3 - <<'PYTHON' || fail "short.json: $(cat out.txt)"
import json
advice = json.load(open("short.json"))["advice"]
assert any(each["key"] == "dataloader.batch_size" and "MiB are free" in each["reason"] for each in advice), advice
PYTHON

echo "bad input gives a message and its exit code"
expect_exit 2 "nothing to run" "$1" profile
expect_exit 2 "not in range" "${profile[@]}" --steps 0
expect_exit 2 "there is no config of this name" "$1" profile --config-dir "$2" --policy unet_hybri --env point_mass
expect_exit 2 "nowhere" "${profile[@]}" --checkpoint nowhere
expect_exit 6 "less than one batch of 4096; lower dataloader.batch_size" "${profile[@]}" dataloader.batch_size=4096

echo "the bench of an env that makes a few steps a second ends all the same, and shows how far it is"
expect_exit 0 "env steps/s, with observations" timeout 120 "$1" bench env --env kuavo_dualarm --obs rgbd --config-dir "$2" --repetitions 1
grep -q "env steps/s, one thread  0/2" out.txt || fail "no progress: $(cat out.txt)"
