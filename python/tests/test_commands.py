"""Training, evaluation and comparison with the real program. DP_BENCH_PROGRAM names it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dp_bench

PROGRAM = os.environ.get("DP_BENCH_PROGRAM")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="DP_BENCH_PROGRAM names no dp_bench program")
TRAINING = {
    "policy.params.down_dims": [16, 32],
    "policy.params.n_groups": 4,
    "collect.n_episodes": 4,
    "training.num_epochs": 2,
    "training.lr_warmup_steps": 2,
    "training.rollout_every": 0,
    "dataloader.batch_size": 32,
}
EVALUATION = {
    "env_runner.n_train": 0,
    "env_runner.n_test": 10,
    "env_runner.n_videos": 1,
    "env_runner.micro_batch": 4,
    "env_runner.max_steps": 20,
}
FOREVER = TRAINING | EVALUATION | {"training.num_epochs": 100_000, "training.checkpoint_every": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of its own, where demonstrations are collected once."""
    folder = tmp_path_factory.mktemp("commands")
    before = pathlib.Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def trained(folder):
    return dp_bench.train("unet_hybrid", "point_mass", TRAINING | EVALUATION, output="trained", progress=False)


@pytest.fixture(scope="module")
def evaluated(trained):
    return dp_bench.evaluate(trained, EVALUATION, output="evaluated", progress=False)


def outcomes(source, name, letters):
    """A copy of a run, as versions before 0.2 left it, whose episodes succeed (s) or do not (f)."""
    copy = source.path.parent / name
    copy.mkdir()
    (copy / "config.json").write_text((source.path / "config.json").read_text())
    manifest = {key: value for key, value in source.manifest.items() if key not in ("run_id", "config_sha256")}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    rows = [json.loads(line) for line in (source.path / "episodes.jsonl").read_text().splitlines()]
    for row, letter in zip(rows, letters, strict=True):
        row |= {"success": letter == "s", "score": 1.0 if letter == "s" else 0.5, "trace_hash": name}
    (copy / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return dp_bench.RunFolder(copy)


def test_a_training_is_a_run_folder(trained):
    assert trained.config["training"]["num_epochs"] == 2 and trained.config["policy"]["params"]["down_dims"] == [16, 32]
    assert list(trained.checkpoints) and trained.log[-1]["epoch"] == 1
    assert not trained.is_finished


def test_an_evaluation_has_the_numbers_of_the_command_line(trained, evaluated):
    command = [PROGRAM, "eval", "--checkpoint", "trained", "--output", "by_hand"]
    subprocess.run(
        [*command, *(f"{key}={value}" for key, value in EVALUATION.items())], check=True, capture_output=True
    )
    by_hand = dp_bench.RunFolder("by_hand")
    assert (evaluated.path / "episodes.jsonl").read_bytes() == (by_hand.path / "episodes.jsonl").read_bytes()
    assert evaluated.metrics == by_hand.metrics and evaluated.episodes == by_hand.episodes
    assert [episode.seed for episode in evaluated.episodes] == list(range(100000, 100010))
    assert list(evaluated.videos) == [("test", 100000)]


def test_run_trains_evaluates_and_names_a_new_folder(folder):
    overrides = TRAINING | EVALUATION | {"training.num_epochs": 1}
    progress = []
    run = dp_bench.run("unet_hybrid", "point_mass", overrides, seeds=[1, 2], progress=progress.append)
    assert run.path.parts[0] == "runs" and set(run.seeds) == {1, 2}
    assert run.seeds[1].config["training"]["seed"] == 1 and run.seeds[2].metrics["test/n_episodes"] == 10
    assert run.report_file.is_file()
    assert any(line.done == line.total for line in progress if line.total)
    assert dp_bench.run(resume=run, progress=False).path == run.path  # nothing is left to do


def test_mistakes_arrive_as_errors(trained):
    with pytest.raises(dp_bench.UsageError, match="env_runner.n_tset.*did you mean") as error:
        dp_bench.evaluate(trained, {"env_runner.n_tset": 3}, output="mistake", progress=False)
    assert error.value.exit_code == 2 and error.value.folder is None and not pathlib.Path("mistake").exists()
    with pytest.raises(dp_bench.UsageError, match="--checkpoint: Directory does not exist: nowhere"):
        dp_bench.evaluate("nowhere")
    with pytest.raises(dp_bench.UsageError, match="already has an evaluation|never overwritten"):
        dp_bench.train("unet_hybrid", "point_mass", TRAINING | EVALUATION, output="trained", progress=False)


def test_failed_episodes_raise_and_leave_the_results(folder):
    plugins = pathlib.Path(PROGRAM).parents[1] / "broken_plugins/faulty"
    if not plugins.is_dir():
        pytest.skip(f"the env that breaks is not in {plugins}")
    config = {
        "env": {"plugin": "faulty", "params": {"faults": [{"seed": 100001, "kind": "throw", "step": 5}]}},
        "policy": {"plugin": "constant_action"},
        "collect": {"n_episodes": 2, "start_seed": 7, "keep_failures": True},
        "dataloader": {"batch_size": 4},
        "env_runner": {"n_train": 0, "n_test": 3, "n_videos": 0},
        "training": {"num_epochs": 1, "max_train_steps": 1, "rollout_every": 0},
    }
    pathlib.Path("faulty.json").write_text(json.dumps(config))
    with pytest.raises(dp_bench.EpisodeError, match="1 of 3 episodes failed; test seed 100001: ") as error:
        arguments = ["--plugin-dir", str(plugins)]
        dp_bench.run(config="faulty.json", output="faulty", arguments=arguments, progress=False)
    assert [bool(episode.failure_reason) for episode in error.value.folder.episodes] == [False, True, False]


def test_ctrl_c_saves_the_training_and_names_how_to_continue(folder):
    def interrupt(progress):
        if progress.total:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="interrupted at step .*--resume stopped"):
        dp_bench.train("unet_hybrid", "point_mass", FOREVER, output="stopped", progress=interrupt)
    stopped = dp_bench.RunFolder("stopped")
    assert "latest" in stopped.checkpoints and len(stopped.log) > 0
    with pytest.raises(KeyboardInterrupt, match="interrupted at step"):
        dp_bench.train(resume=stopped, progress=interrupt)
    assert len(dp_bench.RunFolder("stopped").log) > len(stopped.log)


def test_a_killed_python_does_not_leave_a_training_behind(folder):
    script = f"import dp_bench; dp_bench.train('unet_hybrid', 'point_mass', {FOREVER!r}, output='orphan')"
    python = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    log = pathlib.Path("orphan/logs.json.txt")
    wait_until(lambda: log.exists() and log.stat().st_size > 0)
    assert training_of("orphan")
    python.kill()
    python.wait()
    wait_until(lambda: not training_of("orphan"))
    assert "latest" in dp_bench.RunFolder("orphan").checkpoints


def training_of(output):
    """Processes of the program that write there."""
    marks = [f"\0--output\0{output}\0".encode()]
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command, place = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
        except OSError:
            continue
        if place == pathlib.Path.cwd() and all(mark in command for mark in marks):
            found.append(process.name)
    return found


def wait_until(is_true):
    for _ in range(600):
        if is_true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within 30 s")


def test_a_comparison_has_the_numbers_of_the_command_line(evaluated):
    runs = [outcomes(evaluated, "a", "ssssffffff"), outcomes(evaluated, "b", "fsssssssff"), evaluated]
    comparison = dp_bench.compare(*runs, difference=0.1)
    command = [PROGRAM, "compare", *map(os.fspath, runs), "--difference", "0.1", "--json", "compared.json"]
    subprocess.run(command, check=True, capture_output=True)
    assert comparison.json == json.loads(pathlib.Path("compared.json").read_text())
    b = comparison.candidates[0]
    assert (b.both_succeed, b.only_a, b.only_b, b.neither, b.n_pairs) == (3, 1, 4, 2, 10)
    assert b.p_exact == 0.375 and b.success_rate.difference == pytest.approx(0.3)
    assert [seed.seed for seed in b.discordant] == [100000, 100004, 100005, 100006, 100007]
    assert comparison.runs[0].success_rate.n_success == 4 and comparison.runs[1].folder == runs[1].path
    assert len(comparison.pairs) == 3 and comparison.runs[0].letters


def test_results_of_other_programs_are_compared_unpaired(evaluated):
    pathlib.Path("theirs.csv").write_text("seed,success\n" + "".join(f"{100000 + i},1\n" for i in range(10)))
    candidate = dp_bench.compare(evaluated, "theirs.csv", html="page.html").candidates[0]
    assert candidate.why_unpaired and candidate.n_pairs == 0 and candidate.p_mid is None
    assert pathlib.Path("page.html").stat().st_size > 0
    assert dp_bench.compare(evaluated, "theirs.csv", same_seeds=True).candidates[0].n_pairs == 10


def test_runs_that_are_not_comparable_are_refused(evaluated):
    other = outcomes(evaluated, "other", "ssssssssss")
    config = (other.path / "config.json").read_text()
    (other.path / "config.json").write_text(config.replace('"max_steps": 20', '"max_steps": 25'))
    with pytest.raises(dp_bench.NotComparableError, match="env_runner.max_steps is 20 in evaluated, 25 in other"):
        dp_bench.compare(evaluated, other)
    mismatch = dp_bench.compare(evaluated, other, force=True).candidates[0].mismatches[0]
    assert (mismatch.field, mismatch.a, mismatch.b) == ("env_runner.max_steps", "20", "25")


def test_the_verdict_of_the_gate_is_a_value(evaluated):
    dp_bench.update_baseline(evaluated, "same.json")
    same = dp_bench.gate(evaluated, "same.json")
    assert same.verdict is dp_bench.Verdict.PASS and same.tasks[0].is_bit_equal and same.tasks[0].n_shared == 10
    good, bad = outcomes(evaluated, "good", "ssssssssss"), outcomes(evaluated, "bad", "ffffffffff")
    dp_bench.update_baseline(good, "good.json")
    failed = dp_bench.gate(bad, "good.json")
    assert failed.verdict == "FAIL" and failed.tasks[0].n_lost == 10 and failed.tasks[0].drop.difference == 1.0
    middle = outcomes(evaluated, "middle", "ssssssssfs")
    assert dp_bench.gate(middle, "good.json", save="state.json").verdict is dp_bench.Verdict.INCONCLUSIVE
    assert dp_bench.gate(middle, "good.json", margin=np.float64(0.9)).verdict is dp_bench.Verdict.PASS
    again = dp_bench.gate(middle, "good.json", resume="state.json")
    assert again.json == json.loads(pathlib.Path("state.json").read_text())


def test_the_gate_rolls_out_a_checkpoint(trained, evaluated):
    dp_bench.update_baseline(evaluated, "rolled.json")
    result = dp_bench.gate(trained.checkpoints["latest"], "rolled.json", output="rolled", progress=False)
    assert result.verdict is dp_bench.Verdict.PASS and len(dp_bench.RunFolder("rolled").episodes) == 8


def test_a_gate_that_cannot_judge_raises(evaluated):
    dp_bench.update_baseline(evaluated, "judge.json")
    broken = outcomes(evaluated, "broken", "ffffffffff")
    rows = (broken.path / "episodes.jsonl").read_text()
    (broken.path / "episodes.jsonl").write_text(rows.replace('"failure_reason": null', '"failure_reason": "threw"'))
    with pytest.raises(dp_bench.EpisodeError, match="INFRA: 10 of 10 episodes"):
        dp_bench.gate(broken, "judge.json")
    with pytest.raises(dp_bench.DataError, match="not a baseline"):
        dp_bench.gate(evaluated, evaluated.path / "config.json")
