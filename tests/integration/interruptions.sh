#!/usr/bin/env bash
# Stops the program by signals, kills it at random moments and continues it elsewhere: it always ends with the weights
# of an undisturbed run.
# Usage: interruptions.sh <dp_bench program> <configs folder> [how many kills; 2]
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
kills=${3:-2}
export OMP_WAIT_POLICY=passive
enter_scratch_folder

train=("$dp_bench" train --config-dir "$configs" --policy unet_hybrid --env point_mass
       "policy.params.down_dims=[16,32]" policy.params.n_groups=4 collect.n_episodes=10 dataloader.batch_size=16
       training.num_epochs=6 training.lr_warmup_steps=2 training.checkpoint_every=1 training.rollout_every=0
       training.gradient_accumulate_every=3 'checkpoint.topk={"monitor_key": "train_loss", "mode": "min", "k": 2}')

same_weights() {  # same_weights RUN: those of the undisturbed run, and its best checkpoints
  cmp whole/checkpoints/latest/ema.safetensors "$1/checkpoints/latest/ema.safetensors"
  cmp whole/checkpoints/latest/optimizer.safetensors "$1/checkpoints/latest/optimizer.safetensors"
  diff <(ls whole/checkpoints) <(ls "$1/checkpoints")
}

start() {  # start RUN: a training in the background, at work; sets `child`
  "${train[@]}" --output "$1" >"$1.txt" 2>&1 &
  child=$!
  for _ in $(seq 600); do
    [ -s "$1/logs.json.txt" ] && return
    sleep 0.05
  done
  fail "the training does not begin: $(cat "$1.txt")"
}

"${train[@]}" --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"
began=$(date +%s%N)
"${train[@]}" --output again >again.txt 2>&1 || fail "$(cat again.txt)"
milliseconds=$((($(date +%s%N) - began) / 1000000))
same_weights again

for signal in TERM INT; do
  echo "SIG$signal: a checkpoint at the next step, exit code 75, and the run continues"
  start "stopped_$signal"
  sent=$(date +%s)
  kill "-$signal" "$child"
  expect_ended 75 "stopped_$signal.txt" "$child"
  [ $(($(date +%s) - sent)) -le 20 ] || fail "it took more than 20 s"
  ! cmp -s whole/checkpoints/latest/ema.safetensors "stopped_$signal/checkpoints/latest/ema.safetensors" ||
    fail "it was not stopped"
  "$dp_bench" train --resume "stopped_$signal" >out.txt 2>&1 || fail "$(cat out.txt)"
  same_weights "stopped_$signal"
done

echo "a second SIGINT stops it at once, and the run continues"
start twice
kill -STOP "$child"  # so that both arrive together
kill -INT "$child"
kill -CONT "$child"
for _ in $(seq 200); do kill -INT "$child" 2>/dev/null || break; done
status=0
wait "$child" || status=$?
[ "$status" -eq 130 ] || [ "$status" -eq 75 ] || fail "it ended with $status"
"$dp_bench" train --resume twice >out.txt 2>&1 || fail "$(cat out.txt)"
same_weights twice

echo "SIGUSR1: a snapshot; the run can continue elsewhere from it, and the training continues"
start asked
kill -USR1 "$child"
expect_ended 0 asked.txt "$child"
same_weights asked
snapshot=$(echo asked/snapshots/step=*)
[ -s "$snapshot/checkpoints/latest/optimizer.safetensors" ] || fail "no snapshot: $(cat asked.txt)"
cp -r "$snapshot" snapshot_before
"$dp_bench" train --resume "$snapshot" --output elsewhere >out.txt 2>&1 || fail "$(cat out.txt)"
diff -r "$snapshot" snapshot_before || fail "continuing elsewhere changed the snapshot"
cmp whole/checkpoints/latest/ema.safetensors elsewhere/checkpoints/latest/ema.safetensors
cmp whole/logs.json.txt elsewhere/logs.json.txt
expect_exit 2 "exists already" "$dp_bench" train --resume "$snapshot" --output elsewhere

echo "kill -9 at $kills random moments of a training of $milliseconds ms"
resumed=0
RANDOM=1
for i in $(seq "$kills"); do
  rm -rf killed
  "${train[@]}" --output killed >killed.txt 2>&1 &
  child=$!
  moment=$((RANDOM * milliseconds / 32768))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  kill -9 "$child" 2>/dev/null || true
  wait "$child" 2>/dev/null || true
  # before its config is written there is nothing to resume: it starts from the beginning
  if [ -s killed/config.json ]; then again=("$dp_bench" train --resume killed); else again=("${train[@]}" --output killed); fi
  "${again[@]}" >out.txt 2>&1 || fail "kill $i after $moment ms: $(cat out.txt)"
  same_weights killed
  resumed=$((resumed + 1))
done
echo "$resumed of $kills resumed to the same weights"

echo "a checkpoint without the optimizer is evaluated, not resumed, and begins another training"
"${train[@]}" training.num_epochs=1 'checkpoint.exclude_keys=["optimizer"]' --output small >out.txt 2>&1 || fail "$(cat out.txt)"
for weights in ema model; do
  "$dp_bench" eval --checkpoint small/checkpoints/latest --weights "$weights" --output "eval_$weights" \
    env_runner.n_test=1 env_runner.n_videos=0 >out.txt 2>&1 || fail "$(cat out.txt)"
done
expect_exit 6 "saved without optimizer" "$dp_bench" train --resume small
"${train[@]}" training.num_epochs=1 'training.init_checkpoint={"path": "small/checkpoints/latest"}' --output next >out.txt 2>&1 ||
  fail "$(cat out.txt)"
grep -q "the training begins with" out.txt || fail "$(cat out.txt)"
