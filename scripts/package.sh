#!/usr/bin/env bash
# Makes a tarball and a Debian package in build/release/packages. Neither contains LibTorch, MuJoCo or Arrow:
# their bin/dp_bench-libraries links or fetches them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release --target dp_bench_program dp_bench_env_worker plugins env_conformance dataset_conformance policy_conformance dpb_distant_device
(cd build/release && cpack)
