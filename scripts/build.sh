#!/usr/bin/env bash
# Sets up, configures and builds one preset. Usage: build.sh [preset] [arguments of cmake --build]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true

scripts/setup.sh
if [ ! -f "build/$preset/build.ninja" ]; then
  prefix=()
  [ -z "${DPB_TORCH_DIR:-}" ] || prefix=("-DCMAKE_PREFIX_PATH=${DPB_TORCH_DIR}")
  cmake --preset "$preset" "${prefix[@]}"
fi
cmake --build --preset "$preset" "$@"
