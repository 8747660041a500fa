#!/usr/bin/env bash
# The packages: what they contain, what they ask for, and how they get the libraries that they do not contain.
# Usage: package.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
build=$3
command -v dpkg-shlibdeps >/dev/null || { echo "no Debian tools here"; exit 77; }
enter_scratch_folder
unset DPB_TORCH_DIR MUJOCO_DIR ARROW_DIR

cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >cpack.txt 2>&1 || fail "$(tail -20 cpack.txt)"
! grep -qi "warning" cpack.txt || fail "$(grep -i -A4 warning cpack.txt)"

echo "the tarball names no folder of the machine that made it"
mkdir tree
tar -C tree --strip-components=1 -xf packages/*.tar.gz
[ -x tree/bin/dp_bench ] || fail "no bin/dp_bench: $(ls tree)"
! grep -rlaF "$build" tree || fail "the build folder is in these files"
[ ! -e tree/lib/dp_bench/external ] || fail "it has links: $(ls -l tree/lib/dp_bench/external)"
for file in tree/bin/dp_bench tree/bin/dp_bench_light tree/bin/dp_bench_torch tree/lib/*.so tree/lib/dp_bench/plugins/*.so; do
  readelf -d "$file" | grep -E "R(UN)?PATH" >path.txt || fail "$file has no run path"
  sed 's/.*\[\(.*\)\].*/\1/' path.txt | tr ':' '\n' | grep -v '^\$ORIGIN' && fail "$file: $(cat path.txt)"
done

echo "the Debian package names the libraries that apt has"
dpkg-deb -I packages/*.deb >info.txt
for library in libavcodec libegl1 libstdc++6; do
  grep -q "Depends:.*$library" info.txt || fail "it does not depend on $library: $(cat info.txt)"
done
dpkg-deb -c packages/*.deb >content.txt
for file in ./usr/bin/dp_bench ./opt/dp_bench/bin/dp_bench ./opt/dp_bench/lib/cmake/dp_bench/dp_benchConfig.cmake; do
  grep -q " $file\$" content.txt || fail "it does not contain $file"
done

libraries=tree/bin/dp_bench-libraries
echo "a missing library is named, with what to do"
expect_exit 1 "MISSING  mujoco: expected libmujoco" "$libraries" --check
echo "a LibTorch of another version is refused"
mkdir -p torch/lib
touch torch/lib/libtorch.so
echo 1.0.0+cpu >torch/build-version
DPB_TORCH_DIR=$work/torch expect_exit 6 "found 1.0.0+cpu in" "$libraries"
DPB_TORCH_DIR=/nowhere expect_exit 6 "expected libtorch.so in DPB_TORCH_DIR=/nowhere" "$libraries"

echo "an installation is removed without a trace"
cmake --install "$build" --prefix "$work/prefix" >install.txt 2>&1 || fail "$(tail -5 install.txt)"
expect_exit 0 "OK       mujoco" prefix/bin/dp_bench-libraries --check
cmake --build "$build" --target uninstall >uninstall.txt 2>&1 || fail "$(cat uninstall.txt)"
[ ! -e prefix ] || fail "left: $(find prefix)"
