#!/usr/bin/env bash
# --isolate: an env that crashes, hangs or exits costs only its episode, in eval, collect and run. Also the config keys
# and their options, and what remains when the program is killed.
# Usage: isolate.sh <dp_bench program> <configs folder> <folder with libdpb_env_faulty.so>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
enter_scratch_folder

config() {  # config FILE FAULTS ISOLATE
  cat >"$1" <<JSON
{"name": "faulty", "env": {"plugin": "faulty", "params": {"faults": $2}}, "policy": {"plugin": "constant_action"},
 "collect": {"n_episodes": 3, "start_seed": 7, "keep_failures": true}, "dataloader": {"batch_size": 4},
 "env_runner": {"n_train": 0, "n_test": 6, "n_videos": 1, "step_timeout": 1, "isolate": $3},
 "training": {"num_epochs": 1, "max_train_steps": 1, "rollout_every": 0}}
JSON
}

reasons() { grep -c '"failure_reason":"step' "$1/episodes.jsonl" || true; }

with=(--config-dir "$2" --plugin-dir "$3")
broken='[{"seed": 100001, "kind": "segv", "step": 5}, {"seed": 100002, "kind": "exit", "step": 9},
         {"seed": 100004, "kind": "hang", "step": 2}]'
config clean.json '[]' false
config broken.json "$broken" true

echo "a run with broken episodes ends, and says which"
expect_exit 0 "run folder: clean" "$dp_bench" run --config clean.json "${with[@]}" --output clean
expect_exit 5 "seed 100001 after 5 steps: step 5: the env plugin died with signal 11 (SIGSEGV), and again" \
  "$dp_bench" run --config broken.json "${with[@]}" --output broken
grep -q "the env plugin exited with code 3" out.txt || fail "$(cat out.txt)"
grep -q "the env plugin did not answer within 1 s" out.txt || fail "$(cat out.txt)"
[ "$(reasons broken)" -eq 3 ] || fail "$(cat broken/episodes.jsonl)"
[ "$(comm -12 <(hashes clean | sort) <(hashes broken | sort) | wc -l)" -eq 3 ] ||
  fail "the other three episodes changed: $(hashes clean) $(hashes broken)"

echo "the option wins over the config, and isolated outcomes are those of threads"
checkpoint=(eval --checkpoint clean/checkpoints/latest --plugin-dir "$3")
expect_exit 0 "report" "$dp_bench" "${checkpoint[@]}" --output isolated --isolate
grep -q '"isolate": true' isolated/config.json || fail "$(cat isolated/config.json)"
expect_exit 0 "report" "$dp_bench" "${checkpoint[@]}" --output threads
grep -q '"isolate": false' threads/config.json || fail "$(cat threads/config.json)"
[ "$(hashes isolated)" = "$(hashes threads)" ] || fail "$(hashes isolated) $(hashes threads)"
expect_exit 2 "excludes" "$dp_bench" "${checkpoint[@]}" --isolate --no-isolate
expect_exit 2 "step_timeout: expected a number from" "$dp_bench" "${checkpoint[@]}" env_runner.step_timeout=0

echo "without --isolate, an env that ends the program is named, with its call and seed"
for kind in segv:139:"died with signal 11 (SIGSEGV)" abort:134:"died with signal 6 (SIGABRT)" overflow:139:"died with signal 11 (SIGSEGV)" \
  exit:2:"called exit(3)"; do
  IFS=: read -r fault code how <<<"$kind"
  expect_exit "$code" "$how in Step, in the episode of seed 100001" \
    "$dp_bench" "${checkpoint[@]}" --output "ended_$fault" "env.params.faults=[{\"seed\": 100001, \"kind\": \"$fault\", \"step\": 1}]"
  grep -q "env plugin 'faulty' .* With --isolate" out.txt || fail "$(cat out.txt)"
done

echo "one SIGTERM ends a run whose env hangs, and says where"
"$dp_bench" "${checkpoint[@]}" --output hanging 'env.params.faults=[{"seed": 100000, "kind": "hang", "step": 1}]' \
  >hanging.txt 2>&1 &
host=$!
for _ in $(seq 200); do  # until the others are over
  [ "$(cat hanging/episodes.partial.jsonl 2>/dev/null | wc -l)" -ge 6 ] && break
  sleep 0.1
done
kill -TERM "$host"
expect_ended 143 hanging.txt "$host"
grep -q "env plugin 'faulty', during Step: expected it to return" hanging.txt || fail "$(cat hanging.txt)"

echo "collecting continues after a crash, and lists the seed"
config collect.json '[{"seed": 8, "kind": "abort", "in": "act", "step": 3}]' true
expect_exit 0 "3 episodes" "$dp_bench" collect --config collect.json "${with[@]}" --output data.zarr
grep -q "died with signal 6 (SIGABRT)" data.zarr/.zattrs || fail "$(cat data.zarr/.zattrs)"

echo "nothing is left of a program that is killed"
"$dp_bench" eval --checkpoint clean/checkpoints/latest --plugin-dir "$3" --output killed --isolate \
  'env.params.faults=[{"seed": 100000, "kind": "spin", "step": 1}]' env_runner.step_timeout=1000 >killed.txt 2>&1 &
host=$!
for _ in $(seq 200); do
  workers=$(pgrep -P "$host" || true)
  [ "$(wc -w <<<"$workers")" -ge 6 ] && break
  sleep 0.1
done
[ -n "$workers" ] || fail "no env process was seen: $(cat killed.txt)"
kill -9 "$host"
wait "$host" 2>/dev/null || true
for _ in $(seq 100); do
  left=0
  for worker in $workers; do
    if grep -q "State:.[RSDT]" "/proc/$worker/status" 2>/dev/null; then left=$((left + 1)); fi
  done
  [ "$left" -eq 0 ] && break
  sleep 0.1
done
[ "$left" -eq 0 ] || fail "$left env processes outlive their host"
if ls /dev/shm | grep dp_bench; then fail "shared memory is left"; fi
