#!/usr/bin/env bash
# Writes the tables of the binary interface, and the archive of the SDK that has it. Run it when you have raised the ABI
# number, and for each release.
set -euo pipefail
cd "$(dirname "$0")"
build=../../build/release
version=$(sed -n 's/^project(dp_bench VERSION \([0-9.]*\).*/\1/p' ../../CMakeLists.txt)

cmake --build "$build" --target abi_core_layout abi_deploy_layout abi_mujoco_layout abi_policy_layout dp_bench_program
for part in core deploy mujoco policy; do
  "$build/bin/abi_${part}_layout" >$part.txt
  ./symbols.sh "$build/lib/libdp_bench_$part.so" >$part.symbols
done
number=$(sed -n 's/^kAbiVersion = //p' core.txt)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r ../../harness/include "$work/include"
cp "$build/generated/dp_bench/build_id.h" "$work/include/dp_bench/"
for kind in env dataset; do
  "$build/bin/dp_bench" plugins new $kind old_$kind --output "$work/old_$kind" >/dev/null
done
tar -C "$work" --sort=name --owner=0 --group=0 --mtime=2000-01-01 -cJf "sdk_${number}_$version.tar.xz" include old_env old_dataset
