#!/usr/bin/env bash
# Shows the main features on a fresh machine: sets up, builds, records videos of four shipped policies, then collects
# demonstrations with a two-armed robot, trains a policy on them, and prints where the results are.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release --target dp_bench_program plugins
dp_bench=build/release/bin/dp_bench
stamp=runs/demo/$(date +%Y-%m-%d_%H-%M-%S)

echo
echo "== 1. Four trained diffusion policies, on episodes that none of them has seen"
for model in pusht_unet_hybrid kuavo_pick_place_transformer kuavo_bimanual_lift_transformer kuavo_weigh_relay_transformer; do
  echo "-- $model"
  "$dp_bench" eval --checkpoint "models/$model" --output "$stamp/$model" \
    env_runner.test_start_seed=300000 env_runner.n_test=24 env_runner.n_videos=3
done

echo
echo "== 2. From nothing to a policy: demonstrations, training, 50 unseen episodes (12 minutes on two idle cores with bfloat16 products)"
"$dp_bench" --policy transformer --env kuavo_dualarm --output "$stamp/training"

echo
echo "Look at:"
echo "  $stamp/*/report.html           the trained policies: success rates, videos, every seed"
echo "  $stamp/training/report.html    the training you just saw: learning curves"
