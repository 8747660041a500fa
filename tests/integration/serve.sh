#!/usr/bin/env bash
# A checkpoint behind `serve`: episodes that ask it are those of eval, bit for bit; faults of the server are no faults of the
# policy; other projects' clients, as their packages are, get the same actions. The virtual environment of the clients stays
# in the build folder, so only the first run downloads packages; without them, that part is skipped by name.
# Usage: serve.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")
source "$root/expect.sh"
dp_bench=$1
models=$(readlink -f "$2/../models")
clients=$3/python_clients
enter_scratch_folder

start_server() {  # start_server ARGUMENT...: its address in "$address", its process in "$server"
  rm -f address.txt
  local port=(--port 0)
  [[ " $* " != *" --port "* ]] || port=()
  "$dp_bench" serve "$@" --micro-batch 2 "${port[@]}" >address.txt 2>serve.txt &
  server=$!
  trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
  for ((i = 0; i < 600; i++)); do
    [ -s address.txt ] && break
    kill -0 $server 2>/dev/null || fail "the server ended: $(cat serve.txt)"
    sleep 0.1
  done
  address=$(cat address.txt)
}

stop_server() {
  local status=0
  kill "-${1:-TERM}" $server
  wait $server || status=$?
  [ $status -eq 0 ] || fail "the server ended with $status: $(cat serve.txt)"
}

runner=(env_runner.n_train=0 env_runner.n_test=2 env_runner.n_videos=0 env_runner.micro_batch=2)
hashes() { python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.loads(line)["seed"], json.loads(line)["trace_hash"])' "$1/episodes.jsonl"; }

echo "episodes of a remote policy are those of its checkpoint"
model=$models/pusht_unet_hybrid
"$dp_bench" eval --checkpoint "$model" --output own "${runner[@]}" >eval.txt 2>&1 || fail "$(cat eval.txt)"
export DP_BENCH_API_KEY=secret
for protocol in openpi starvla groot; do
  start_server --checkpoint "$model" --protocol $protocol --log $protocol.jsonl
  "$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output $protocol "policy.params.url=$address" \
    policy.params.protocol=$protocol "${runner[@]}" >eval.txt 2>&1 || fail "$(cat eval.txt serve.txt)"
  cmp <(hashes own) <(hashes $protocol) || fail "$protocol: other episodes"
  stop_server
  [ "$(tail -1 $protocol.jsonl | grep -c '"event":"stop"')" -eq 1 ] || fail "$(cat $protocol.jsonl)"
done
unset DP_BENCH_API_KEY
grep -q '"checkpoint": null' openpi/manifest.json && grep -q '"deterministic": true' openpi/manifest.json || fail "$(cat openpi/manifest.json)"
"$dp_bench" compare own openpi >compare.txt 2>&1 || fail "$(cat compare.txt)"
echo "vla_eval gives one action per message"
start_server --checkpoint "$model" --protocol vla_eval
"$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output vla_eval "policy.params.url=$address" n_action_steps=1 \
  policy.params.protocol=vla_eval 'policy.params.keys={"obs":{"agent_pos":{"key":"state"}}}' "${runner[@]}" >eval.txt 2>&1 ||
  fail "$(cat eval.txt serve.txt)"
outcomes() { python3 -c 'import json, sys
for line in open(sys.argv[1]): row = json.loads(line); print(row["seed"], row["n_steps"], row["score"], row["metrics"])' "$1/episodes.jsonl"; }
cmp <(outcomes own) <(outcomes vla_eval) || fail "vla_eval: other episodes"  # a trace also has the plans, of which there are more
stop_server INT

echo "temporal ensembling is left to clients that get chunks, which must say what they do"
"$dp_bench" import "$root/../data/lerobot/policy_act_v06" --output act >import.txt 2>&1 || fail "$(cat import.txt)"
start_server --checkpoint act
grep -q "average what up to 8 plans have for it, as eval does with temporal_ensemble_coeff=0.01" serve.txt || fail "$(cat serve.txt)"
expect_exit 2 "set temporal_ensemble_coeff=0.01 and n_action_steps=8" "$dp_bench" eval --policy remote --env pusht --config-dir "$2" \
  --output act_eval "policy.params.url=$address" n_obs_steps=1 "${runner[@]}"
stop_server

echo "and so is how eval joins chunks"
train_briefly "$dp_bench" "$2" often env_runner.chunking.execute=4
start_server --checkpoint often
grep -q "executes 4 of the 8 actions of a plan.*serve does neither: answers are plans" serve.txt || fail "$(cat serve.txt)"
stop_server
train_briefly "$dp_bench" "$2" mean env_runner.chunking.execute=4 temporal_ensemble_coeff=0.01
start_server --checkpoint mean
! grep "env_runner.chunking" serve.txt || fail "ensembling plans at every step, whatever execute is"
stop_server

echo "delays of a remote policy: repeatable, and those of its checkpoint if no samples are drawn"
grid=("${runner[@]}" env_runner.max_steps=60 --delays 0,2 --execute 4 --chunking naive,bid,state_roll_forward
      env_runner.chunking.n_samples=3 'env_runner.chunking.followed_actions={"agent_pos":[0,1]}')
"$dp_bench" eval --checkpoint "$model" --output own_grid "${grid[@]}" >eval.txt 2>&1 || fail "$(cat eval.txt)"
start_server --checkpoint "$model"
for i in 1 2; do
  "$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output grid_$i "policy.params.url=$address" "${grid[@]}" \
    >eval.txt 2>&1 || fail "$(cat eval.txt serve.txt)"
done
expect_exit 2 "set it to naive or bid" "$dp_bench" eval --policy remote --env pusht --config-dir "$2" "policy.params.url=$address" \
  "${runner[@]}" --delays 2 --chunking naive,rtc
stop_server
for method in naive bid state_roll_forward; do
  for delay in 0 2; do
    point=${method}_delay_${delay}_execute_4
    cmp <(hashes grid_1/$point) <(hashes grid_2/$point) || fail "$point: repeated, it has other episodes"
    # the server is told a seed, so the further samples of bid are other ones than in process
    [ $method = bid ] || cmp <(hashes own_grid/$point) <(hashes grid_1/$point) || fail "$point: other episodes than in process"
    [ $method$delay = naive2 ] || ! cmp -s <(hashes grid_1/naive_delay_2_execute_4) <(hashes grid_1/$point) || fail "$point is naive"
  done
done

echo "the certificate of a policy"
start_server --checkpoint "$model"
expect_exit 0 "a function of (observation, seed): verified" "$dp_bench" doctor --url "$address" --env pusht --config-dir "$2"
grep -q "8 at once" out.txt || fail "$(cat out.txt)"
"$dp_bench" doctor --url "$address" --env pusht --config-dir "$2" --json | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert found["deterministic"] and found["latency_ms"]["p50"] > 0 and len(found["throughput"]) == 4, found' || fail "--json"
stop_server

echo "a run of a remote policy replays and continues"
start_server --checkpoint "$model" --record served
"$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output again "policy.params.url=$address" "${runner[@]}" \
  >eval.txt 2>&1 || fail "$(cat eval.txt)"
expect_exit 0 "" "$dp_bench" replay --run again --episode 0 --output replayed
expect_exit 0 "" "$dp_bench" eval --resume again env_runner.n_test=3
[ "$(wc -l <again/episodes.jsonl)" -eq 3 ] || fail "it was not extended"
"$dp_bench" gate --update-baseline --baseline again.json --candidate again >gate.txt 2>&1 || fail "$(cat gate.txt)"
expect_exit 3 "0 lost, 0 gained, 3 same" "$dp_bench" gate --baseline again.json --policy remote --env pusht \
  --config-dir "$2" "policy.params.url=$address" "${runner[@]}" --output gated

echo "what the server was asked and answered is what the policy in process was"
expect_exit 2 "new or empty folder" "$dp_bench" serve --checkpoint "$model" --record served --port 0
expect_exit 0 "no plan differs" "$dp_bench" diff own served
python3 - <<'PYTHON' || fail "the batch check is in the record: $(cat out.txt)"
import json
n_steps = json.loads(open("own/episodes.jsonl").readline())["n_steps"]
assert f"A own: {-(-n_steps // 8)} plans" in open("out.txt").read()  # each is executed for 8 steps
PYTHON
plan=served/plan_000000.safetensors
printf '\x3f' | dd of=$plan bs=1 seek=$(($(stat -c %s $plan) - 1)) conv=notrunc status=none
expect_exit 1 "first difference after 0 equal plans: seed 100000, step 0, obs.keypoint\[1, 8, 1\]" "$dp_bench" diff served own

expect_exit 2 "has nothing to train" "$dp_bench" train --policy remote --env point_mass --config-dir "$2" "policy.params.url=$address" \
  collect.n_episodes=2

echo "without its server an evaluation stops, and no episode fails"
"$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output lost "policy.params.url=$address" \
  policy.params.n_retries=0 policy.params.connect_timeout=1 "${runner[@]}" env_runner.n_test=8 env_runner.n_envs=2 >lost.txt 2>&1 &
evaluation=$!
for ((i = 0; i < 600; i++)); do grep -q score lost/episodes.partial.jsonl 2>/dev/null && break; sleep 0.1; done
kill -KILL $server
expect_ended 75 lost.txt $evaluation
grep -q "the policy server has gone: $address" lost.txt || fail "$(cat lost.txt)"
grep -q "continue with dp_bench eval --resume lost" lost.txt || fail "$(cat lost.txt)"
start_server --checkpoint "$model" --port "${address##*:}"
expect_exit 0 "" "$dp_bench" eval --resume lost
cmp <(hashes again | head -2) <(hashes lost | head -2) || fail "other episodes: $(cat lost/episodes.jsonl)"
[ "$(grep -c trace_hash lost/episodes.jsonl)" -eq 8 ] || fail "$(cat lost/episodes.jsonl)"
kill -KILL $server

echo "what is refused"
expect_exit 2 "has weights: give --checkpoint" "$dp_bench" eval --policy transformer --env pusht --config-dir "$2"
baseline=$model/baseline.json
expect_exit 2 "give a --candidate, or --policy" "$dp_bench" gate --baseline "$baseline"
expect_exit 2 "cannot" "$dp_bench" gate --baseline "$baseline" --policy remote --env pusht --candidate own
expect_exit 2 "requires --policy" "$dp_bench" gate --baseline "$baseline" --candidate own --env pusht
expect_exit 2 "found neither" "$dp_bench" eval --policy remote --env pusht --config-dir "$2"
expect_exit 2 "Is it running?" "$dp_bench" eval --policy remote --env pusht --config-dir "$2" policy.params.url=ws://127.0.0.1:1
expect_exit 2 "expected an address as ws://" "$dp_bench" eval --policy remote --env pusht --config-dir "$2" policy.params.url=http://x
expect_exit 6 "cannot listen on" "$dp_bench" serve --checkpoint "$model" --host 192.0.2.1
expect_exit 6 "only in a trusted network" "$dp_bench" serve --checkpoint "$model" --protocol groot --host 192.0.2.1
echo '{"obs": {"agent_pos": {"key": "state", "layout": "chw"}}}' >keys.json
expect_exit 2 "layout" "$dp_bench" serve --checkpoint "$model" --keys keys.json --port 0

echo "the checkpoint is loaded again on SIGHUP"
cp -r "$model" changing
start_server --checkpoint changing
kill -HUP $server
for ((i = 0; i < 600; i++)); do [ "$(grep -c "serving" serve.txt)" -eq 2 ] && break; sleep 0.1; done
[ "$(grep -c "serving" serve.txt)" -eq 2 ] || fail "it did not load again: $(cat serve.txt)"
echo broken >changing/ema.safetensors
kill -HUP $server
for ((i = 0; i < 600; i++)); do grep -q "still served" serve.txt && break; sleep 0.1; done
grep -q "the old checkpoint is still served" serve.txt || fail "$(cat serve.txt)"
mv changing moved
ln -s changing changing  # the error of the standard library, not ours
kill -HUP $server
for ((i = 0; i < 600; i++)); do [ "$(grep -c "still served" serve.txt)" -eq 2 ] && break; sleep 0.1; done
grep -q "still served: .*symbolic links" serve.txt || fail "$(cat serve.txt)"
stop_server

echo "other projects' clients"
packages="openpi-client==0.1.2 vla-eval==0.8.0 msgpack-numpy==0.4.8 pyzmq==27.1.0 numpy==1.26.4"
if [ "$(cat "$clients/installed.txt" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$clients"
  python3 -m venv "$clients"
  # shellcheck disable=SC2086
  if ! "$clients/bin/pip" install --quiet --disable-pip-version-check $packages >pip.txt 2>&1; then
    echo "SKIPPED: pip cannot install $packages: $(grep -m1 ERROR pip.txt)"
    exit 77
  fi
  echo "$packages" >"$clients/installed.txt"
fi
"$clients/bin/python" "$root/serve_clients.py" "$dp_bench" "$model"

echo "other projects' servers"
for peer in openpi groot vla_eval; do
  options=("policy.params.protocol=$peer")
  [ $peer = vla_eval ] && options+=(n_action_steps=1 'policy.params.keys={"obs":{"agent_pos":{"key":"state"}}}')
  "$dp_bench" eval --policy remote --env pusht --config-dir "$2" --output peer_$peer n_obs_steps=1 "${options[@]}" "${runner[@]}" \
    "policy.params.command=$clients/bin/python $root/peer_servers.py $peer" >eval.txt 2>&1 || fail "$peer: $(cat eval.txt)"
  grep -q "a function of (observation, seed): verified" eval.txt || fail "$peer: $(cat eval.txt)"
done
cmp <(hashes peer_openpi) <(hashes peer_groot) || fail "openpi's and GR00T's servers: other episodes"
