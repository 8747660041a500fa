#!/usr/bin/env bash
# Sets up, configures and builds one preset (default: release). Extra arguments go to CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true

scripts/setup.sh
prefix=()
[ -z "${DPB_TORCH_DIR:-}" ] || prefix=("-DCMAKE_PREFIX_PATH=${DPB_TORCH_DIR}")
if [ ! -f "build/$preset/build.ninja" ] || [ $# -gt 0 ]; then
  cmake --preset "$preset" "${prefix[@]}" "$@"
fi
cmake --build --preset "$preset"
