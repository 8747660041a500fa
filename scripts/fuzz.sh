#!/usr/bin/env bash
# Builds the fuzz targets and runs them, two at a time, each from its seeds in tests/fuzz/corpus; those of datasets of
# LeRobot are in tests/data/lerobot.
#   scripts/fuzz.sh [SECONDS | --runs N] [TARGET...]     a minute of every target by default
# Runs with a time limit start with the same random numbers, so that a test run finds what the previous one found.
# Campaigns (--runs) start with new ones. Exits with 1 if a target finds something; the input is kept in
# build/fuzz/findings/.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=(-seed=1 -max_total_time=60)
if [ "${1:-}" = "--runs" ]; then
  limit=(-runs="${2:?--runs needs a number}")
  shift 2
elif [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  limit=(-seed=1 -max_total_time="$1")
  shift
fi
command -v clang++ >/dev/null || DPB_WITH_CLANG=1 scripts/setup.sh
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi

if [ ! -f build/fuzz/build.ninja ]; then cmake --preset fuzz >/dev/null; fi
cmake --build --preset fuzz -j "$(nproc)" >build/fuzz/build.log 2>&1 || { tail -40 build/fuzz/build.log; exit 1; }

mkdir -p build/fuzz/findings build/fuzz/logs
run_one() {
  local name=$1 log=build/fuzz/logs/$1.txt grown=build/fuzz/corpus/$1
  shift
  local length=4096 data=tests/data/lerobot seeds=("tests/fuzz/corpus/$name")
  case $name in
    lerobot_json) length=12000 seeds=("$data"/v*/meta) ;;
    lerobot_parquet) length=8192 seeds=("$data"/v30_*/meta "$data"/v2*/data) ;;
    lerobot_video) length=8192 seeds=("$data"/v*/videos) ;;
  esac
  mkdir -p "$grown"
  local status=0
  # Short malloc stacks and no entropic schedule: one and a half to two times as many inputs per second.
  UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=malloc_context_size=1 \
    "build/fuzz/bin/${name}_fuzz" "$grown" "${seeds[@]}" -rss_limit_mb=1024 -timeout=10 -entropic=0 \
    -max_len="$length" -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$name-" "$@" >"$log" 2>&1 || status=$?
  local runs rate peak
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
  printf '%-18s %12s inputs %8s/s  %5s MB  %s\n' "$name" "${runs:-?}" "${rate:-?}" "${peak:-?}" \
    "$([ "$status" -eq 0 ] && echo ok || echo "FAILED, see $log")"
  return "$status"
}
export -f run_one
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'run_one "$@" || exit 1' _ {} "${limit[@]}" || {
  echo "fuzz.sh: a target found something; its input is in build/fuzz/findings" >&2
  exit 1
}
