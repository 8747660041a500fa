"""The event files of a training that was cut short, resumed, and resumed again from the older checkpoint, read by TensorBoard
itself and compared with logs.json.txt. Needs tensorboard; from the project's root:
    python tests/integration/tensorboard_reads_training.py build/release/bin/dp_bench configs
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import STORE_EVERYTHING_SIZE_GUIDANCE, EventAccumulator
from tensorboard.backend.event_processing import plugin_event_accumulator

from tensorboard_reads import expect_equal, float32

EVERY = 3
PERF = ["backward_time", "data_wait_share", "ema_time", "forward_time", "optimizer_time", "resident_memory_mib",
        "samples_per_second", "step_time"]


# names of the log that are other tags in TensorBoard
TAGS = {"train_loss": "train/loss", "lr": "train/lr", "grad_norm": "train/grad_norm"}


def train(dp_bench, configs, work, *arguments):
    overrides = ["policy.params.down_dims=[16,32]", "policy.params.n_groups=4", "collect.n_episodes=10", "training.num_epochs=2",
                 "training.lr_warmup_steps=2", "dataloader.batch_size=32", "env_runner.n_test=4", "env_runner.micro_batch=4",
                 "dataset.val_ratio=0.2", f"logging.every={EVERY}"]
    command = [dp_bench, "train", "--config-dir", configs, "--policy", "unet_hybrid", "--env", "point_mass", *overrides,
               "--output", "run"]
    if arguments[0] == "--resume":
        command = [dp_bench, "train", *arguments]
    else:
        command += arguments
    done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")


def make_run(dp_bench, configs, work):
    """The run's folder. Its second file is a run whose checkpoints were lost: the third one repeats all its steps."""
    run = work / "run"
    train(dp_bench, configs, work, "training.max_minutes=1e-9")
    shutil.copytree(run / "checkpoints", work / "first")
    for _ in range(2):
        shutil.rmtree(run / "checkpoints")
        shutil.copytree(work / "first", run / "checkpoints")
        train(dp_bench, configs, work, "--resume", "run", "training.max_minutes=null")
    return run


def check_scalars(lines, events):
    """The points of a step are exactly the values in its line of the log."""
    last_of_epoch = {line["epoch"]: line["global_step"] for line in lines}
    points = [line for line in lines
              if line["global_step"] % EVERY == 0 or line["global_step"] == last_of_epoch[line["epoch"]]]
    wanted = {}
    for line in points:
        for tag, value in line.items():
            if tag not in ("global_step", "param_norm"):  # train/param_norm has a point at every row, below
                wanted.setdefault(TAGS.get(tag, tag), []).append((line["global_step"], float32(value)))
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    steps = [line["global_step"] for line in points]
    for tag in [f"perf/{name}" for name in PERF] + ["train/param_norm"]:
        values = found.pop(tag)
        expect_equal(f"steps of {tag}", [step for step, _ in values], steps)
        expect_equal(f"{tag} is not negative", min(value for _, value in values) >= 0, True)
    expect_equal("tags of the log", sorted(found), sorted(wanted))
    for tag in wanted:
        expect_equal(tag, found[tag], wanted[tag])


def check_performance(events):
    def of(name):
        return [event.value for event in events.Scalars(f"perf/{name}")]
    phases = zip(of("forward_time"), of("backward_time"), of("optimizer_time"), of("ema_time"), of("data_wait_share"), of("step_time"))
    for forward, backward, optimizer, ema, share, step in phases:
        expect_equal("the phases make up the step",
                     abs(forward + backward + optimizer + ema + share * step - step) < 1e-3 * step, True)
    expect_equal("the process takes between 20 MiB and 20 GiB", all(20 < mib < 20480 for mib in of("resident_memory_mib")), True)


def check_images(events, n_steps_per_epoch):
    expect_equal("episodes with a video", events.Tags()["images"], ["rollout/test_200000"])
    for tag in events.Tags()["images"]:
        strips = events.Images(tag)
        expect_equal(f"steps of {tag}", [strip.step for strip in strips], [n_steps_per_epoch - 1, 2 * n_steps_per_epoch - 1])
        expect_equal(f"{tag} has six frames", strips[0].width, 6 * strips[0].height)


def check_server(folder):
    """Reads like the web server, for which everything is a tensor."""
    events = plugin_event_accumulator.EventAccumulator(str(folder)).Reload()
    steps = [event.step for event in events.Tensors("train/loss")]
    expect_equal("the server sees each step once", len(steps), len(set(steps)))


def main():
    dp_bench, configs = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        run = make_run(dp_bench, configs, pathlib.Path(name))
        folder = run / "tensorboard"
        lines = [json.loads(line) for line in (run / "logs.json.txt").read_text().splitlines()]
        expect_equal("steps of the log", [line["global_step"] for line in lines], list(range(len(lines))))
        expect_equal("event files", len(list(folder.iterdir())), 3)
        events = EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE).Reload()
        check_scalars(lines, events)
        check_performance(events)
        check_images(events, len(lines) // 2)
        check_server(folder)


if __name__ == "__main__":
    main()
