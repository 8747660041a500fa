#!/usr/bin/env bash
# A plugin exports its entry function and nothing else.
set -euo pipefail
exports=$(nm -D --defined-only "$1" | awk '{print $3}')
if [ "$exports" != "dp_bench_plugin" ]; then
  echo "$1 exports: ${exports:-nothing}; expected exactly dp_bench_plugin" >&2
  exit 1
fi
