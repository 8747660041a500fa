"""Finds the dp_bench program and runs its commands as child processes."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tty
from collections.abc import Callable, Sequence
from typing import final

from dp_bench.errors import ProgramError
from dp_bench.run_folder import PathLike

_MAX_KEPT = 1 << 20  # characters of each stream
_PROGRESS = re.compile(r"(?:\[[=> ]{20}\] )?(\d+)/(\d+)  .*ETA \S+$")  # harness/src/core/progress.cc
_REDRAW = "\r\x1b[K"

# Starts the program with its standard input, a terminal of its own, as controlling terminal. If Python dies, the terminal
# hangs up, and the program saves its work and ends: a killed notebook must not leave a training behind. subprocess could do
# this only with preexec_fn, which may deadlock in programs with threads. (PR_SET_PDEATHSIG is no way: if a process with
# several threads dies, the signal may come twice.)
_LAUNCH = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclasses.dataclass(frozen=True)
class Progress:
    """A line that the program shows while it works.

    Attributes:
        text: The line without its bar, such as "epoch 3  120/400  loss 0.031  512 samples/s  ETA 0:12:30", or a message.
        done, total: How far the current job has come; None for messages.
    """

    text: str
    done: int | None = None
    total: int | None = None


ProgressOption = bool | Callable[[Progress], object]


@dataclasses.dataclass(frozen=True)
class Program:
    """The dp_bench program.

    Attributes:
        path: The file.
        version: Such as "0.2.0".
    """

    path: pathlib.Path
    version: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended. Of long output, only the end is kept."""

    exit_code: int  # negative: the signal that ended it
    stdout: str
    stderr: str  # without lines of progress

    def run_folder(self) -> str | None:
        """The run folder that it announced first."""
        found = re.search(r"^run folder: (.+)$", self.stdout, re.MULTILINE)
        return found.group(1) if found else None

    def message(self) -> str:
        """Why it failed, in the program's words."""
        interrupted = re.findall(r"^interrupted .+$", self.stdout, re.MULTILINE)
        if self.exit_code == 75 and interrupted:
            return str(interrupted[-1])
        begin = ("\n" + self.stderr).rfind("\ndp_bench: ")
        text = self.stderr[begin + len("dp_bench: ") :] if begin >= 0 else self.stderr.strip() or self.stdout
        if self.exit_code < 0:
            text = f"{_signal_name(-self.exit_code)} ended the program. {text}"
        return text.strip() or f"the program ended with exit code {self.exit_code}"


def find_program(program: PathLike | None = None) -> Program:
    """The dp_bench program: `program`, or else what the variable DP_BENCH_PROGRAM names, or else that on the PATH.

    Raises:
        ProgramError: There is none, or its version is not that of this package.
    """
    named = program or os.environ.get("DP_BENCH_PROGRAM")
    found = shutil.which(named or "dp_bench")
    if found is None:
        where = f"found no program {str(named)!r}" if named else "found none on the PATH"
        raise ProgramError(
            f"expected the dp_bench program, {where}. Install it (docs/installing.md), and add its folder to the PATH or "
            "name the file in the variable DP_BENCH_PROGRAM or the argument `program`."
        )
    path = pathlib.Path(found).resolve()
    status = path.stat()
    return _checked(path, (status.st_ino, status.st_mtime_ns))


def call(
    arguments: Sequence[str | PathLike], program: PathLike | None = None, progress: ProgressOption = False
) -> Outcome:
    """Runs a command to its end.

    `progress`: True shows what the program writes to standard error, a function gets it line by line, False drops it.
    An exception on the way, such as KeyboardInterrupt, stops the program like Ctrl-C, waits until it has saved its work
    and is raised again. A second one kills it.
    """
    if not (callable(progress) or isinstance(progress, bool)):
        raise TypeError(f"expected progress as True, False or a function, found {progress!r}")
    path = find_program(program).path
    is_drawn = callable(progress) or (progress and sys.stderr is not None and sys.stderr.isatty())
    with _Child([str(path), *(os.fspath(argument) for argument in arguments)], is_drawn) as child:
        try:
            child.watch(_Shown(progress))
        except BaseException as error:
            child.stop(_Shown(progress is True))
            if isinstance(error, KeyboardInterrupt) and child.outcome().exit_code != 0:
                raise KeyboardInterrupt(child.outcome().message()) from None
            raise
        return child.outcome()


@final
class _Child:
    """The process and what it has written. `is_drawn`: it draws its progress every 0.1 s, as on a terminal."""

    def __init__(self, command: list[str], is_drawn: bool) -> None:
        self._terminal, terminal = os.openpty()
        try:
            tty.setraw(terminal)  # line ends stay as they are
            # a session of its own, because the user's terminal sends Ctrl-C to all processes of this one
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, *command],
                stdin=terminal,
                stdout=subprocess.PIPE,
                stderr=terminal if is_drawn else subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._terminal)
            raise
        finally:
            os.close(terminal)
        self._stdout = _Text()
        self._stderr = _Text()
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ, self._stdout)
        self._selector.register(self._process.stderr or self._terminal, selectors.EVENT_READ, self._stderr)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._selector.close()
        os.close(self._terminal)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def watch(self, shown: _Shown) -> None:
        """Until it has ended."""
        while self._selector.get_map():
            ready = self._selector.select(timeout=0.5)
            if not ready and self._process.poll() is not None:
                break  # one of its own children still has the streams
            for key, _ in ready:
                text = key.data.read(key.fd)
                if text is None:
                    self._selector.unregister(key.fileobj)
                elif key.data is self._stderr:
                    shown.add(text)
        self._process.wait()

    def stop(self, shown: _Shown) -> None:
        """Asks it to save its work and waits for its end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.watch(shown)

    def outcome(self) -> Outcome:
        lines = self._stderr.kept.replace(_REDRAW, "\n").split("\n")
        messages = "\n".join(line for line in lines if not _PROGRESS.search(line))
        return Outcome(self._process.returncode, self._stdout.kept, messages)


class _Text:
    """What has been read from a stream."""

    def __init__(self) -> None:
        self.kept = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, descriptor: int) -> str | None:
        """The next piece; None at the end."""
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:  # a terminal whose other side is closed
            data = b""
        text = self._decoder.decode(data, final=not data)
        self.kept = (self.kept + text)[-_MAX_KEPT:]
        return text if data else None


class _Shown:
    """Passes on what the program writes to standard error."""

    def __init__(self, progress: ProgressOption) -> None:
        self._progress = progress
        self._line = ""

    def add(self, text: str) -> None:
        if callable(self._progress):
            *lines, self._line = (self._line + text.replace(_REDRAW, "\n")).split("\n")
            # a line that is drawn ends only when the next one is drawn
            if _PROGRESS.search(self._line):
                lines, self._line = [*lines, self._line], ""
            for line in filter(None, lines):
                self._progress(_parse_progress(line))
        elif self._progress and sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


def _parse_progress(line: str) -> Progress:
    bar = _PROGRESS.search(line)
    if bar is None:
        return Progress(line)
    return Progress(line[: bar.start()] + line[bar.start(1) :], int(bar.group(1)), int(bar.group(2)))


@functools.lru_cache
def _checked(path: pathlib.Path, _identity: tuple[int, int]) -> Program:
    """The program at `path`, after its version was checked; once for each file."""
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProgramError(f"expected a dp_bench program that starts, but {str(path)!r} does not: {error}") from error
    version = re.match(r"dp_bench (\d+\.\d+\.\d+) ", shown.stdout)
    wanted = importlib.metadata.version("dp_bench")
    if version is None or version.group(1) != wanted:
        found = version.group(1) if version else shown.stdout[:60]
        raise ProgramError(
            f"expected version {wanted} of dp_bench, which this Python package has, found {found!r} at {str(path)!r}; "
            "install the same version of both (docs/installing.md)"
        )
    return Program(path, wanted)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
