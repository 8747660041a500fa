#!/usr/bin/env bash
# clang-format and clang-tidy over all our C++ code; needs the apt packages clang-format and clang-tidy (14).
set -euo pipefail
cd "$(dirname "$0")/.."

find_tool() {
  for name in "$1-14" "$1"; do
    command -v "$name" && return
  done
  echo "check-style: install $1 (apt package $1-14 or $1)" >&2
  exit 1
}

mapfile -t files < <(git ls-files '*.cc' '*.h')
"$(find_tool clang-format)" --dry-run --Werror "${files[@]}"

# a separate build folder, because clang cannot read GCC's precompiled headers and must see each file alone
build=build/style
cmake --preset release -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDPB_UNITY_BUILD=OFF >/dev/null
mapfile -t sources < <(git ls-files 'harness/*.cc' 'plugins/*.cc')
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 2 "$(find_tool clang-tidy)" -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas
echo "check-style: ${#files[@]} files are clean"
