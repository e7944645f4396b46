"""Which values of a file a change puts in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from evalgate.formats import rewrite
from evalgate.formats.json_source import Path


@contextmanager
def puts() -> Iterator[list[Path]]:
    """The paths of the values that are put into files meanwhile, in order."""
    paths: list[Path] = []
    put = rewrite.put

    def recorded(text: str, path: Path, value: Any) -> str | None:
        new_text = put(text, path, value)
        if new_text is not None:
            paths.append(path)
        return new_text

    with mock.patch.object(rewrite, "put", recorded):
        yield paths
