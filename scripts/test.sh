#!/usr/bin/env bash
# Sets up, builds and runs all tests. DPB_SANITIZE=1 adds the sanitizer presets. Each fuzz target replays its corpus and runs
# for DPB_FUZZ_SECONDS (5 by default; 0 skips fuzzing); scripts/fuzz.sh is for long campaigns.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release
ctest --preset release -j $(($(nproc) + 1))  # some tests wait more than they compute
if [ "${DPB_FUZZ_SECONDS:-5}" != 0 ]; then
  scripts/fuzz.sh "${DPB_FUZZ_SECONDS:-5}"
fi
if [ -n "${DPB_SANITIZE:-}" ]; then
  for preset in asan-ubsan tsan; do
    scripts/build.sh "$preset"
    ctest --preset "$preset"
  done
fi
