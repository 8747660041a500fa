#!/usr/bin/env bash
# Runs what finds mistakes beyond the tests, one after the other, and prints a line with the result and the time of each. A
# check that fails does not stop the others; the exit code is then 1. The output of each is in build/check/.
#
#   scripts/check.sh [CHECK...]     all by default
#     format                        C++ code is formatted (clang-format)
#     tidy                          C++ code, also that of the tests and benchmarks, has no finding of clang-tidy
#     python                        ruff and mypy over python/, its wheel and tests; mistakes in other Python files
#     conformance                   every plugin passes the suite of its kind
#     odr                           no two types have one name: link-time optimisation compares the types of all files
#     worlds                        each world of another package that has a config, installed from PyPI
#     uninitialised                 the same results if memory that nothing was written to holds NaNs
#     kills                         the tests that kill the program at random moments, with 20 kills each
#     asan-ubsan, tsan              all tests that need no LibTorch, with sanitizers
#     style = format tidy           sanitizers = asan-ubsan tsan
#
#   DPB_SINCE=COMMIT                tidy: only folders in which something has changed since COMMIT
set -uo pipefail
cd "$(dirname "$0")/.."
all=(format python conformance uninitialised worlds kills odr tidy asan-ubsan tsan)

check_format() {
  local files
  mapfile -t files < <(git ls-files '*.cc' '*.h')
  clang-format-14 --dry-run --Werror "${files[@]}"
}

# The sources of the compile commands in $1, one a line. Those of a folder are compiled together, so that LibTorch's headers
# are read once for each folder; with DPB_SINCE, those of folders without a change are left out.
sources_to_tidy() {
  local source
  sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$1/compile_commands.json" | sort -u | grep -v "^$PWD/$1/generated/" >"$1/sources.txt"
  if [ -z "${DPB_SINCE:-}" ]; then
    cat "$1/sources.txt"
    return
  fi
  git diff --name-only "$DPB_SINCE" -- '*.cc' '*.h' | sed -e "s|^|$PWD/|" -e 's|/[^/]*$|/|' | sort -u >"$1/changed_folders.txt"
  while read -r source; do
    if sed -n "s|^#include \"\($PWD/.*/\)[^/]*\"|\1|p" "$source" | cat - <(echo "$(dirname "$source")/") |
      grep -xFf "$1/changed_folders.txt" >/dev/null; then  # with -q, sed could fail to write
      echo "$source"
    fi
  done <"$1/sources.txt"
}

# A build folder of its own, because clang cannot read GCC's precompiled headers. Files that are compiled together include
# sources on purpose: bugprone-suspicious-include is off, and so is -Wshadow, which would compare files; GCC checks it.
check_tidy() {
  local build=build/tidy
  cmake --preset release -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDPB_UNITY_BUILD=ON -DDPB_BENCHMARKS=ON >/dev/null
  g++ -std=c++17 -shared -fPIC -fno-rtti -isystem /usr/lib/llvm-14/include scripts/tidy_own_code.cc -o "$build/own_code.so"
  sources_to_tidy "$build" |
    xargs -P "$(nproc)" -n 1 clang-tidy-14 -p "$build" --quiet --load="$build/own_code.so" \
      --checks=dpb-own-code,-bugprone-suspicious-include \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument --extra-arg=-Wno-unknown-pragmas --extra-arg=-Wno-shadow \
      --extra-arg=-Wno-sign-conversion --extra-arg=-Wno-implicit-int-float-conversion
}

check_python() {
  .venv/bin/ruff check --no-cache python
  git ls-files '*.py' | xargs .venv/bin/ruff check --no-cache --isolated --select E9,F  # of scripts, no style but mistakes
  .venv/bin/ruff format --no-cache --check python
  scripts/build.sh release
  ctest --preset release -R '^integration.python_wheel$'
  ! grep -q "SKIPPED" build/release/Testing/Temporary/LastTest.log
}

check_conformance() {
  scripts/build.sh release
  ctest --preset release -L conformance -j "$(nproc)"
}

check_uninitialised() {
  scripts/build.sh release
  local library=$PWD/build/check/filled_memory.so
  g++ -std=c++20 -O1 -Wall -Wextra -Werror -shared -fPIC -fno-threadsafe-statics tests/support/filled_memory.cc -o "$library"
  LD_PRELOAD=$library ctest --preset release -LE integration -j "$(nproc)"
}

check_worlds() {
  scripts/build.sh release
  tests/integration/worlds.sh "$PWD" "$PWD/build/release" "$PWD/build/release/bin/dp_bench" all
}

check_kills() {
  scripts/build.sh release
  DPB_KILLS=20 ctest --preset release -R '^integration.(random_kills|continued_eval|dataset_convert|recorded_eval|shards|suite)$' \
    -j "$(nproc)"
}

check_odr() { scripts/build.sh odr; }
check_asan_ubsan() { check_with_sanitizers asan-ubsan; }
check_tsan() { check_with_sanitizers tsan; }
check_with_sanitizers() {
  scripts/build.sh "$1"
  ctest --preset "$1" -j "$(nproc)"
}

checks=()
for name in "${@:-all}"; do
  case $name in
    all) checks+=("${all[@]}") ;;
    style) checks+=(format tidy) ;;
    sanitizers) checks+=(asan-ubsan tsan) ;;
    *)
      if [[ " ${all[*]} " != *" $name "* ]]; then
        echo "check.sh: no check '$name'; there are ${all[*]}, and the groups style, sanitizers and all" >&2
        exit 2
      fi
      checks+=("$name")
      ;;
  esac
done

DPB_WITH_CHECKS=1 scripts/setup.sh || exit 1
mkdir -p build/check
failed=0
for name in "${checks[@]}"; do
  begin=$SECONDS
  (set -e; "check_${name//-/_}") >"build/check/$name.txt" 2>&1
  status=$?
  result=clean
  if [ $status -ne 0 ]; then
    result="FAILED, see build/check/$name.txt"
    failed=1
  fi
  printf '%-14s %6d s  %s\n' "$name" $((SECONDS - begin)) "$result"
done
exit $failed
