#!/usr/bin/env bash
# dp_bench view on a virtual display: expert and policy; the window's image is checked.
# Usage: view.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

expect_image() {  # expect_image FILE WIDTH HEIGHT COLOUR...: an RGB8 PNG that has these colours
  python3 - "$@" <<'PYTHON' || fail "$1 is not the expected image"
import struct, sys, zlib
name, width, height, *colours = sys.argv[1:]
data = open(name, "rb").read()
size = struct.unpack(">II", data[16:24])
assert size == (int(width), int(height)), size
compressed, begin = b"", 8
while begin < len(data):
    length, kind = struct.unpack(">I4s", data[begin:begin + 8])
    if kind == b"IDAT":
        compressed += data[begin + 8:begin + 8 + length]
    begin += 12 + length
rows = zlib.decompress(compressed)
stride = 3 * size[0] + 1
found = set()
for y in range(size[1]):
    row = rows[y * stride + 1:(y + 1) * stride]
    found.update(row[3 * x:3 * x + 3].hex() for x in range(size[0]))
assert set(colours) <= found, sorted(found)[:20]
PYTHON
}

echo "without a display it says what to do instead"
unset DISPLAY
expect_exit 2 "dp_bench eval" "$dp_bench" view --config-dir "$configs" --env point_mass --expert

mkfifo ready
Xvfb -displayfd 3 -screen 0 1024x768x24 -nolisten tcp -noreset 3>ready 2>xvfb.txt &
server=$!
read -r display <ready || fail "Xvfb did not start: $(cat xvfb.txt)"
export DISPLAY=":$display"

view=("$dp_bench" view --config-dir "$configs" --speed 64)
small=(--policy constant_action --env point_mass --config-dir "$configs" training.num_epochs=1
       env_runner.n_test=1 env_runner.n_videos=0 collect.n_episodes=5)

echo "an expert reaches the goal, and the window shows mass and goal"
expect_exit 0 "seed 7: .* success" "${view[@]}" --env point_mass --expert --seed 7 --steps 100
expect_exit 0 "" "${view[@]}" --env point_mass --expert --seed 7 --steps 5 --size 320 200 \
  --screenshot expert.png
expect_image expert.png 320 200 ffffff 3c5adc 3cb45a

echo "a checkpoint plays the episode that was evaluated"
"$dp_bench" train "${small[@]}" --output trained >train.txt 2>&1 || fail "$(cat train.txt)"
"$dp_bench" eval --checkpoint trained/checkpoints/latest --output evaluated env_runner.n_test=1 \
  >eval.txt 2>&1 || fail "$(cat eval.txt)"
score_of() { printf %.3f "$(sed -E 's/.*"score":([0-9.]+).*/\1/' "$1/episodes.jsonl")"; }
expect_exit 0 "seed 100000: 100 steps, score $(score_of evaluated)" \
  "${view[@]}" --checkpoint trained/checkpoints/latest --steps 100
expect_exit 2 "--config excludes --checkpoint" \
  "${view[@]}" --checkpoint trained/checkpoints/latest --config trained/config.json
expect_exit 2 "--weights requires --checkpoint" "${view[@]}" --env point_mass --expert --weights ema

echo "also one that plans again before its chunk ends"
train_briefly "$dp_bench" "$configs" acting
acting=(--checkpoint acting env_runner.chunking.execute=2)
"$dp_bench" eval "${acting[@]}" --output acted env_runner.n_test=1 env_runner.n_train=0 env_runner.n_videos=0 >eval.txt 2>&1 ||
  fail "$(cat eval.txt)"
expect_exit 0 "seed 100000: .* score $(score_of acted)" "${view[@]}" "${acting[@]}" --steps 100

echo "what cannot be viewed says why"
expect_exit 2 "choose one of" "${view[@]}" --env point_mass
expect_exit 2 "choose one of" "${view[@]}" --env point_mass --expert --human
expect_exit 2 "pointer" "${view[@]}" --env point_mass --human
for key in realtime=1 'chunking.latency={"distribution": "measured", "samples_ms": [90]}'; do
  expect_exit 2 "found chunking.latency or realtime" "${view[@]}" --checkpoint acting "env_runner.$key"
done
