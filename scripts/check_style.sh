#!/usr/bin/env bash
# clang-format and clang-tidy over all C++ of ours. Usage: check_style.sh [build folder]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}

find_tool() {
  for name in "$1-14" "$1"; do
    command -v "$name" && return
  done
  echo "check-style: install $1 (apt package $1-14 or $1)" >&2
  exit 1
}

mapfile -t files < <(git ls-files '*.cc' '*.h')
"$(find_tool clang-format)" --dry-run --Werror "${files[@]}"

mapfile -t sources < <(git ls-files 'harness/*.cc' 'plugins/*.cc')
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 "$(find_tool clang-tidy)" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
echo "check-style: ${#files[@]} files are clean"
