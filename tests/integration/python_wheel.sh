#!/usr/bin/env bash
# Builds the Python package dp_bench, installs it and runs its tests. The virtual environment stays in the build folder, so
# only the first run downloads packages. Exits with 77, which ctest shows as skipped, where they cannot be downloaded.
# With a program also what runs it, and load_policy, which is built against an installation.
# Usage: python_wheel.sh <source folder> <work folder> [<dp_bench program> <build folder>]
set -euo pipefail
root=$1
work=$2
mkdir -p "$work"
cd "$work"
python=python3

skip() {
  echo "SKIPPED: $1"
  exit 77
}

"$python" -c "import ensurepip, sys; assert sys.version_info >= (3, 10)" 2>/dev/null ||
  skip "$python is older than 3.10 or has no venv; scripts/setup.sh installs it"
# the versions that the golden numbers and the tests were made with
packages="scikit-build-core==1.1.2 nanobind==3.1.0 gymnasium==1.4.0 numpy pygame==2.6.1 pytest pandas matplotlib zarr==2.18.3
          numcodecs==0.15.2 mypy==2.4.1 websockets==17.4 msgpack==1.2.4 pip>=23.1"
"$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" && packages="$packages mujoco-core==4.0.0"
if [ "$(cat installed.txt 2>/dev/null)" != "$packages" ]; then
  rm -rf venv
  "$python" -m venv venv
  # shellcheck disable=SC2086
  venv/bin/pip install --quiet --disable-pip-version-check $packages >pip.txt 2>&1 ||
    skip "pip cannot install $packages: $(grep -m1 ERROR pip.txt)"
  echo "$packages" >installed.txt
fi

echo "the wheel is built and installed"
rm -rf wheel prefix
package=""
if [ -n "${4:-}" ]; then
  cmake --install "$4" --prefix "$work/prefix" >install.txt 2>&1 || { tail -5 install.txt; exit 1; }
  package=$work/prefix/lib/cmake/dp_bench
fi
if ! venv/bin/pip wheel --no-deps --no-build-isolation --disable-pip-version-check -v --wheel-dir wheel \
  --config-settings "cmake.define.dp_bench_DIR=$package" "$root/python" >build.txt 2>&1; then
  ! grep -q "Each download failed" build.txt || skip "CMake cannot download Box2D: see $work/build.txt"
  tail -30 build.txt
  exit 1
fi
! grep -q "warning:" build.txt || { grep "warning:" build.txt; exit 1; }
venv/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall wheel/*.whl
[ "$(stat -c %s wheel/*.whl)" -le 5000000 ] || { ls -l wheel; exit 1; }

echo "environments need no library but the C library and, for Kuavo, that of MuJoCo's wheel"
needed=$(readelf -d venv/lib/python3*/site-packages/dp_bench/_[ck]*.so | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort -u)
others=$(grep -v -E '^(libc|libm|libdl|ld-linux-x86-64|libpthread|libmujoco)\.so' <<<"$needed" || true)
[ -z "$others" ] || { echo "it needs $others"; exit 1; }

SDL_VIDEODRIVER=dummy DP_BENCH_PROGRAM=${3:-} venv/bin/python -m pytest -q -p no:cacheprovider "$root/python/tests"
for example in "$root"/python/examples/*.py; do  # video.py needs one more package
  echo "$(basename "$example")"
  venv/bin/python "$example" --help >/dev/null
done
venv/bin/python "$root/python/examples/random_rollout.py" --episodes 1
venv/bin/python "$root/python/examples/vector_env.py" --seconds 0.2

[ -n "${3:-}" ] || exit 0
echo "the package with all its modules has correct types"
(cd wheel && ../venv/bin/python -m mypy --config-file "$root/python/pyproject.toml" --cache-dir ../mypy -p dp_bench)
export DP_BENCH_PROGRAM=$3
rm -rf examples
mkdir examples
cd examples
../venv/bin/python "$root/python/examples/train.py" --epochs 1 --output trained
../venv/bin/python "$root/python/examples/evaluate.py" trained --episodes 20 --output evaluated
../venv/bin/python "$root/python/examples/compare.py" trained evaluated | grep "B against A: success rate +0.000"
[ -s comparison.png ]
