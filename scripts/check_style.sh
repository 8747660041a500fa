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

# A separate build folder, because clang cannot read GCC's precompiled headers. The files of a room are checked together,
# as they are compiled, so that LibTorch's headers are read once for each room. That includes sources on purpose:
# bugprone-suspicious-include is off, and so is -Wshadow, which would compare files; GCC checks it.
build=build/style
cmake --preset release -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDPB_UNITY_BUILD=ON >/dev/null
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u |
  while read -r source; do
    for folder in "$PWD/harness/" "$PWD/plugins/"; do
      if [[ $source == "$folder"* ]] || grep -qF "#include \"$folder" "$source"; then
        echo "$source"
        break
      fi
    done
  done | xargs -P "$(nproc)" -n 1 "$(find_tool clang-tidy)" -p "$build" --quiet --checks=-bugprone-suspicious-include \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas --extra-arg=-Wno-shadow
echo "check-style: ${#files[@]} files are clean"
