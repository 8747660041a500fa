#!/usr/bin/env bash
# Installs everything that dp_bench needs on Debian 12 or Ubuntu 22.04+: apt packages, and LibTorch, MuJoCo and Arrow as
# wheels in a virtual environment at .venv. Prints what it installs, and does nothing if nothing is missing. Works as root or
# with sudo.
#
#   DPB_TORCH_DIR     a LibTorch to use instead of the wheel (passed on through CMAKE_PREFIX_PATH)
#   DPB_WITH_CLANG    installs clang too, for scripts/fuzz.sh
#   DPB_WITH_CHECKS   installs the tools of scripts/check.sh too
#   DPB_PIP_ARGS      extra arguments for pip, for example an index with CPU-only wheels
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  build-essential g++ cmake ninja-build ccache pkg-config python3 python3-venv curl
  libboost-dev libbox2d-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev
  libavcodec-dev libavformat-dev libavutil-dev libswscale-dev libglfw3-dev
  libcairo2-dev libfreetype-dev fonts-dejavu-core
  libegl-dev libegl1 libegl-mesa0 libgl1-mesa-dri  # rendering without a display
  libblosc-dev libzstd-dev zlib1g-dev libzip-dev libhdf5-dev libssl-dev libkainjow-mustache-dev
  libopenmpi-dev openmpi-bin
  libzmq3-dev cppzmq-dev  # policy servers of GR00T
  libgtest-dev libgmock-dev libbenchmark-dev xvfb doxygen
)

# A browser, in which a test opens the pages. Ubuntu has it only as a snap; the test is then skipped.
if grep -qs '^ID=debian' /etc/os-release; then packages+=(chromium chromium-driver); fi

# msgpack-cxx: headers only
if grep -qs '^VERSION_ID="22.04"' /etc/os-release; then packages+=(libmsgpack-dev); else packages+=(libmsgpack-cxx-dev); fi

# only for scripts/fuzz.sh; it recommends the runtime of its sanitizers
if [ -n "${DPB_WITH_CLANG:-}" ]; then packages+=(clang); fi

wheels=$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' scripts/requirements.txt)
if [ -n "${DPB_TORCH_DIR:-}" ]; then wheels=$(grep -v '^torch==' <<<"$wheels"); fi

# only for scripts/check.sh; other versions format otherwise and find other things
if [ -n "${DPB_WITH_CHECKS:-}" ]; then
  packages+=(clang-format-14 clang-tidy-14 libclang-14-dev libomp-14-dev llvm-14-dev)
  wheels+=$'\nruff==0.17.6'
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing apt packages: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi

# A wheel counts as installed if the metadata folder of exactly that version exists.
missing_wheels=()
while read -r requirement; do
  name=${requirement%%==*}
  version=${requirement##*==}
  compgen -G ".venv/lib/python3*/site-packages/${name//-/_}-${version}*.dist-info" >/dev/null ||
    missing_wheels+=("$requirement")
done <<<"$wheels"

if [ ${#missing_wheels[@]} -gt 0 ]; then
  echo "setup: installing into .venv: ${missing_wheels[*]}"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  # shellcheck disable=SC2086
  .venv/bin/python -m pip install --quiet --disable-pip-version-check ${DPB_PIP_ARGS:-} "${missing_wheels[@]}"
fi
