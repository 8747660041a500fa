#!/usr/bin/env python3
"""Ships trained policies in models/ and writes the pages about them. Needs only Python 3.10.

  scripts/models.py ship NAME RUN...      weights of the first run into models/NAME; results of all, one per training seed
  scripts/models.py add NAME RUN...       results of more training seeds of a policy that was shipped
  scripts/models.py pages [--check]       models/*/README.md, models/README.md and the table of README.md

models/NAME/about.json holds what no file of a run says: the command, what it learned from, and how long it took.
"""

import argparse
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "python/src/dp_bench"))
from interval import wilson_interval  # noqa: E402

MODELS = ROOT / "models"
FIRST_SEED = 500000  # no training and no choice of a checkpoint saw these
N_SEEDS = 200
N_FRAMES = 6
MOST_BYTES = 16 << 20  # of weights in git
MOST_WIDE_BYTES = 8 << 20  # of those that are not stored in 16 bits
METRIC_NAMES = {"test/mean_coverage": "largest coverage", "test/mean_final_coverage": "final coverage"}


def read_json(path):
    return json.loads(path.read_text())


# ---- ship


def dp_bench(*arguments):
    command = [ROOT / "build/release/bin/dp_bench", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def copy(source, target, names):
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(source / name, target / name)


def evaluate(weights, target, recorded_as):
    """Evaluates on the fresh seeds, and keeps the numbers."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "evaluation"
        summary = dp_bench("eval", "--checkpoint", weights, "--output", run, "env_runner.n_train=0", "env_runner.n_videos=0",
                           f"env_runner.test_start_seed={FIRST_SEED}", f"env_runner.n_test={N_SEEDS}")
        manifest = read_json(run / "manifest.json")
        manifest["checkpoint"]["folder"] = recorded_as
        (run / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        copy(run, target, ["config.json", "manifest.json", "eval_log.json", "episodes.jsonl", "latency.json"])
    lines = summary.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("split "))
    end = next(i for i, line in enumerate(lines) if line.startswith("latency at batch 1"))
    (target / "summary.txt").write_text("\n".join(lines[begin:end]) + "\n")


def draw_frames(model):
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "videos"
        dp_bench("eval", "--checkpoint", model, "--output", run, "env_runner.n_train=0", "env_runner.n_test=2",
                 "env_runner.n_videos=2", f"env_runner.test_start_seed={FIRST_SEED}", "env_runner.video_size=[208,156]"
                 if "kuavo" in model.name else "env_runner.video_size=[160,160]")
        dp_bench("video", run, "--output", model / "frames.png", "--columns", N_FRAMES)


def record(model, run, is_shipped):
    """Evaluates the run's last weights as float16 and keeps the numbers of both; the shipped weights too."""
    seed = f"seed_{read_json(run / 'config.json')['training']['seed']}"
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch) / "weights"
        dp_bench("export", "--checkpoint", run / "checkpoints/latest", "--dtype", "float16", "--output", weights)
        if is_shipped:
            copy(weights, model, [path.name for path in weights.iterdir()])
        recorded_as = f"models/{model.name}" if is_shipped else f"{model.name}, {seed}"
        evaluate(model if is_shipped else weights, model / "evaluation" / seed, recorded_as)
    logs = ["logs.json.txt"] if is_shipped else []
    copy(run, model / "training" / seed, ["config.json", "manifest.json", "eval_log.json", "episodes.jsonl", *logs])
    print(f"{model.name} {seed}: {(model / 'evaluation' / seed / 'summary.txt').read_text().splitlines()[1]}", flush=True)


def add(name, runs):
    for run in runs:
        record(MODELS / name, run, is_shipped=False)


def ship(name, runs):
    model = MODELS / name
    about = read_json(model / "about.json")
    for old in ("training", "evaluation"):
        shutil.rmtree(model / old, ignore_errors=True)
    for run in runs:
        record(model, run, is_shipped=run == runs[0])
    shipped = model / "evaluation" / sorted_seeds(model)[0].name
    dp_bench("gate", "--baseline", model / "baseline.json", "--candidate", shipped, "--update-baseline")
    draw_frames(model)
    print(f"{name}: {about['command']}")


# ---- pages


def sorted_seeds(model):
    return sorted((model / "evaluation").iterdir(), key=lambda folder: int(folder.name.removeprefix("seed_")))


def success(log):
    low, high = wilson_interval(log["test/n_success"], log["test/n_episodes"])
    rate = log["test/n_success"] / log["test/n_episodes"]
    return f"{100 * rate:.1f} % ({log['test/n_success']}/{log['test/n_episodes']}; {100 * low:.1f}–{100 * high:.1f} %)"


def tensors(model):
    """The tensors of the weights, from the header of their file."""
    with open(model / "ema.safetensors", "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return [tensor for name, tensor in header.items() if name != "__metadata__"]


def n_parameters(model):
    return sum(math.prod(tensor["shape"]) for tensor in tensors(model))


def require_small_weights(model):
    """What docs/releasing.md says about weights in git."""
    size = (model / "ema.safetensors").stat().st_size
    wide = {tensor["dtype"] for tensor in tensors(model)} & {"F32", "F64"}
    if size > MOST_BYTES or (wide and size > MOST_WIDE_BYTES):
        sys.exit(f"models/{model.name}/ema.safetensors has {size / 2**20:.1f} MiB{' in ' + ', '.join(wide) if wide else ''}; expected at "
                 f"most {MOST_WIDE_BYTES >> 20} MiB, or at most {MOST_BYTES >> 20} MiB in 16 bits: see docs/releasing.md")


def table(header, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def failures(summary):
    lines = summary.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("not successful")), None)
    if begin is None:
        return "No episode failed."
    return "```\n" + "\n".join(lines[begin:]) + "\n```"


def card(model):
    about = read_json(model / "about.json")
    seeds = sorted_seeds(model)
    logs = {folder.name: read_json(folder / "eval_log.json") for folder in seeds}
    shown = [metric for metric in METRIC_NAMES if metric in logs[seeds[0].name]]
    rows = [[name.removeprefix("seed_") + (" (shipped)" if folder == seeds[0] else ""), success(logs[name]),
             f"{logs[name]['test/mean_score']:.3f}", *(f"{logs[name][metric]:.3f}" for metric in shown)]
            for folder in seeds for name in [folder.name]]
    machine = read_json(model / "training" / seeds[0].name / "manifest.json")["machine"]
    latency = read_json(seeds[0] / "latency.json")["batch_1"]["chunk"]
    return f"""# {model.name}

<!-- written by scripts/models.py pages -->

{about["task"]} Policy: {about["policy"]}, {n_parameters(model) / 1e6:.1f} M parameters, weights stored as float16.

![Frames of two episodes, from left to right](frames.png)

```
dp_bench eval --checkpoint models/{model.name}      # evaluate it
{about["command"]}
```

The second command trains it again, from nothing. {about["data"]} Time: {about["time"]}. The machine
has {machine["threads"]} cores ({machine["cpu"]}).

## Results

{N_SEEDS} episodes from seed {FIRST_SEED} for each training seed. No training saw these seeds, and no checkpoint was chosen by them: each is
the last one.

{table(["training seed", "success rate (95 % interval)", "mean score", *(METRIC_NAMES[m] for m in shown)], rows)}

A plan of one chunk takes {latency["p50_ms"]:.1f} ms (median; 99 % within {latency["p99_ms"]:.1f} ms) at batch size 1.

## How it fails

{failures((seeds[0] / "summary.txt").read_text())}
"""


def index():
    """models/README.md: every policy with its task and results."""
    rows = []
    for model in shipped_models():
        about = read_json(model / "about.json")
        logs = [read_json(folder / "eval_log.json") for folder in sorted_seeds(model)]
        rates = [log["test/n_success"] / log["test/n_episodes"] for log in logs]
        rows.append([f"[`{model.name}`]({model.name}/README.md)", about["task"], success(logs[0]),
                     ", ".join(f"{100 * rate:.1f}" for rate in rates), f"{logs[0]['test/mean_score']:.3f}", about["time"]])
    header = ["policy", "task", "success rate of the shipped weights (95 % interval)", "of each training seed [%]", "mean score",
              "training"]
    return f"""# Models

<!-- written by scripts/models.py pages -->

Policies that ship with dp_bench, each with its recipe, its training log and its results on {N_SEEDS} seeds from {FIRST_SEED}, which no training saw.

```
dp_bench eval --checkpoint models/{shipped_models()[0].name}
```

{table(header, rows)}

## Files

| path | content |
|---|---|
| `ema.safetensors`, `normalizer.safetensors`, `config.json`, `manifest.json`, `state.json` | the checkpoint |
| `training/seed_*/` | config, manifest and last evaluation of each training; the log of the shipped one |
| `evaluation/seed_*/` | the results above, one row per episode in `episodes.jsonl` |
| `baseline.json` | the shipped policy's episodes, for `dp_bench gate` |
| `about.json` | the words of its page |

Each policy's page has its recipe, its failures and images. The test `integration.own_gate` compares each build with their episodes.
[docs/notes/recipes.md](../docs/notes/recipes.md) says how the recipes were found. `scripts/models.py ship` adds a policy.
"""


def readme():
    """README.md with a row per policy between its two markers."""
    rows = []
    for model in shipped_models():
        log = read_json(sorted_seeds(model)[0] / "eval_log.json")
        rows.append([f"[{model.name}](models/{model.name}/README.md)", f"{n_parameters(model) / 1e6:.1f} M", success(log),
                     f"{log['test/mean_score']:.3f}"])
    before, begin, rest = (ROOT / "README.md").read_text().partition("<!-- written by scripts/models.py pages -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    return f"{before}{begin}\n{table(['policy', 'parameters', 'success rate', 'mean score'], rows)}\n\n{end}{after}"


def shipped_models():
    return sorted(path.parent for path in MODELS.glob("*/about.json"))


def pages():
    return {MODELS / "README.md": index(), ROOT / "README.md": readme(),
            **{model / "README.md": card(model) for model in shipped_models()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("ship", "add"):
        run_parser = verbs.add_parser(verb)
        run_parser.add_argument("name")
        run_parser.add_argument("runs", nargs="+", type=Path)
    verbs.add_parser("pages").add_argument("--check", action="store_true", help="fail if a page is not up to date")
    arguments = parser.parse_args()
    if arguments.verb in ("ship", "add"):
        take = ship if arguments.verb == "ship" else add
        return take(arguments.name, [run.resolve() for run in arguments.runs])
    for model in shipped_models():
        require_small_weights(model)
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if arguments.check and stale:
        sys.exit(f"{', '.join(str(path.relative_to(ROOT)) for path in stale)}: run scripts/models.py pages")
    for path in stale:
        path.write_text(pages()[path])


if __name__ == "__main__":
    main()
