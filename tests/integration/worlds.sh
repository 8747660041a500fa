#!/usr/bin/env bash
# Worlds of other packages, each from its config alone: outcomes are functions of the seed, a video is drawn, and an expert
# collects where there is one. The virtual environments stay in the build folder, so only the first run downloads packages.
# Exits with 77, which ctest shows as skipped, where they cannot be downloaded.
# Usage: worlds.sh <source folder> <build folder> <dp_bench program> [WORLD...]    one task of metaworld by default; all = every one
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
root=$1
build=$2
dp_bench=$3
shift 3
unset PYTHONPATH MUJOCO_GL
mkdir -p "$build/worlds"
cd "$build/worlds"

# the versions that the configs name
declare -A packages=(
  [metaworld]="metaworld==3.1.1 packaging imageio"
  [metaworld_image]="metaworld==3.1.1 packaging imageio"
  [gym_fetch_pick_place]="gymnasium-robotics==1.4.2 mujoco==3.3.0"
  [ogbench_cube]="ogbench==1.2.2"
  [ogbench_cube_double]="ogbench==1.2.2"
  [ogbench_scene]="ogbench==1.2.2"
  [robosuite_lift]="robosuite==1.5.2 mujoco==3.3.0 h5py gymnasium"
  [dm_control_cartpole]="shimmy[dm-control]==2.0.1 packaging gymnasium mujoco==3.17.0"
  [gym_pusht]="gym-pusht==0.1.6 pymunk==6.11.1"
  [gym_aloha_transfer_cube]="gym-aloha==0.1.5"
  [gym_aloha_insertion]="gym-aloha==0.1.5"
)

install() {  # install WORLD: into a virtual environment that worlds with the same packages share
  local wanted=${packages[$1]}
  venv=$PWD/$(printf '%s' "$wanted" | tr -c 'a-zA-Z0-9.' '_')
  [ ! -e "$venv/installed" ] || return 0
  rm -rf "$venv"
  # shellcheck disable=SC2086
  { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted; } >pip.txt 2>&1 ||
    { echo "SKIPPED: pip cannot install $wanted: $(grep -m1 -i error pip.txt)"; exit 77; }
  touch "$venv/installed"
}

examine() {  # examine WORLD TASK...: of a world with several
  local world=$1 task
  shift
  local given=(--config-dir "$root/configs" --env "$world" "env.params.python=$venv/bin/python")
  for task in "${@:-}"; do
    local of_task=(${task:+"env.params.task=$task"})
    if [ "$world" != gym_pusht ]; then  # its rewards differ in the last bit from call to call (its config says why)
      echo "$world ${task:+$task: }the seed decides"
      expect_exit 0 "outcomes are a function of the seed: verified" "$dp_bench" plugins check "${given[@]}" "${of_task[@]}"
    fi
    rm -rf "$world"
    echo "$world ${task:+$task: }a random policy has a video"
    expect_exit 0 "" "$dp_bench" eval "${given[@]}" --policy random "${of_task[@]}" --output "$world" env_runner.n_test=2 \
      env_runner.n_videos=1 env_runner.certify=false env_runner.max_steps=20
    [ -s "$world"/media/test_100000.mp4 ] || fail "there is no video: $(ls "$world" "$world/media")"
    [[ $world == metaworld* || $world == ogbench* ]] || continue  # the others have no expert
    echo "$world ${task:+$task: }the expert collects"
    rm -rf "$world.zarr"
    expect_exit 0 "3 episodes" "$dp_bench" collect "${given[@]}" "${of_task[@]}" --output "$world.zarr" collect.n_episodes=3 \
      collect.n_steps_after_success=2
  done
}

worlds=("${@:-metaworld}")
metaworld_tasks=(pick-place-v3)
if [ "${worlds[0]}" = all ]; then
  worlds=("${!packages[@]}")
  # of three kinds: the success stays, comes and goes, or is always gone again at the end
  metaworld_tasks=(pick-place-v3 door-open-v3 coffee-button-v3)
fi
for world in "${worlds[@]}"; do
  install "$world"
  if [ "$world" = metaworld ]; then
    examine metaworld "${metaworld_tasks[@]}"
    expect_exit 2 "expected one of assembly-v3, .*, found 'fly-v3'" "$dp_bench" plugins check --config-dir "$root/configs" \
      --env metaworld "env.params.python=$venv/bin/python" env.params.task=fly-v3
  else
    examine "$world"
  fi
done
