"""The event files of a resumed training, read by the code behind `wandb sync --sync-tensorboard` and compared with
logs.json.txt. Without a server: what would be uploaded is caught. Needs tensorboard and wandb <= 0.29; ends with 77, which
ctest shows as skipped, where wandb is missing or newer. From the project's root:
    python tests/integration/wandb_reads.py build/release/bin/dp_bench configs
"""

import json
import os
import pathlib
import queue
import sys
import tempfile
import time

os.environ["WANDB_MODE"] = "offline"
try:
    import wandb
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.interface.interface_queue import InterfaceQueue
    from wandb.sdk.internal import tb_watcher
    from wandb.sdk.internal.settings_static import SettingsStatic
    from wandb.sync.sync import SyncThread
except ImportError as error:
    print(f"SKIPPED: {error}; pip install 'wandb<=0.29.0'")
    sys.exit(77)

from tensorboard_reads import expect_equal, float32
from tensorboard_reads_training import EVERY, make_run


def rows_of(folder, scratch):
    """The rows of history that wandb makes of a folder."""
    rows = []
    tb_watcher.TBEventConsumer._save_row = lambda self, row: rows.append(row)
    finder = SyncThread.__new__(SyncThread)
    finder._sync_tensorboard = True
    _, log_dirs, root = finder._find_tfevent_files(str(folder))
    settings = SettingsStatic(dict(wandb.Settings(root_dir=scratch, run_id="offline", x_start_time=time.time())))
    os.makedirs(settings.files_dir)
    run = wandb_internal_pb2.RunRecord(run_id="offline", project="dp_bench")
    watcher = tb_watcher.TBWatcher(settings, run, InterfaceQueue(queue.Queue()), True)
    for log_dir in log_dirs:
        watcher.add(log_dir, True, root)
    watcher.finish()
    return rows


def main():
    dp_bench, configs = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        run = make_run(dp_bench, configs, pathlib.Path(name))
        lines = {line["global_step"]: line for line in map(json.loads, (run / "logs.json.txt").read_text().splitlines())}
        rows = rows_of(run / "tensorboard", os.path.join(name, "wandb"))
        points = [row for row in rows if "tensorboard/train/loss" in row]
        wanted = sorted(step for step in lines if step % EVERY == 0)
        expect_equal("every point of the log is there", set(wanted) <= {int(row["tensorboard/global_step"]) for row in points}, True)
        for row in points:
            line = lines[int(row["tensorboard/global_step"])]
            for tag, key in (("loss", "train_loss"), ("lr", "lr"), ("grad_norm", "grad_norm")):
                expect_equal(f"{tag} at {line['global_step']}", float(row[f"tensorboard/train/{tag}"]), float32(line[key]))
            expect_equal("the norm of the parameters", row["tensorboard/train/param_norm"] > 0, True)
        scores = [row for row in rows if "tensorboard/test/mean_score" in row]
        expect_equal("scores", len(scores) > 0, True)


if __name__ == "__main__":
    main()
