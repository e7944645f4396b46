"""A terminal at which somebody presses keys."""

from __future__ import annotations

import os
import pty
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from builders import forked_command

PLAIN = {"NO_COLOR": "1"}


def typed(
    arguments: Sequence[str],
    keys: str,
    *,
    after: bytes,
    cwd: Path,
    environment: Mapping[str, str] = PLAIN,
    meanwhile: Callable[[], None] = lambda: None,
    code: int = 0,
) -> str:
    """What the command shows to somebody who presses the next of `keys` whenever it has shown
    `after`; before the first of them, `meanwhile` happens."""
    ours, theirs = pty.openpty()
    whole = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    command = forked_command.born(arguments, theirs, theirs, theirs, cwd=cwd, env=whole)
    os.close(theirs)
    said, left = bytearray(), list(keys)
    try:
        while chunk := os.read(ours, 65_536):
            said += chunk
            if left and said.count(after) > len(keys) - len(left):
                if len(left) == len(keys):
                    meanwhile()
                # what is typed before it listens is lost
                while termios.tcgetattr(ours)[3] & termios.ICANON:
                    time.sleep(0.01)
                os.write(ours, left.pop(0).encode())
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    assert command.wait(30) == code, said.decode()
    return said.decode().replace("\r\n", "\n")
