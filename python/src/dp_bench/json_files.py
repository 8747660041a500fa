"""Strict reading of JSON files, which are untrusted: sizes are checked before memory is taken, nothing is converted."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import pathlib
import stat
import types
import typing
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

from dp_bench.errors import DataError

JsonObject = dict[str, Any]
T = TypeVar("T")


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


_EXPECTED = {
    str: "text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class Fields:
    """The members of a JSON object. Every error names the place, what was expected and what was found."""

    def __init__(self, json_object: JsonObject, what: str) -> None:
        self._object = json_object
        self._what = what

    def has(self, key: str) -> bool:
        """Whether the member exists and is not null."""
        return self._object.get(key) is not None

    def get(self, key: str, kind: type[T]) -> T:
        """The member, which must be of this type: str, bool, int, float (or an integer), list or dict."""
        value = self._object.get(key)
        if kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            found = _short(self._object[key]) if key in self._object else "no such key"
            raise DataError(f"{self._what}: {key}: expected {_EXPECTED[kind]}, found {found}")
        return value

    def fields(self, key: str) -> Fields:
        return Fields(self.get(key, dict), f"{self._what}: {key}")

    def rows(self, key: str) -> list[Fields]:
        """The objects of a list."""
        items = self._items(key)
        return [items.fields(name) for name in items._object]

    def read(self, kind: type[T], **given: Any) -> T:
        """A dataclass of the members with the names of its fields. `given` has its other fields."""
        hints = _hints(kind)  # type: ignore[arg-type]  # mypy: a type is not hashable
        return kind(**{name: given[name] if name in given else self.value(name, hint) for name, hint in hints.items()})

    def value(self, key: str, hint: Any) -> Any:
        """The member as a field of a dataclass with this type hint."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is types.UnionType:  # X | None
            return self.value(key, arguments[0]) if self.has(key) else None
        if origin is tuple:  # tuple[X, ...]
            items = self._items(key)
            return tuple(items.value(name, arguments[0]) for name in items._object)
        if origin is dict:  # dict[str, X]
            members = self.fields(key)
            return {name: members.value(name, arguments[1]) for name in members._object}
        if hint is pathlib.Path:
            return pathlib.Path(self.get(key, str))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.fields(key).read(hint)
        return self.get(key, hint)

    def _items(self, key: str) -> Fields:
        return Fields({f"{key}.{i}": item for i, item in enumerate(self.get(key, list))}, self._what)


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


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
