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

packages="gymnasium==1.4.0 numpy"
if [ "$(cat installed.txt 2>/dev/null)" != "$packages" ]; then
  rm -rf venv
  # shellcheck disable=SC2086
  { python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check $packages; } >pip.txt 2>&1 ||
    { echo "SKIPPED: pip cannot install $packages: $(grep -m1 -i error pip.txt)"; exit 77; }
  echo "$packages" >installed.txt
fi
export PYTHONPATH="$root/tests/support/gymnasium"
export DPB_GYMNASIUM_PYTHON="$PWD/venv/bin/python"

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
expect_exit 2 "id" "$dp_bench" plugins check --config-dir "$root/configs" --env gymnasium
expect_exit 2 "found 'nothing.so', which is no file" "$dp_bench" plugins check nothing.so

echo "an expert in Python collects demonstrations"
collect=("$dp_bench" collect --config-dir "$root/configs" --env gymnasium "env.params.python=$DPB_GYMNASIUM_PYTHON"
         env.params.id=faulty_gym:Faulty-v0 collect.n_episodes=6)
rm -rf homing.zarr
"${collect[@]}" env.params.expert=faulty_gym:homing --output homing.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"
expect_exit 1 "6 episodes" "$dp_bench" inspect --dataset homing.zarr  # it finds that the camera stands still
expect_exit 2 "params.expert: expected module:name of an expert, found 'faulty_gym:nobody'" "${collect[@]}" \
  env.params.expert=faulty_gym:nobody --output nothing.zarr
expect_exit 5 "expected 2 finite numbers from the expert, found \[0.0\]" "${collect[@]}" \
  env.params.expert=faulty_gym:too_short --output nothing.zarr
