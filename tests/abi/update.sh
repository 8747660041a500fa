#!/usr/bin/env bash
# Writes the tables of the binary interface. Run it when you have raised the ABI number.
set -euo pipefail
cd "$(dirname "$0")"
build=../../build/release

cmake --build "$build" --target abi_core_layout abi_deploy_layout abi_mujoco_layout abi_policy_layout
for part in core deploy mujoco policy; do
  "$build/bin/abi_${part}_layout" >$part.txt
  ./symbols.sh "$build/lib/libdp_bench_$part.so" >$part.symbols
done
