"""The text of a file as people save it."""

from __future__ import annotations

from evalgate.errors import Place, Problem, Severity

BYTE_ORDER_MARK = "\ufeff"


def decode(data: bytes, *, file: str) -> str | Problem:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark. The mark stays, so that parsers can tell of it."""
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return BYTE_ORDER_MARK + data.decode("utf-16")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} at offset {error.start:,}"
        binary = "; it looks like a binary file" if b"\0" in data[:4096] else ""
        return Problem(
            severity=Severity.ERROR,
            code="not-utf-8",
            message=f"the file is not UTF-8: {found}{binary}",
            place=Place(file=file, line=line),
            hint="save it as UTF-8",
        )
