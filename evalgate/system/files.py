"""Files that are written completely or not at all, and the checkout of a folder."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A path to write to, with the usual permissions; what is there replaces `path` at the end of
    the block. Raises OSError."""
    draft = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def top_of(root: Path) -> Path:
    """The checkout of a folder: the nearest folder with a `.git`, else the folder itself."""
    start = root.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
