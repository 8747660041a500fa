#!/usr/bin/env bash
# Exit codes and messages for paths that cannot be written, lost output, exhausted memory, signals at any moment, and
# mistyped words.
# Usage: output_and_signals.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
export OMP_WAIT_POLICY=passive  # keeps the program from starting itself again, which makes every test faster
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR=$work/tmp
cd "$work"

small=(--config-dir "$configs" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]" policy.params.n_groups=4)
evaluate=("$dp_bench" eval --checkpoint "$work/trained/checkpoints/latest" env_runner.n_test=2 env_runner.n_train=0
          env_runner.n_workers=1)

ends_with() {  # ends_with CODE COMMAND...: whether it does; prints nothing, so that its streams can be closed
  local code=$1 status=0
  shift
  "$@" || status=$?
  [ "$status" -eq "$code" ]
}

left_over() {  # the temporary files and folders that a writer left
  find "$work" -name '*.tmp.????????????????' -o -name 'dp_bench_??????'
}

echo "a training whose status and progress are lost is the same training"
train_briefly "$dp_bench" "$configs" trained
for stream in full closed; do
  train=("$dp_bench" train "${small[@]}" collect.n_episodes=4 training.num_epochs=1 training.lr_warmup_steps=2
         training.rollout_every=0 dataloader.batch_size=32 --output "trained_$stream")
  if [ "$stream" = full ]; then
    "${train[@]}" 2>/dev/full >out.txt || fail "a full stderr ended the training: $(cat out.txt)"
  else  # and nothing reuses the numbers of the closed ones
    ends_with 6 "${train[@]}" <&- >&- 2>err.txt || fail "a closed stdout: $(cat err.txt)"
    grep -q "cannot write to standard output" err.txt || fail "$(cat err.txt)"
  fi
  cmp trained/checkpoints/latest/ema.safetensors "trained_$stream/checkpoints/latest/ema.safetensors"
  cmp trained/logs.json.txt "trained_$stream/logs.json.txt"
done

"${evaluate[@]}" env_runner.n_videos=1 --output run >out.txt 2>&1 || fail "$(cat out.txt)"

echo "results that do not arrive are an error"
for verb in "inspect --checkpoint trained/checkpoints/latest --json" "compare run run" "plugins" "eval --help" "--version"; do
  # shellcheck disable=SC2086
  ends_with 6 "$dp_bench" $verb 2>err.txt >/dev/full || fail "$verb with a full stdout: $(cat err.txt)"
  grep -q "No space left on device" err.txt || fail "$verb: $(cat err.txt)"
done
"$dp_bench" gate --baseline base.json --candidate run --update-baseline >/dev/null 2>&1 || true
if [ -s base.json ]; then
  ! "$dp_bench" gate --baseline base.json --candidate run 2>err.txt >/dev/full || fail "gate"
  grep -q "No space left on device" err.txt || fail "gate: $(cat err.txt)"
fi
set +e
"$dp_bench" inspect --checkpoint trained/checkpoints/latest --json 2>err.txt | head -1 >/dev/null
statuses=("${PIPESTATUS[@]}")
set -e
[ "${statuses[0]}" -eq 0 ] || [ "${statuses[0]}" -eq 6 ] || fail "| head -1 ended it with ${statuses[0]}: $(cat err.txt)"
# a reader that closes before the first byte
set +e
"$dp_bench" inspect --checkpoint trained/checkpoints/latest --json 2>err.txt | true
statuses=("${PIPESTATUS[@]}")
set -e
[ "${statuses[0]}" -eq 6 ] || fail "| true ended it with ${statuses[0]}"
grep -q "Broken pipe" err.txt || fail "$(cat err.txt)"

echo "a result goes where the user says and replaces nothing else"
expect_exit 2 "a file of the run in" "$dp_bench" compare run run --json run/episodes.jsonl
expect_exit 2 "a file of the run in" "$dp_bench" video run --output run/media/test_100000.mp4
echo mine >notes.txt
expect_exit 2 "expected no file or a comparison" "$dp_bench" compare run run --json notes.txt
for verb in "train ${small[*]} --dry-run --json" "eval --checkpoint trained --dry-run --json" \
            "collect --config-dir $configs --env point_mass --dry-run --json" "merge run --html" \
            "correct --checkpoint trained --output"; do
  # shellcheck disable=SC2086
  expect_exit 2 "expected no file or a .* found another file" "$dp_bench" $verb notes.txt
done
[ "$(cat notes.txt)" = mine ] || fail "notes.txt was replaced"
for again in 1 2; do
  expect_exit 0 "all episodes take" "$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 2 --dry-run \
    --json predicted.json
done
"$dp_bench" compare run run --json - 2>err.txt | python3 -c 'import json, sys; assert json.load(sys.stdin)["runs"]' || fail "--json -"
grep -q "shared seeds" err.txt || fail "the text of --json -: $(cat err.txt)"
"$dp_bench" compare run run --json >(cat >through.txt) --html page.html >out.txt 2>&1 || fail "$(cat out.txt)"
ln -s target.mp4 link.mp4
for again in 1 2; do
  "$dp_bench" compare run run --json compared.json --html page.html >out.txt 2>&1 || fail "$(cat out.txt)"
  "$dp_bench" video run --output link.mp4 >out.txt 2>&1 || fail "$(cat out.txt)"
done
[ -L link.mp4 ] && [ -s target.mp4 ] || fail "the link was not followed"
grep -q '"runs"' through.txt || fail "through >(...): $(cat through.txt)"
mkfifo pipe.gif
timeout 60 cat pipe.gif >piped.gif &
"$dp_bench" video run --output pipe.gif >out.txt 2>&1 || fail "$(cat out.txt)"
wait
[ -p pipe.gif ] && [ "$(head -c 4 piped.gif)" = GIF8 ] || fail "through a FIFO"
if mknod null c 1 3 2>err.txt; then
  "$dp_bench" compare run run --json null >out.txt 2>&1 || fail "$(cat out.txt)"
  [ -c null ] || fail "a device was replaced"
fi

echo "a video whose program is killed leaves nothing"
for signal in TERM INT KILL; do
  for seconds in 0.1 0.15 0.2 0.3 0.6 0.9; do
    rm -f killed.mp4  # a file that replaces another one bears a temporary name for a moment
    timeout -s $signal $seconds "$dp_bench" video run --output killed.mp4 >out.txt 2>&1 || true
    [ -z "$(left_over | grep killed)" ] || fail "SIG$signal left $(left_over)"
  done
done

echo "what the system refuses is no bug"
mkdir removed
(cd removed && rmdir ../removed && ends_with 6 "$dp_bench" plugins >"$work/out.txt" 2>&1) &&
  grep -q "working folder does not exist" out.txt || fail "a removed working folder: $(cat out.txt)"
touch file
long=$(printf 'x%.0s' $(seq 300))
for output in file/below "$long"; do
  for verb in "train ${small[*]} collect.n_episodes=4" "eval --checkpoint trained/checkpoints/latest" \
              "collect --config-dir $configs --env point_mass --episodes 2" "export --checkpoint trained/checkpoints/latest"; do
    # shellcheck disable=SC2086
    expect_exit 6 "${output:0:200}" "$dp_bench" $verb --output "$output"
    ! grep -q "This is a bug" out.txt || fail "$verb --output $output: $(cat out.txt)"
  done
  expect_exit 6 "${output:0:200}" "$dp_bench" video run --output "$output.mp4"
  expect_exit 6 "${output:0:200}" "$dp_bench" compare run run --html "$output.html"
  expect_exit 6 "${output:0:200}" "$dp_bench" replay --run run --episode 0 --output "$output"
done
(cd /proc && expect_exit_elsewhere() {
  status=0; "$@" >"$work/out.txt" 2>&1 || status=$?
  [ "$status" -eq 6 ] && grep -q "'runs" "$work/out.txt" && ! grep -q "This is a bug" "$work/out.txt"
} && expect_exit_elsewhere "${evaluate[@]}") || fail "a folder that cannot be written: $(cat out.txt)"
TMPDIR=/nowhere expect_exit 6 "Set TMPDIR" "$dp_bench" train "${small[@]}" --dry-run
expect_exit 2 "is not UTF-8" "$dp_bench" eval --checkpoint $'caf\xe9'
mkdir $'caf\xe9'
(cd $'caf\xe9' && "$dp_bench" export --checkpoint ../trained/checkpoints/latest --output here) >out.txt 2>&1 || fail "$(cat out.txt)"
(cd $'caf\xe9' && ends_with 2 "$dp_bench" eval --checkpoint here env_runner.n_test=1 --output run >../out.txt 2>&1) &&
  grep -q "not UTF-8" out.txt || fail "a path that is not UTF-8: $(cat out.txt)"
cp -r run edited
sed -i 's/"weights": "ema"/"weights": "emma"/' edited/manifest.json
expect_exit 6 "'emma'" "$dp_bench" replay --run edited --episode 0
expect_exit 6 "'emma'" "$dp_bench" eval --resume edited

echo "a network that does not fit into memory is not the plugin's fault"
expect_exit 71 "out of memory: policy plugin 'unet_hybrid' needs more than there is" "$dp_bench" train "${small[@]}" \
  policy.params.down_dims='[1048576,2097152]' collect.n_episodes=4
! grep -q "frame #\|the plugin threw" out.txt || fail "$(cat out.txt)"

echo "memory that runs out is said without a backtrace, and what to do"
for verb in train "inspect --batch-size 1048576"; do
  status=0
  # shellcheck disable=SC2086
  (ulimit -v 2400000; exec "$dp_bench" $verb "${small[@]}" policy.params.down_dims='[1024,2048]' collect.n_episodes=4 \
    dataloader.batch_size=1000) >out.txt 2>&1 || status=$?
  [ "$status" -eq 71 ] || fail "$verb without memory ended with $status: $(tail -c 2000 out.txt)"
  grep -q "out of memory" out.txt && grep -q "batch_size" out.txt || fail "$(cat out.txt)"
  ! grep -q "frame #\|C++ CapturedTraceback\|This is a bug" out.txt || fail "$(cat out.txt)"
done

echo "mixed_precision=auto becomes what the processor is fast at, and the run's config says which"
expect_exit 0 "training.mixed_precision: " "$dp_bench" train --config-dir "$configs" --policy unet_hybrid --env point_mass \
  collect.n_episodes=4 training.num_epochs=1 training.rollout_every=0 training.mixed_precision=auto --output precise
expected=no
! grep -q avx512_bf16 /proc/cpuinfo || expected=bf16
grep -q "\"mixed_precision\": \"$expected\"" precise/config.json || fail "$(cat precise/config.json)"

echo "a signal ends a verb that keeps nothing at once, and leaves nothing"
wait_for_episode() {  # wait_for_episode RUN CHILD: until its first episode has ended
  until grep -qs trace_hash "$1/episodes.partial.jsonl"; do
    kill -0 "$2" || fail "$1 ended before its first episode"
    sleep 0.05
  done
}
# signalled SIGNAL WHEN COMMAND...: the exit status, within two seconds of the signal, which comes after WHEN seconds, or
# after the first episode of the run folder WHEN
signalled() {
  local signal=$1 when=$2
  shift 2
  env --default-signal=INT "$@" >signalled.txt 2>&1 &  # a script's background ignores it
  local child=$! status=0
  case $when in [0-9]*) sleep "$when" ;; *) wait_for_episode "$when" "$child" ;; esac
  local sent=$(date +%s%N)
  kill "-$signal" "$child" || fail "$* ended before the signal: $(cat signalled.txt)"
  wait "$child" || status=$?
  [ $((($(date +%s%N) - sent) / 1000000)) -le 2000 ] || fail "$* took more than 2 s to end after SIG$signal"
  echo "$status"
}
diagnose=("$dp_bench" diagnose --checkpoint trained/checkpoints/latest --rollouts 1000)
profile=("$dp_bench" profile "${small[@]}" collect.n_episodes=4 --steps 10000 dataloader.batch_size=16)
[ "$(signalled TERM 4 "${diagnose[@]}" )" -eq 143 ] || fail "diagnose: $(cat signalled.txt)"
[ "$(signalled HUP 4 "${profile[@]}")" -eq 129 ] || fail "profile: $(cat signalled.txt)"
[ "$(signalled INT 4 "$dp_bench" replay --run run --episode 0 --size 4000 4000)" -eq 130 ] || fail "replay: $(cat signalled.txt)"
[ -z "$(left_over)" ] || fail "left: $(left_over)"

echo "an evaluation that is interrupted while it loads is one that can be resumed"
n_test=800  # more than a fast machine evaluates in the longest of these times
for seconds in 0.6 1.2; do
  status=$(signalled INT $seconds "${evaluate[@]}" env_runner.n_test=$n_test env_runner.n_videos=0 --output "early_$seconds")
  if [ "$status" -eq 130 ]; then  # the program was not loaded yet
    [ ! -e "early_$seconds/config.json" ] || fail "a part of an evaluation"
  else
    [ "$status" -eq 75 ] || fail "it ended with $status: $(cat signalled.txt)"
    "$dp_bench" eval --resume "early_$seconds" >out.txt 2>&1 || fail "$(cat out.txt)"
    [ "$(wc -l <"early_$seconds/episodes.jsonl")" -eq $n_test ] || fail "it did not run the rest: $(cat out.txt)"
  fi
done

echo "SIGHUP interrupts like SIGTERM, but not under nohup"
endless=("${evaluate[@]}" env_runner.n_test=100000 env_runner.n_videos=0)
[ "$(signalled HUP hung_up "${endless[@]}" --output hung_up)" -eq 75 ] || fail "$(cat signalled.txt)"
grep -q "continue with dp_bench eval --resume" signalled.txt || fail "$(cat signalled.txt)"
nohup "${endless[@]}" --output nohup >nohup.txt 2>&1 &
child=$!
wait_for_episode nohup "$child"
kill -HUP "$child"
sleep 1
kill -TERM "$child" || fail "SIGHUP ended it under nohup: $(cat nohup.txt)"
expect_ended 75 nohup.txt "$child"

echo "mistyped words get a suggestion"
expect_exit 2 "argument 3, 'a.x0ab.x1b', has control characters" "$dp_bench" eval --checkpoint $'a\nb\e'
expect_exit 2 "did you mean eval?" "$dp_bench" evla --checkpoint trained
expect_exit 2 "did you mean --checkpoint?" "$dp_bench" eval --chekpoint trained
expect_exit 2 "did you mean --policy?" "$dp_bench" --polcy unet_hybrid
expect_exit 2 ".mp4" "$dp_bench" video run --output video.avi
[ ! -e video.avi ] || fail "video.avi was written"

echo "control characters of a file do not reach the terminal"
cp -r run named
sed -i 's/"failure_reason":null/"failure_reason":"\\u001b[2Jgone"/' named/episodes.jsonl
"$dp_bench" replay --run named --episode 0 >out.txt 2>&1 || true
"$dp_bench" compare named named >>out.txt 2>&1 || true
! grep -q $'\x1b' out.txt || fail "$(cat -v out.txt)"

echo "every verb shows examples with options that it has"
for verb in run train eval correct compare gate replay video diff collect export diagnose inspect view plugins profile bench; do
  "$dp_bench" "$verb" --help >out.txt
  grep -q "^Examples:" out.txt || fail "$verb --help has no examples"
  # Not a pipe: grep -q ends at the first match, and sed's broken pipe would then count as a failure.
  sed '/^Examples:/,$d' out.txt >options.txt
  for option in $(sed -n '/^Examples:/,$p' out.txt | grep -o -- ' --[a-z-]*'); do
    grep -q -- "$option\b" options.txt || fail "$verb has no option $option"
  done
done
