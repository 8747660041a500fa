#!/usr/bin/env bash
# Makes a tarball and a Debian package in build/release/packages. Neither contains LibTorch, MuJoCo or Arrow:
# their bin/dp_bench-libraries links or fetches them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release --target dpb_installed
(cd build/release && cpack)
