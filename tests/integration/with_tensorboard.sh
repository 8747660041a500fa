#!/usr/bin/env bash
# Runs a Python script with an interpreter that has tensorboard: .venv's, else python3. If neither has it, prints that
# and exits with 77, which ctest shows as skipped.
# Usage: with_tensorboard.sh <script> <arguments of the script>
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
for python in "$root/.venv/bin/python" python3; do
  if "$python" -c "import tensorboard" 2>/dev/null; then exec "$python" "$@"; fi
done
echo "SKIPPED: neither .venv/bin/python nor python3 has tensorboard; scripts/setup.sh installs it"
exit 77
