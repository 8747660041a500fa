#!/usr/bin/env bash
# An installation works wherever it is moved: the program, and plugins that are built outside this repository.
# Usage: install.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
build=$3
enter_scratch_folder

echo "what is not built is built first, as after scripts/demo.sh"
rm -f "$build/lib/libdp_bench_deploy.so"
install_dp_bench "$build" "$work/first"
[ -e first/lib/libdp_bench_deploy.so ] || fail "$(find first/lib -maxdepth 1)"

echo "what is built for it is what it installs"
needed=$(ninja -C "$build" -t inputs dpb_installed)
! grep broken_plugins <<<"$needed" || fail "an installation waits for plugins that only tests load"

echo "an installation can be moved, also into a folder with a space in its name: it names no folder of the build"
named=$(grep -rlaF "$build" first --exclude-dir=external || true)
[ -z "$named" ] || fail "the build folder is in: $named"
mkdir "new place"
mv first "new place/dp_bench"
prefix="$work/new place/dp_bench"
dp_bench=$prefix/bin/dp_bench
mkdir empty
cd empty
expect_exit 0 "0 broken" "$dp_bench" doctor
grep -q "configs .*new place" out.txt || fail "it uses other configs: $(cat out.txt)"

echo "a program without its other parts says which one is missing"
mkdir -p alone/bin
cp "$dp_bench" alone/bin
ln -s "$prefix/lib" alone/lib
expect_exit 6 "cannot start .*dp_bench_light, a part of dp_bench: .* Install" alone/bin/dp_bench --version
cp "$prefix/bin/dp_bench_light" alone/bin
expect_exit 6 "cannot start .*dp_bench_torch" alone/bin/dp_bench eval

echo "it evaluates the shipped policy and trains with an env"
expect_exit 0 "" "$dp_bench" eval --checkpoint "$prefix/share/dp_bench/models/pusht_unet_hybrid" env_runner.n_train=0 env_runner.n_test=1 \
  env_runner.n_videos=0 env_runner.max_steps=9 --output evaluated
expected=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["seed"])' evaluated/episodes.jsonl)
[ "$expected" = 100000 ] || fail "the first episode has seed $expected"

new_plugin() {  # new_plugin KIND NAME
  "$dp_bench" plugins new "$1" "$2" >new.txt || fail "$(cat new.txt)"
}

echo "a new env is built, keeps the contract, and a policy trains on it"
new_plugin env slow_arm
build_project "$prefix" slow_arm slow_arm/build
expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir slow_arm/build
expect_exit 0 "PASSED" "$dp_bench" plugins check slow_arm/build/plugins/libdpb_env_slow_arm.so --isolate
expect_exit 0 "trained 1 steps" "$dp_bench" train --plugin-dir slow_arm/build/plugins --policy unet_hybrid --env slow_arm collect.n_episodes=4 \
  training.max_train_steps=1 training.num_epochs=1 training.rollout_every=0 'policy.params.down_dims=[16,32]' --output trained

echo "a new env with MuJoCo is built, keeps the contract, and a policy trains on its images"
new_plugin mujoco_env swift_arm
build_project "$prefix" swift_arm swift_arm/build
expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir swift_arm/build
expect_exit 0 "trained 1 steps" "$dp_bench" train --plugin-dir swift_arm/build/plugins --policy unet_hybrid --env swift_arm_rgb collect.n_episodes=3 \
  training.max_train_steps=1 training.num_epochs=1 training.rollout_every=0 'policy.params.down_dims=[16,32]' dataloader.batch_size=4 --output seen
mkdir elsewhere && cp swift_arm/build/plugins/*.so elsewhere
expect_exit 5 "found no scene swift_arm.xml; looked for:" "$dp_bench" collect --plugin-dir elsewhere --config-dir swift_arm/configs --env swift_arm

echo "a hidden state in an env is named with what it changes"
new_plugin env hidden_state
sed -i 's|/ spec().control_hz;|/ spec().control_hz * (1.0 + 1e-6 * n_++);|; s|  std::array<double, 2> goal_ = {};|&\n  int n_ = 0;|' \
  hidden_state/hidden_state.cc
build_project "$prefix" hidden_state hidden_state/build
expect_exit 1 "the observation 'position' after step 3 differs" "$dp_bench" plugins check hidden_state/build/plugins/libdpb_env_hidden_state.so

echo "a new dataset reader is built and keeps the contract"
new_plugin dataset lab_log
build_project "$prefix" lab_log lab_log/build
expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir lab_log/build
expect_exit 0 "example.csv: lab_log, " "$dp_bench" dataset info --plugin-dir lab_log/build/plugins lab_log/example.csv
expect_damage() {  # expect_damage TEXT FILE: of the new reader; the file comes from stdin
  cat >"$2"
  expect_exit 6 "$2, line $1" "$dp_bench" dataset info --plugin-dir lab_log/build/plugins "$2"
}
expect_damage "3: expected a number in the range of float32, found '1e50'" huge.csv <<<$'episode,action.0\n0,1e-50\n0,1e50'
expect_damage "2: expected a number in the range of float32, found 'nan'" nan.csv <<<$'episode,action.0\n0,nan'
expect_damage "3: expected an episode, found an empty cell" unnamed.csv <<<$'episode,action.0\n0,1\n,2'
expect_damage "4: expected the steps of episode '0' one after the other" mixed.csv <<<$'episode,action.0\n0,1\n1,2\n0,3\n1,4'
expect_damage "1: expected one column episode" no_episodes.csv <<<$'action.0\n1\n2'
expect_exit 2 "'lab_log' exists and is not empty" "$dp_bench" plugins new dataset lab_log
expect_exit 2 "expected small letters" "$dp_bench" plugins new env "My Arm"
for taken in "env env" "mujoco_env params" "policy error" "dataset cells"; do
  # shellcheck disable=SC2086
  expect_exit 2 "expected another name, such as my_${taken#* }" "$dp_bench" plugins new $taken
  [ ! -e "${taken#* }" ] || fail "it wrote ${taken#* }"
done
expect_exit 0 "" "$dp_bench" plugins new env my_env

echo "a new policy is built, keeps the contract and learns the new env"
new_plugin policy cloning
build_project "$prefix" cloning cloning/build
expect_exit 0 "100% tests passed" ctest --output-on-failure --test-dir cloning/build
expect_exit 0 "success" "$dp_bench" run --plugin-dir cloning/build/plugins --plugin-dir slow_arm/build/plugins --policy cloning --env slow_arm \
  training.num_epochs=60 dataloader.batch_size=64 training.rollout_every=0 training.lr_warmup_steps=20 env_runner.n_test=20 \
  env_runner.n_videos=1 --output learned
python3 - <<'PYTHON' || fail "the cloned policy solves too few episodes"
import json
episodes = [json.loads(line) for line in open("learned/episodes.jsonl")]
assert sum(e["success"] for e in episodes) >= 10, [e["success"] for e in episodes]
PYTHON

echo "reader, policy and env from outside work together, and a damaged file is named with its line"
three=(--plugin-dir lab_log/build/plugins --plugin-dir cloning/build/plugins --plugin-dir slow_arm/build/plugins --policy cloning --env slow_arm
       dataset.plugin=lab_log training.max_train_steps=1 training.num_epochs=1 training.rollout_every=0)
expect_exit 0 "trained 1 steps" "$dp_bench" train "${three[@]}" dataset.params.path=lab_log/example.csv --output together
cp lab_log/example.csv broken.csv
echo "4,zero,0,0,0,0,0" >>broken.csv
expect_exit 6 "broken.csv, line 82: expected a number, found 'zero'" "$dp_bench" train "${three[@]}" dataset.params.path=broken.csv --output damaged
