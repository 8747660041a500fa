# Expectations about commands for the tests of the program; sourced by them.
fail() { echo "FAILED: $*" >&2; exit 1; }

expect_exit() {  # expect_exit CODE TEXT COMMAND...: the exit code, and what the message must hold
  local code=$1 text=$2 status=0
  shift 2
  "$@" >out.txt 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "$* ended with $status, expected $code: $(cat out.txt)"
  grep -q -- "$text" out.txt || fail "$* did not say '$text': $(cat out.txt)"
}

expect_ended() {  # expect_ended CODE OUTPUT CHILD: of a process in the background, which is waited for
  local status=0
  wait "$3" || status=$?
  [ "$status" -eq "$1" ] || fail "it ended with $status, expected $1: $(cat "$2")"
}

expect_stopped() {  # expect_stopped RUN TEXT COMMAND...: by a signal after its first episode; TEXT says how to go on
  local run=$1 text=$2
  shift 2
  "$@" --output "$run" >out.txt 2>&1 &
  until grep -qrs --include=episodes.partial.jsonl trace_hash "$run"; do
    kill -0 $! || fail "$* ended before it was interrupted"
    sleep 0.02
  done
  kill -INT $!
  expect_ended 75 out.txt $!
  grep -q -- "$text" out.txt || fail "$* did not say '$text': $(cat out.txt)"
}

enter_scratch_folder() {  # a new working folder, "$work", which goes when the test ends
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
}

install_dp_bench() {  # install_dp_bench BUILD PREFIX: alone, without plugins, configs and scenes of this user
  export HOME=$work
  unset DP_BENCH_PLUGIN_PATH DP_BENCH_CONFIG_PATH DP_BENCH_SCENE_PATH
  cmake --install "$1" --prefix "$2" >install.txt 2>&1 || fail "$(tail -5 install.txt)"
}

build_project() {  # build_project PREFIX SOURCE BUILD OPTIONS...: against the installation, without warnings
  cmake -S "$2" -B "$3" -G Ninja -Ddp_bench_DIR="$1/lib/cmake/dp_bench" >configure.txt 2>&1 || fail "$(tail -20 configure.txt)"
  cmake --build "$3" "${@:4}" >build.txt 2>&1 || fail "$(tail -20 build.txt)"
  ! grep -q "warning:" build.txt || fail "warnings: $(cat build.txt)"
}

train_briefly() {  # train_briefly PROGRAM CONFIGS OUTPUT [OVERRIDE...]: a small policy for point_mass that acts, if badly
  "$1" train --config-dir "$2" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]" \
    policy.params.n_groups=4 collect.n_episodes=4 training.num_epochs=1 training.lr_warmup_steps=2 \
    training.rollout_every=0 dataloader.batch_size=32 --output "$3" "${@:4}" >train.txt 2>&1 || fail "$(cat train.txt)"
}

hashes() { grep -o '"trace_hash":"[0-9a-f]*"' "$1/episodes.jsonl"; }  # hashes RUN: of its episodes' traces

network_calls_per_chunk() {  # network_calls_per_chunk RUN
  python3 - "$1/latency.json" <<'PYTHON'
import json, sys
alone = json.load(open(sys.argv[1]))["batch_1"]
print(alone["stages"]["denoising step"]["n"] // alone["chunk"]["n"])
PYTHON
}

without_id() {  # without_id RUN...: as versions before 0.2 left it; its files may be edited then
  python3 - "$@" <<'PYTHON'
import json, pathlib, sys
for folder in map(pathlib.Path, sys.argv[1:]):
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["run_id"], manifest["config_sha256"]
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))
    (folder / "eval_log.json").unlink()
PYTHON
}

same_curves() {  # same_curves RUN RUN TOLERANCE: every value of every line of their logs
  python3 - "$1/logs.json.txt" "$2/logs.json.txt" "$3" <<'PYTHON'
import json, sys
logs = [[json.loads(line) for line in open(path)] for path in sys.argv[1:3]]
tolerance = float(sys.argv[3])
assert len(logs[0]) == len(logs[1]) > 2, [len(log) for log in logs]
for a, b in zip(*logs):
    assert a.keys() == b.keys(), (a, b)
    for key in a:
        assert abs(a[key] - b[key]) <= tolerance * max(1.0, abs(b[key])), (key, a, b)
PYTHON
}
