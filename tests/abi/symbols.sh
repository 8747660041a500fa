#!/usr/bin/env bash
# The functions and tables of the SDK that a library exports, sorted: those whose name is in a header of the SDK. A plugin has
# its own copies of inline functions (weak symbols).
# Usage: symbols.sh <library>
set -euo pipefail
headers=$(dirname "$(readlink -f "$0")")/../../harness/include
symbols=$(nm -D --defined-only "$1" | awk '$2 ~ /^[TDRBVi]$/ {print $3}')
paste -d'|' <(echo "$symbols") <(c++filt <<<"$symbols") |
  grep -E '\|((vtable|typeinfo|typeinfo name) for )?dp_bench::((mujoco|policy)::)?[A-Z]|\|[^(]* dp_bench::Config::' |
  awk -F'|' '
    NR == FNR { words[$1] = 1; next }
    { name = $2; sub(/[(<\[].*/, "", name); sub(/.*(::|~)/, "", name); if (name in words) print $1 }
  ' <(grep -rhoE '[A-Za-z_0-9]+' "$headers" | sort -u) - | LC_ALL=C sort
