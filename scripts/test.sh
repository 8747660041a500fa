#!/usr/bin/env bash
# Sets up, builds and runs all tests. Each fuzz target replays its corpus and runs for DPB_FUZZ_SECONDS (5 by default; 0 skips
# fuzzing); scripts/fuzz.sh is for long campaigns, and scripts/check.sh for sanitizers and style.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release
ctest --preset release -j $(($(nproc) + 1))  # some tests wait more than they compute
if [ "${DPB_FUZZ_SECONDS:-5}" != 0 ]; then
  scripts/fuzz.sh "${DPB_FUZZ_SECONDS:-5}"
fi
