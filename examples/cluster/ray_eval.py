"""ray_eval.py CHECKPOINT OUTPUT [N_SHARDS]: shards as tasks of Ray. Ray restarts a task whose machine is lost."""

import subprocess
import sys

import ray


@ray.remote(num_cpus=1, max_retries=3)
def shard(i: int, n: int, checkpoint: str, output: str) -> None:
    command = ["dp_bench", "eval", "--checkpoint", checkpoint, "--output", output, "--shard", f"{i}/{n}"]
    subprocess.run([*command, "env_runner.n_test=60"], check=True)


if __name__ == "__main__":
    checkpoint, output = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    ray.init()
    ray.get([shard.remote(i, n, checkpoint, output) for i in range(n)])
    subprocess.run(["dp_bench", "merge", output], check=True)
