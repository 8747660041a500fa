"""Strict reading of JSON files, which are untrusted: sizes are checked before memory is taken, nothing is converted."""

from __future__ import annotations

import json
import math
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import Any, NoReturn

from dp_bench.errors import DataError

JsonObject = dict[str, Any]


def read_text(file: pathlib.Path, max_bytes: int) -> str:
    """The text of a regular file.

    Raises:
        DataError: It is missing, no regular file, larger than `max_bytes`, or not UTF-8.
    """
    try:
        # not blocking: a pipe must not hang the reader
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise DataError(f"{file}: expected a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                data = opened.read(max_bytes + 1) if status.st_size <= max_bytes else None
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    if data is None or len(data) > max_bytes:
        raise DataError(f"{file}: expected at most {max_bytes} bytes, found {status.st_size}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: expected UTF-8, found other bytes at byte {error.start}") from error


def parse_object(text: str, what: str) -> JsonObject:
    """The JSON object in `text`; `what` names the place in messages.

    Raises:
        DataError: It is not one, repeats a key, is nested too deeply, or has a number that is not finite.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, parse_float=_finite
        )
    except ValueError as error:  # also json.JSONDecodeError
        raise DataError(f"{what}: expected a JSON object, found {error}") from error
    except RecursionError as error:
        raise DataError(f"{what}: expected a JSON object, found one that is nested too deeply") from error
    if not isinstance(value, dict):
        raise DataError(f"{what}: expected a JSON object, found {_short(value)}")
    return value


def read_object(file: pathlib.Path, max_bytes: int) -> JsonObject:
    """The JSON object in a file. Raises DataError as above."""
    return parse_object(read_text(file, max_bytes), str(file))


def parse_lines(text: str, what: str, may_be_cut: bool = False) -> Iterator[tuple[str, JsonObject]]:
    """The JSON objects of a file with one per line, each with its place ("FILE:3").

    `may_be_cut`: a kill may have cut off the last line, which is then skipped.
    """
    lines = text.split("\n")
    if may_be_cut:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line:
            place = f"{what}:{number}"
            yield place, parse_object(line, place)


class Fields:
    """The members of a JSON object. Every error names the place, what was expected and what was found."""

    def __init__(self, json_object: JsonObject, what: str) -> None:
        self._object = json_object
        self._what = what

    def has(self, key: str) -> bool:
        """Whether the member exists and is not null."""
        return self._object.get(key) is not None

    def text(self, key: str) -> str:
        value = self._object.get(key)
        return value if isinstance(value, str) else self._fail(key, "text")

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def switch(self, key: str) -> bool:
        value = self._object.get(key)
        return value if isinstance(value, bool) else self._fail(key, "true or false")

    def integer(self, key: str) -> int:
        value = self._object.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else self._fail(key, "an integer")

    def optional_integer(self, key: str) -> int | None:
        return self.integer(key) if self.has(key) else None

    def number(self, key: str) -> float:
        value = self._object.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number else self._fail(key, "a number")  # type: ignore[arg-type]

    def optional_number(self, key: str) -> float | None:
        return self.number(key) if self.has(key) else None

    def fields(self, key: str) -> Fields:
        value = self._object.get(key)
        return Fields(value, f"{self._what}: {key}") if isinstance(value, dict) else self._fail(key, "an object")

    def numbers(self) -> dict[str, float]:
        """All members, which must be numbers."""
        return {key: self.number(key) for key in self._object}

    def list_of_fields(self, key: str) -> list[Fields]:
        return [
            Fields(value, f"{self._what}: {key}.{i}") if isinstance(value, dict) else self._fail(key, "objects")
            for i, value in enumerate(self._list(key))
        ]

    def integers(self, key: str) -> tuple[int, ...]:
        values = self._list(key)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            self._fail(key, "integers")
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            self._fail(key, "texts")
        return tuple(values)

    def _list(self, key: str) -> list[Any]:
        value = self._object.get(key)
        return value if isinstance(value, list) else self._fail(key, "a list")

    def _fail(self, key: str, expected: str) -> NoReturn:
        found = _short(self._object[key]) if key in self._object else "no such key"
        raise DataError(f"{self._what}: {key}: expected {expected}, found {found}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} twice")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text}, which is too large")
    return value


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
