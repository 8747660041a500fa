#!/usr/bin/env bash
# Builds the SDK reference. Fails if doxygen finds a mistake in a docstring or a type without one.
# Usage: build.sh <Doxyfile> <output folder>
set -euo pipefail
command -v doxygen >/dev/null || { echo "sdk-reference: install doxygen"; exit 77; }
mkdir -p "$2"
doxygen "$1"
# members may speak for themselves; types may not
if grep -v "warning: Member .* is not documented" "$2/warnings.txt"; then exit 1; fi
echo "sdk-reference: $2/html/index.html"
