"""The extension modules that use the libraries of an installation of dp_bench."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
from typing import Any

from dp_bench.errors import ProgramError


def installed_libraries(what: str) -> pathlib.Path:
    """The folder of the libraries that the package was built with. `what` needs them.

    Raises:
        ProgramError: The package was built without an installation.
    """
    if importlib.util.find_spec("dp_bench._installation") is None:
        raise ProgramError(
            f"{what} needs a package that was built with an installation of dp_bench, and this one was not. Install "
            "dp_bench (docs/installing.md), then run: pip install ./python "
            "--config-settings cmake.define.dp_bench_DIR=PREFIX/lib/cmake/dp_bench"
        )
    return pathlib.Path(importlib.import_module("dp_bench._installation").LIBRARIES)


def load_module(name: str, libraries: pathlib.Path) -> Any:
    """The extension module of this name.

    Raises:
        ProgramError: The installation has moved.
    """
    try:
        return importlib.import_module(f"dp_bench.{name}")
    except ImportError as error:
        raise ProgramError(
            f"expected the libraries of dp_bench in {libraries}, with which this package was built, found: {error}. "
            "Install dp_bench there again, or build the package with another installation."
        ) from error
