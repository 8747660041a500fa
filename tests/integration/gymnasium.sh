#!/usr/bin/env bash
# Gymnasium environments as envs: the conformance suite, planted faults, and the certificate. The virtual environment stays in
# the build folder, so only the first run downloads packages. Exits with 77, which ctest shows as skipped, where they cannot be
# downloaded.
# Usage: gymnasium.sh <source folder> <build folder> [<dp_bench program>]
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
root=$1
build=$2
dp_bench=${3:-}
mkdir -p "$build/gymnasium"
cd "$build/gymnasium"

packages="gymnasium==1.4.0 mujoco==3.3.0 numpy"
if [ "$(cat installed.txt 2>/dev/null)" != "$packages" ]; then
  rm -rf venv
  # shellcheck disable=SC2086
  { python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check $packages; } >pip.txt 2>&1 ||
    { echo "SKIPPED: pip cannot install $packages: $(grep -m1 -i error pip.txt)"; exit 77; }
  echo "$packages" >installed.txt
fi
export PYTHONPATH="$root/tests/support/gymnasium"
export DPB_GYMNASIUM_PYTHON="$PWD/venv/bin/python"

"$DPB_GYMNASIUM_PYTHON" "$root/tests/plugins/envs/gymnasium/gym_host_test.py"

echo "the env keeps the contract of envs"
echo "{\"id\": \"faulty_gym:Faulty-v0\", \"python\": \"$DPB_GYMNASIUM_PYTHON\"}" >params.json
"$build/bin/env_conformance" --plugin="$build/plugins/libdpb_env_gymnasium.so" --params=params.json >conformance.txt 2>&1 ||
  fail "$(cat conformance.txt)"

echo "the same with an expert"
echo "{\"id\": \"faulty_gym:Faulty-v0\", \"python\": \"$DPB_GYMNASIUM_PYTHON\", \"expert\": \"faulty_gym:Homing\"}" >params.json
"$build/bin/env_conformance" --plugin="$build/plugins/libdpb_env_gymnasium.so" --params=params.json >conformance.txt 2>&1 ||
  fail "$(cat conformance.txt)"

"$build/bin/gymnasium_test"

[ -n "$dp_bench" ] || exit 0
check=("$dp_bench" plugins check --config-dir "$root/configs" --env gymnasium "env.params.python=$DPB_GYMNASIUM_PYTHON"
       env.params.id=faulty_gym:Faulty-v0)
expect_exit 0 "outcomes are a function of the seed: verified" "${check[@]}"
expect_exit 1 "not a function of the seed: with the same seed again, step 3 first differs in 'pos'" "${check[@]}" \
  env.params.kwargs.has_hidden_state=true
expect_exit 0 "A config to start from" "$dp_bench" doctor "${check[@]:3}"
grep -q '"id": "faulty_gym:Faulty-v0"' out.txt || fail "no config with the id: $(cat out.txt)"
expect_exit 1 "not a function of the seed" "$dp_bench" doctor "${check[@]:3}" env.params.kwargs.has_hidden_state=true
expect_exit 2 "found no file .*/nowhere/python" "$dp_bench" doctor "${check[@]:3}" env.params.python=/nowhere/python
expect_exit 2 "id" "$dp_bench" plugins check --config-dir "$root/configs" --env gymnasium
expect_exit 2 "found 'nothing.so', which is no file" "$dp_bench" plugins check nothing.so

echo "an expert in Python collects demonstrations"
collect=("$dp_bench" collect --config-dir "$root/configs" --env gymnasium "env.params.python=$DPB_GYMNASIUM_PYTHON"
         env.params.id=faulty_gym:Faulty-v0 collect.n_episodes=6)
rm -rf homing.zarr nothing.zarr
"${collect[@]}" env.params.expert=faulty_gym:homing --output homing.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"
expect_exit 1 "6 episodes" "$dp_bench" inspect --dataset homing.zarr  # it finds that the camera stands still
rm -rf trained evaluated random
world=(--config-dir "$root/configs" --env gymnasium "env.params.python=$DPB_GYMNASIUM_PYTHON" env.params.id=faulty_gym:Faulty-v0
       env_runner.certify=false env_runner.n_test=1 env_runner.n_videos=0)
expect_exit 0 "" "$dp_bench" train "${world[@]}" --policy unet_hybrid dataset.plugin=zarr_replay dataset.params.path=homing.zarr \
  training.num_epochs=1 training.max_train_steps=1 training.rollout_every=0 'policy.params.down_dims=[16,32]' --output trained
expect_exit 0 "" "$dp_bench" eval --checkpoint trained --output evaluated  # its config has an empty task
expect_exit 0 "" "$dp_bench" eval "${world[@]}" --policy random --output random  # there is no dataset
for max_steps in 3 25; do  # the env has 20
  expect_exit 2 "set env.params.max_steps=$max_steps instead" "$dp_bench" eval "${world[@]}" --policy random \
    env.params.success_when=end env_runner.max_steps=$max_steps --output none
done
expect_exit 0 "dry run: every part works" "$dp_bench" train "${world[@]}" --policy unet_hybrid dataset.plugin=zarr_replay \
  dataset.params.path=homing.zarr 'policy.params.down_dims=[16,32]' env.params.success_when=end --dry-run
expect_exit 2 "params.expert: expected module:name of an expert, found 'faulty_gym:nobody'" "${collect[@]}" \
  env.params.expert=faulty_gym:nobody --output nothing.zarr
expect_exit 5 "expected 2 finite numbers from the expert, found \[0.0\]" "${collect[@]}" \
  env.params.expert=faulty_gym:too_short --output nothing.zarr

echo "nothing that an env started outlives its host"
seconds=$((100000000 + $$))
count_sleepers() { pgrep -fc "^sleep $seconds" || true; }
expect_sleepers() {  # <least> <most>
  local n tries
  for tries in $(seq 100); do
    n=$(count_sleepers)
    [ "$n" -lt "$1" ] || [ "$n" -gt "$2" ] || return 0
    sleep 0.2
  done
  fail "expected $1 to $2 processes after $tries tries, found $n"
}
sleeping=("${collect[@]}" env.params.expert=faulty_gym:homing "env.params.kwargs.sleepers=$seconds")
rm -rf sleeping.zarr
"${sleeping[@]}" --output sleeping.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"
[ "$(count_sleepers)" = 0 ] || fail "$(count_sleepers) processes outlived an env that ended"
rm -rf sleeping.zarr
"${sleeping[@]}" --output sleeping.zarr "env.params.kwargs.faults={\"1000000\":\"hang\"}" env.params.step_timeout=600 >collect.txt 2>&1 &
collecting=$!
expect_sleepers 6 1000
kill -9 "$collecting"
expect_sleepers 0 0

echo "a module in the working directory, and a class that takes no render_mode"
mkdir -p here
cat >here/plain_gym.py <<'END'
from faulty_gym import Faulty, gymnasium


class Plain(Faulty):
    metadata = {"render_fps": 10}

    def __init__(self):
        super().__init__()


class Silent(Plain):
    def step(self, action):
        return *super().step(action)[:4], {}


gymnasium.register("Plain-v0", entry_point=Plain, max_episode_steps=20)
gymnasium.register("Silent-v0", entry_point=Silent, max_episode_steps=20)
END
cd here
expect_exit 0 "there are no videos, because the environment draws no images" "$dp_bench" inspect --config-dir "$root/configs" --env gymnasium \
  "env.params.python=$DPB_GYMNASIUM_PYTHON" env.params.id=plain_gym:Plain-v0

echo "a note is printed once, by one process of many"
for is_isolated in true false; do
  expect_exit 0 "expected the key 'is_success' in info" "$dp_bench" doctor --config-dir "$root/configs" --env gymnasium \
    "env.params.python=$DPB_GYMNASIUM_PYTHON" env.params.id=plain_gym:Silent-v0 env_runner.isolate=$is_isolated
  for text in "expected the key 'is_success' in info" "there are no videos"; do
    n=$(grep -c "note: .*$text" out.txt || true)
    [ "$n" = 1 ] || fail "$n times '$text': $(cat out.txt)"
  done
done
