#!/usr/bin/env bash
# The main job on a fresh machine: sets up, builds, evaluates the shipped PushT policy, then trains one
# in front of your eyes, and says where to look.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release --target dp_bench_program plugins
dp_bench=build/release/bin/dp_bench
stamp=runs/demo/$(date +%Y-%m-%d_%H-%M-%S)

echo
echo "== 1. A trained diffusion policy pushes the T: 50 episodes it has never seen"
"$dp_bench" eval --checkpoint models/pusht_unet_hybrid --output "$stamp/pusht"

echo
if scripts/get_data.sh pusht; then
  echo "== 2. Training on the 206 human demonstrations, three epochs (the shipped policy had many more)"
  "$dp_bench" run --policy unet_hybrid --env pusht --output "$stamp/training" \
    training.num_epochs=3 training.lr_warmup_steps=50 env_runner.n_train=0 env_runner.n_test=16
else
  echo "== 2. No PushT demonstrations here: training the small point_mass task instead"
  "$dp_bench" run --policy unet_hybrid --env point_mass --output "$stamp/training" \
    training.num_epochs=20 training.lr_warmup_steps=50
fi

echo
echo "Look at:"
echo "  $stamp/pusht/report.html       the trained policy: success rate, videos, every seed"
echo "  $stamp/training/report.html    the training you just saw: learning curves"
