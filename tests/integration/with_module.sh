#!/usr/bin/env bash
# Runs a Python script with an interpreter that has a module: .venv's, else python3. If neither has it, prints that and
# exits with 77, which ctest shows as skipped.
# Usage: with_module.sh <module> <script> <arguments of the script>
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
module=$1
shift
for python in "$root/.venv/bin/python" python3; do
  if "$python" -c "import $module" 2>/dev/null; then exec "$python" "$@"; fi
done
echo "SKIPPED: neither .venv/bin/python nor python3 has $module; scripts/setup.sh installs it"
exit 77
