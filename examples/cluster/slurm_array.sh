#!/usr/bin/env bash
# sbatch slurm_array.sh CHECKPOINT OUTPUT: 50 shards as a Slurm array. A requeued shard continues from its journal.
#SBATCH --job-name=dp_bench
#SBATCH --array=0-49
#SBATCH --cpus-per-task=2
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@60
set -euo pipefail
checkpoint=$1 output=$2
srun dp_bench eval --checkpoint "$checkpoint" --output "$output" --shard auto env_runner.n_test=10000
# once all shards have ended: sbatch --dependency=afterok:JOB --wrap "dp_bench merge OUTPUT"
