"""Trains a small policy on demonstrations of the task's expert, and evaluates it. Takes a minute or two.

python python/examples/train.py [--output runs/from_python] [--epochs 40]
"""

import argparse

import dp_bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", help="run folder; by default a new one below runs/")
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()

    run = dp_bench.run(
        "unet_hybrid",
        "point_mass",
        {
            "policy.params.down_dims": [32, 64],
            "training.num_epochs": args.epochs,
            "training.lr_warmup_steps": 20,
            "env_runner.n_test": 20,
        },
        output=args.output,
    )
    losses = [row["train_loss"] for row in run.log]
    print(f"{run.path}: {len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    print(f"success rate {run.metrics['test/success_rate']:.0%}, mean score {run.metrics['test/mean_score']:.3f}")
    print(f"videos: {', '.join(str(video) for video in run.videos.values())}")


if __name__ == "__main__":
    main()
