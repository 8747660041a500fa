#!/usr/bin/env bash
# The binary interface of the SDK is the one that its ABI number promises: see tests/abi/README.md.
# Usage: abi.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
source "$here/expect.sh"
root=$(dirname "$2")
build=$3
golden=$root/tests/abi
enter_scratch_folder

advice="An older plugin would crash. Raise kAbiVersion in dp_bench/plugin.h and run tests/abi/update.sh, or undo the change"

echo "types and virtual functions are where the number says"
for part in core deploy mujoco policy; do
  "$build/bin/abi_${part}_layout" >"$part.txt"
  diff "$golden/$part.txt" "$part.txt" >difference.txt || fail "the layout changed: $(cat difference.txt)
$advice"
done

echo "every function that a plugin or program can call is still there"
for library in core deploy mujoco policy; do
  "$golden/symbols.sh" "$build/lib/libdp_bench_$library.so" >"$library.symbols"
  missing=$(LC_ALL=C comm -23 "$golden/$library.symbols" "$library.symbols")
  [ -z "$missing" ] || fail "libdp_bench_$library.so lacks: $(c++filt <<<"$missing")
$advice"
done

echo "a field that is added to a struct is seen"
cp -r "$root/harness/include" include
cp "$build/generated/dp_bench/build_id.h" include/dp_bench/
sed -i 's|  int max_steps = 0;  .*|&\n  double planted = 0.0;|' include/dp_bench/env.h
grep -q planted include/dp_bench/env.h || fail "nothing was planted"
g++ -std=c++20 -O0 -Iinclude -o planted "$golden/core_layout.cc" -L"$build/lib" -ldp_bench_core -Wl,-rpath,"$build/lib"
./planted >planted.txt
diff "$golden/core.txt" planted.txt >difference.txt && fail "the planted field was not seen"
grep -q "^< EnvSpec: .* bytes" difference.txt || fail "not the size of EnvSpec: $(cat difference.txt)"
