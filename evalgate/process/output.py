"""What a child says, kept within bounds: the tail of a stream, and a stream cut into lines."""

from __future__ import annotations

from collections.abc import Iterator


class LineTooLong(Exception):  # noqa: N818 - it names what happened
    """A line grew beyond the limit without an end."""


class Tail:
    """The last `limit` bytes of a stream, and how many there were in all."""

    __slots__ = ("_kept", "_limit", "total")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Append; what falls out in front is forgotten."""
        self.total += len(chunk)
        self._kept += chunk[-self._limit :]
        if len(self._kept) > 2 * self._limit:  # cut rarely, so that many small chunks stay cheap
            del self._kept[: -self._limit]

    def kept(self) -> bytes:
        """The last bytes, as they came."""
        return bytes(self._kept[-self._limit :])

    def text(self, *, limit: int | None = None) -> str:
        """The tail as text of at most `limit` bytes, whole lines where something was cut off in front."""
        kept = self.kept()
        cut = self.total > len(kept)
        if limit is not None and len(kept) > limit:
            kept, cut = kept[-limit:], True
        if cut and b"\n" in kept[:-1]:
            kept = kept[kept.index(b"\n") + 1 :]
        return kept.decode("utf-8", "replace")


class LineSplitter:
    """Cuts chunks into lines, never holding more than `limit` bytes of an unfinished one."""

    __slots__ = ("_limit", "_pending", "_scanned")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scanned = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        r"""The lines that `chunk` completes, without `\n`. Raises LineTooLong."""
        self._pending += chunk
        while (end := self._pending.find(b"\n", self._scanned)) >= 0:
            if end > self._limit:
                raise LineTooLong
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            self._scanned = 0
            yield line
        self._scanned = len(self._pending)
        if self._scanned > self._limit:
            self._pending.clear()
            self._scanned = 0
            raise LineTooLong

    def rest(self) -> bytes:
        """What came after the last line's end."""
        return bytes(self._pending)
