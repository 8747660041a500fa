#!/usr/bin/env bash
# ssh_loop.sh CHECKPOINT OUTPUT HOST...: a shard for each host, all of which see CHECKPOINT and OUTPUT. Repeat it after a failure.
# REMOTE_SHELL is what reaches a host, ssh by default.
set -euo pipefail
checkpoint=$1 output=$2
shift 2
hosts=("$@")
for i in "${!hosts[@]}"; do
  ${REMOTE_SHELL:-ssh} "${hosts[$i]}" \
    "dp_bench eval --checkpoint '$checkpoint' --output '$output' --shard $i/${#hosts[@]} env_runner.n_test=${N_TEST:-1000}" &
done
wait
dp_bench merge "$output"
