#!/usr/bin/env bash
# Sets up, builds and runs all tests; DPB_SANITIZE=1 adds the sanitizer presets.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release
ctest --preset release -j "$(nproc)"
if [ -n "${DPB_SANITIZE:-}" ]; then
  for preset in asan-ubsan tsan; do
    scripts/build.sh "$preset"
    ctest --preset "$preset"
  done
fi
