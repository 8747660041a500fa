"""Examples that need no dp_bench program, run as scripts; the wheel's test runs the others."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

import dp_bench

REPOSITORY = pathlib.Path(__file__).parents[2]
RUNS = [REPOSITORY / "models/pusht_unet_hybrid" / name for name in ("training/seed_42", "evaluation/seed_42")]


def run_example(name, *arguments, **variables):
    """Runs an example without a display."""
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "MPLBACKEND")}
    command = [sys.executable, REPOSITORY / "python/examples" / name, *arguments]
    return subprocess.run(command, check=False, env=environment | variables, capture_output=True, text=True)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_plots_of_a_training_and_an_evaluation(tmp_path):
    file = tmp_path / "plots.svg"
    result = run_example("plots.py", *RUNS, "--output", file)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{file}\n"
    for text in ("training loss", "success rate, 95 % interval", "test seeds 100000 to 500199", "score"):
        assert f"<!-- {text} -->" in file.read_text()


def test_plots_say_what_is_missing(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    result = run_example("plots.py", *RUNS, PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr == "plots.py needs matplotlib: pip install matplotlib\n"


def test_intervals_are_those_of_the_program():
    summary = (RUNS[1] / "summary.txt").read_text()  # the program wrote it
    low, high = dp_bench.wilson_interval(183, 200)
    assert f"{100 * low:.1f} to {100 * high:.1f} %" in summary
