"""submitit_eval.py CHECKPOINT OUTPUT [N_SHARDS] [CLUSTER]: shards as jobs of submitit. CLUSTER: slurm, or local for this machine."""

import subprocess
import sys

import submitit


def shard(i: int, n: int, checkpoint: str, output: str) -> None:
    command = ["dp_bench", "eval", "--checkpoint", checkpoint, "--output", output, "--shard", f"{i}/{n}"]
    subprocess.run([*command, "env_runner.n_test=60"], check=True)


if __name__ == "__main__":
    checkpoint, output = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    executor = submitit.AutoExecutor("submitit_logs", cluster=sys.argv[4] if len(sys.argv) > 4 else None)
    executor.update_parameters(timeout_min=120, cpus_per_task=2)
    for job in executor.map_array(shard, range(n), [n] * n, [checkpoint] * n, [output] * n):
        job.result()
    subprocess.run(["dp_bench", "merge", output], check=True)
