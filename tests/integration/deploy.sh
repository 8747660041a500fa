#!/usr/bin/env bash
# The deployment API from an installation: examples/control_loop builds without LibTorch's headers, its episodes are
# those of `dp_bench eval`, and its library exports the API alone.
# Usage: deploy.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
example=$(readlink -f "$2/../examples/control_loop")
build=$3
enter_scratch_folder

prefix="$work/an installation"
install_dp_bench "$build" "$prefix"
checkpoint=$prefix/share/dp_bench/models/pusht_unet_hybrid

echo "the example builds with the installed package alone"
build_project "$prefix" "$example" loop --verbose
! grep -q -- "torch/include" build.txt || fail "it was compiled with LibTorch's headers: $(cat build.txt)"

echo "the library exports what dp_bench/deploy.h declares and nothing else"
nm -D --defined-only --demangle "$prefix/lib/libdp_bench_deploy.so" | cut -d' ' -f3- >symbols.txt
grep -q "^dp_bench::Controller::Load" symbols.txt || fail "Load is not exported: $(cat symbols.txt)"
! grep -v "^dp_bench::\(Controller\|Dims\)::" symbols.txt >others.txt || fail "it exports more: $(head others.txt)"

# expect_episodes N LATENCY_STEPS MICRO_BATCH EVAL_ARGUMENTS...: N episodes of the loop are those of an evaluation
expect_episodes() {
  local n=$1 latency=$2 micro_batch=$3
  shift 3
  expect_exit 0 "success" loop/control_loop "$checkpoint" --hz 0 --episodes "$n" --latency-steps "$latency" --micro-batch "$micro_batch" \
    --chunking "$chunking"
  mv out.txt loop.txt
  expect_exit 0 "" "$prefix/bin/dp_bench" eval --checkpoint "$checkpoint" --output "evaluated_$latency" env_runner.n_train=0 \
    env_runner.n_test="$n" env_runner.n_videos=0 env_runner.check_batch_invariance=false "$@"
  python3 - "evaluated_$latency" >expected.txt <<'PYTHON'
import json, sys
for line in open(sys.argv[1] + "/episodes.jsonl"):
    e = json.loads(line)
    print("seed %d: score %.6f, %s, %d steps" % (e["seed"], e["score"], "success" if e["success"] else "no success", e["n_steps"]))
PYTHON
  diff <(grep "^seed" loop.txt) expected.txt || fail "the episodes of the control loop differ from those of eval"
}

echo "its episodes are those of eval, with and without latency"
chunking='{}'
expect_episodes 1 0 0
expect_episodes 2 2 1 --realtime env_runner.realtime_latency_ms=200 env_runner.micro_batch=1

chunking='{"method": "rtc", "execute": 4}'
expect_episodes 1 3 1 env_runner.chunking.delay=3 env_runner.chunking.execute=4 env_runner.chunking.method=rtc env_runner.micro_batch=1

echo "a paced loop reports its times"
expect_exit 0 "deadlines missed" loop/control_loop "$checkpoint" --hz 1000 --latency-steps 40 --micro-batch 1
grep -q "^jitter  *[0-9.]* *[0-9.]* *[0-9.]*   [0-9]*$" out.txt || fail "$(cat out.txt)"

echo "and how late plans were executed, in the time of the env, for a prediction of its success"
expect_exit 0 "success in [01] of 1 episodes" loop/control_loop "$checkpoint" --hz 20 --deadline-ms 1 --latencies plans.txt
python3 - out.txt <<'PYTHON' || fail "$(cat plans.txt)"
import re, sys
times = sorted(float(line) for line in open("plans.txt"))
n = re.search(r"^plan .* (\d+)$", open(sys.argv[1]).read(), re.M)[1]
assert len(times) == int(n) - 1 > 0  # without the first plan, for which nothing moves
assert all(time >= 100 and time % 100 == 0 for time in times), times  # steps of the env, at 10 Hz
PYTHON
expect_exit 0 "" "$prefix/bin/dp_bench" eval --checkpoint "$checkpoint" --output predicted env_runner.n_train=0 env_runner.n_test=1 \
  env_runner.n_videos=0 env_runner.chunking.latency.distribution=measured env_runner.chunking.latency.file=plans.txt

echo "mistakes are explained"
expect_exit 1 "is not a folder; expected that of a checkpoint" loop/control_loop /no/such/folder
expect_exit 1 "expected an option and a number" loop/control_loop "$checkpoint" --hz fast
expect_exit 1 "cannot write '/no/such/plans.txt'" loop/control_loop "$checkpoint" --hz 0 --latencies /no/such/plans.txt
expect_exit 2 "usage: control_loop CHECKPOINT" loop/control_loop
