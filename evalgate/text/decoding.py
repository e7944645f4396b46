"""The text of a file as people save it."""

from __future__ import annotations

from evalgate import errors
from evalgate.errors import Place, Problem

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
        message = f"the file is not UTF-8: {found}{binary}"
        return errors.error("not-utf-8", message, Place(file=file, line=line), "save it as UTF-8")
