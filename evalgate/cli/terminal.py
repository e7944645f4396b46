"""Standard output and error that no command dies of: a closed pipe or a full disk behind them is no verdict."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO


def outlive() -> None:
    """Make this process outlive its own `sys.stdout` and `sys.stderr`: from the first write that fails, what would be
    written is dropped."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened, a journal, would be standard output
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _outlived(sys.stdout, 1), _outlived(sys.stderr, 2)


class _Outlived(io.FileIO):
    """A descriptor that takes everything. Whatever but a reader who has seen enough is told on standard error, once."""

    _is_lost = False

    def write(self, data: Any, /) -> int:
        if not self._is_lost:
            try:
                return super().write(data)
            except OSError as error:
                self._is_lost = True
                if error.errno != errno.EPIPE:
                    _complain(f"evalgate: output cannot be written: {error.strerror}\n")
        return memoryview(data).nbytes


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


def _outlived(stream: TextIO | None, number: int) -> TextIO:
    """The same stream, of its descriptor; one that was closed when Python started is written to nowhere."""
    raw = _Outlived(number if stream is None else stream.fileno(), "w", closefd=False)
    if not isinstance(stream, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
