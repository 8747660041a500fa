"""Evaluates a checkpoint and lists the episodes that did not succeed.

python python/examples/evaluate.py models/pusht_unet_hybrid [--episodes 10] [--output runs/evaluated]
"""

import argparse

import dp_bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="its folder, or a run")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--output", help="run folder; by default a new one below runs/")
    args = parser.parse_args()

    overrides = {"env_runner.n_test": args.episodes, "env_runner.n_train": 0, "env_runner.n_videos": 0}
    run = dp_bench.evaluate(args.checkpoint, overrides, output=args.output)
    for episode in run.episodes:
        if not episode.success:
            reason = episode.failure_reason or f"score {episode.score:.3f} after {episode.n_steps} steps"
            print(f"seed {episode.seed}: {reason}")
    metrics = run.metrics
    print(f"{metrics['test/n_success']} of {metrics['test/n_episodes']} episodes succeeded; {run.report_file}")


if __name__ == "__main__":
    main()
