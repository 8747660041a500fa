"""The errors of everything that works with the dp_bench program, its runs and its policies.

The environments raise ValueError and Gymnasium's errors instead.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """A command of the program failed, or a file cannot be used. The message is the program's own.

    Attributes:
        exit_code: Of the program (docs/guide/exit_codes.md); negative if a signal ended it. Without a program, that of the error's class.
        folder: The RunFolder that the command had begun, or None. It may hold results, or a run to resume.
    """

    def __init__(self, message: str, exit_code: int | None = None, folder: Any = None) -> None:
        super().__init__(message)
        self.exit_code = _exit_code_of(type(self)) if exit_code is None else exit_code
        self.folder = folder


class ProgramError(Error):
    """The dp_bench program is missing, has another version than this package, or was ended by a signal."""


class UsageError(Error):
    """Exit code 2: an error in an option, a config, a plugin or a shape."""


class NotComparableError(Error):
    """Exit code 4: env, task or seeds of the runs differ."""


class EpisodeError(Error):
    """Exit code 5: an env failed in one or more episodes. `folder` has the results, which count them as failed."""


class DataError(Error):
    """Exit code 6: an error in data, a checkpoint, a video or the file system. Also for files of a run folder."""


class NumericError(Error):
    """Exit code 7: NaN, Inf or a wrong estimate."""


class InternalError(Error):
    """Exit code 70: a bug in dp_bench."""


class OutOfMemoryError(Error):
    """Exit code 71: out of memory; the message says what to lower."""


class InterruptedRunError(Error):
    """Exit code 75: a signal stopped the program, or its policy server has gone. It saved its work; the message says how to continue.

    After Ctrl-C, KeyboardInterrupt is raised instead.
    """


_BY_EXIT_CODE: dict[int, type[Error]] = {
    2: UsageError,
    4: NotComparableError,
    5: EpisodeError,
    6: DataError,
    7: NumericError,
    70: InternalError,
    71: OutOfMemoryError,
    75: InterruptedRunError,
}


def _exit_code_of(kind: type[Error]) -> int | None:
    return next((code for code, error in _BY_EXIT_CODE.items() if error is kind), None)


def error_of(exit_code: int, message: str, folder: Any = None) -> Error:
    """The error for an exit code that is not 0."""
    kind = ProgramError if exit_code < 0 else _BY_EXIT_CODE.get(exit_code, Error)
    return kind(message, exit_code, folder)
