#!/usr/bin/env bash
# Shows the main features on a fresh machine: sets up, builds, evaluates the shipped PushT policy, then collects
# demonstrations with a two-armed robot, trains a policy on them, and prints where the results are.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release --target dp_bench_program plugins
dp_bench=build/release/bin/dp_bench
stamp=runs/demo/$(date +%Y-%m-%d_%H-%M-%S)

echo
echo "== 1. A trained diffusion policy pushes the T: 50 episodes it has never seen"
"$dp_bench" eval --checkpoint models/pusht_unet_hybrid env_runner.test_start_seed=300000 --output "$stamp/pusht"

echo
echo "== 2. From nothing to a policy: demonstrations, training, 50 unseen episodes (15 minutes on two fast, idle cores, up to an hour on slower ones)"
"$dp_bench" --policy transformer --env kuavo_dualarm --output "$stamp/training"

echo
echo "Look at:"
echo "  $stamp/pusht/report.html       the trained policy: success rate, videos, every seed"
echo "  $stamp/training/report.html    the training you just saw: learning curves"
