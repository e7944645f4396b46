"""Standard output and error that a process outlives: a reader who leaves, a full disk, none from the start."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO


def keep(wrapper: type[io.TextIOWrapper] = io.TextIOWrapper) -> None:
    """From the first write that fails, what would be written is dropped. `wrapper`: makes text of bytes."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened, a journal, would be standard output
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _opened(sys.stdout, 1, wrapper), _opened(sys.stderr, 2, wrapper)


class _Output(io.FileIO):
    """A descriptor that takes everything. Whatever but a reader who has seen enough is told on standard error, once."""

    _is_lost = False

    def write(self, data: Any, /) -> int:
        if not self._is_lost:
            try:
                return super().write(data)
            except OSError as error:
                self._is_lost = True
                if error.errno != errno.EPIPE:
                    with contextlib.suppress(OSError):
                        os.write(2, f"evalgate: output cannot be written: {error.strerror}\n".encode())
        return memoryview(data).nbytes


def _opened(stream: TextIO | None, number: int, wrapper: type[io.TextIOWrapper]) -> TextIO:
    """The same stream, of its descriptor; one that was closed when Python started is written to nowhere."""
    raw = _Output(number if stream is None else stream.fileno(), "w", closefd=False)
    if not isinstance(stream, io.TextIOWrapper):
        return wrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return wrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
