"""The dp_bench program as a child process. These tests use a stand-in, a shell script, to end in every way."""

import os
import pathlib
import signal
import threading
import time

import pytest

import dp_bench

VERSION = f"echo 'dp_bench {dp_bench.__version__} (GNU-12)'"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Makes a program that runs `body`, and names it in DP_BENCH_PROGRAM."""

    def make(body, version=VERSION):
        file = tmp_path / "dp_bench"
        file.write_text(f'#!/bin/bash\nif [ "$1" = --version ]; then {version}; exit; fi\n{body}\n')
        file.chmod(0o755)
        monkeypatch.setenv("DP_BENCH_PROGRAM", str(file))
        return file

    return make


def is_running(pid_file):
    return pathlib.Path("/proc", pid_file.read_text().strip()).exists()


def test_the_argument_comes_before_the_variable_and_that_before_the_path(stand_in, tmp_path, monkeypatch):
    named = stand_in("exit 0")
    other = tmp_path / "other" / "dp_bench"
    other.parent.mkdir()
    other.write_bytes(named.read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:{os.environ['PATH']}")
    assert dp_bench.find_program().path == named
    assert dp_bench.find_program(other).path == other
    monkeypatch.delenv("DP_BENCH_PROGRAM")
    assert dp_bench.find_program().path == other


def test_a_missing_program_is_explained(monkeypatch):
    monkeypatch.setenv("DP_BENCH_PROGRAM", "/no/such/dp_bench")
    with pytest.raises(dp_bench.ProgramError, match="found no program '/no/such/dp_bench'.*docs/installing.md"):
        dp_bench.find_program()
    monkeypatch.delenv("DP_BENCH_PROGRAM")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(dp_bench.ProgramError, match="found none on the PATH"):
        dp_bench.find_program()


def test_another_version_is_refused(stand_in):
    stand_in("exit 0", version="echo 'dp_bench 0.1.0 (GNU-12)'")
    with pytest.raises(dp_bench.ProgramError, match=f"expected version {dp_bench.__version__} .*found '0.1.0'"):
        dp_bench.run("unet_hybrid", "pusht")
    stand_in("exit 0", version="exit 3")
    with pytest.raises(dp_bench.ProgramError, match="program that starts"):
        dp_bench.run("unet_hybrid", "pusht")


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [
        (1, dp_bench.Error),
        (2, dp_bench.UsageError),
        (4, dp_bench.NotComparableError),
        (5, dp_bench.EpisodeError),
        (6, dp_bench.DataError),
        (7, dp_bench.NumericError),
        (70, dp_bench.InternalError),
        (71, dp_bench.OutOfMemoryError),
        (75, dp_bench.InterruptedRunError),
    ],
)
def test_each_exit_code_has_its_error_with_the_programs_message(stand_in, exit_code, kind):
    stand_in(f"echo 'epoch 0  1/9  loss 1  3 steps/s  ETA 0:01' >&2; echo 'dp_bench: a\nb' >&2; exit {exit_code}")
    with pytest.raises(dp_bench.Error) as error:
        dp_bench.train("unet_hybrid", "pusht", progress=False)
    assert type(error.value) is kind and error.value.exit_code == exit_code and error.value.folder is None
    if exit_code != 5:
        assert str(error.value) == "a\nb"


def test_a_program_that_crashes_is_an_error(stand_in):
    stand_in("kill -SEGV $$")
    with pytest.raises(dp_bench.ProgramError, match="SIGSEGV ended the program") as error:
        dp_bench.train("unet_hybrid", "pusht")
    assert error.value.exit_code == -signal.SIGSEGV


def test_arguments_reach_the_program_unchanged(stand_in, tmp_path):
    stand_in(f'printf "%s\\n" "$@" >{tmp_path}/arguments.txt')
    overrides = {"a.b": 3, "c": None, "d": [1, 2], "e": "two words", "f": {"g": True}, "h": 0.1}
    dp_bench.run("p", "e", overrides, seeds=[1, 2], output=tmp_path, arguments=["--isolate"])
    assert (tmp_path / "arguments.txt").read_text().splitlines() == [
        *("run", "--policy", "p", "--env", "e", "--seeds", "1,2", "--output", str(tmp_path), "--isolate"),
        *("a.b=3", "c=null", "d=[1, 2]", 'e="two words"', 'f={"g": true}', "h=0.1"),
    ]
    dp_bench.evaluate(tmp_path, ["x=1"], weights="model", overwrite=True, output=tmp_path)
    assert (tmp_path / "arguments.txt").read_text().splitlines() == [
        *("eval", "--checkpoint", str(tmp_path), "--weights", "model", "--output", str(tmp_path), "--overwrite", "x=1")
    ]
    with pytest.raises(TypeError, match="expected overrides as a dict or a list"):
        dp_bench.run("p", "e", "x=1")
    with pytest.raises(ValueError, match="Out of range float"):
        dp_bench.run("p", "e", {"x": float("nan")})


def test_a_command_without_a_run_is_refused(stand_in):
    stand_in("exit 0")
    with pytest.raises(dp_bench.UsageError, match="--dry-run is for the command line"):
        dp_bench.train("p", "e", arguments=["--dry-run"])


def test_progress_is_shown_passed_on_or_dropped(stand_in, tmp_path, capfd):
    bar = r"\r\033[Kepoch 3  [=====>              ] 120/400  loss 0.031  512 samples/s  ETA 0:12:30"
    line = "epoch 3  120/400  loss 0.031  512 samples/s  ETA 0:12:30"
    stand_in(f"echo a message >&2; if [ -t 2 ]; then printf '{bar}{bar}\\n' >&2; else echo '{line}' >&2; fi")
    found = []
    dp_bench.train("p", "e", output=tmp_path, progress=found.append)
    bar_seen = dp_bench.Progress(line, 120, 400)
    assert found == [dp_bench.Progress("a message"), bar_seen, bar_seen]
    dp_bench.train("p", "e", output=tmp_path)
    assert capfd.readouterr().err == f"a message\n{line}\n"
    dp_bench.train("p", "e", output=tmp_path, progress=False)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(TypeError, match="expected progress as True, False or a function, found 'bar'"):
        dp_bench.train("p", "e", output=tmp_path, progress="bar")


def test_an_error_of_the_callback_stops_the_program_and_is_raised(stand_in, tmp_path):
    stand_in(f"trap 'sleep 0.3; touch {tmp_path}/saved; exit 75' INT; echo begun >&2; sleep 60 & wait; wait")

    def fail(progress):
        raise ZeroDivisionError(progress.text)

    with pytest.raises(ZeroDivisionError, match="begun"):
        dp_bench.train("p", "e", progress=fail)
    assert (tmp_path / "saved").exists()


def test_a_second_interrupt_kills_the_program(stand_in, tmp_path):
    pid_file = tmp_path / "pid"
    stand_in(f"trap '' INT; echo $$ >{pid_file}; echo begun >&2; while true; do sleep 0.05; done")

    def interrupt(_):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dp_bench.train("p", "e", progress=interrupt)
    assert not is_running(pid_file) and time.monotonic() - begin < 30


def test_a_process_that_the_program_leaves_behind_does_not_block(stand_in, tmp_path):
    stand_in(f"(trap '' HUP; exec sleep 60) & echo $! >{tmp_path}/pid; sleep 0.1; echo 'run folder: {tmp_path}'")
    begin = time.monotonic()
    assert dp_bench.train("p", "e").path == tmp_path
    assert time.monotonic() - begin < 30 and is_running(tmp_path / "pid")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
