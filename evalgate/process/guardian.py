"""Ends the process groups of our children when we are killed ourselves and cannot do it.

A shell of a few hundred kilobytes waits at the end of a pipe that only we hold. While children live it is told of
each group; when the pipe closes without a farewell, it kills what is left. (PR_SET_PDEATHSIG is no help: it fires
when the *thread* that started the child ends, and it reaches neither grandchildren nor other systems.)
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading

SHELL = "/bin/sh"
SCRIPT = """
trap '' INT TERM HUP
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class _Guardian:
    """At most one guarding shell, alive while there is a group to guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        """Have `group` killed if we die. Without a shell (a distroless image) nobody guards."""
        with self._lock:
            self._groups.add(group)
            if self._shell is None:
                self._shell = _shell()
                told = self._groups
            else:
                told = {group}
            self._tell("".join(f"+ {each}\n" for each in told))

    def release(self, group: int) -> None:
        """The group is gone: its number may soon belong to others."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"- {group}\n")
            if not self._groups:
                self._dismiss()

    def _tell(self, lines: str) -> None:
        if self._shell is None or self._shell.stdin is None:
            return
        try:
            self._shell.stdin.write(lines.encode())
            self._shell.stdin.flush()
        except OSError:  # somebody ended the shell; the next group gets a new one, told of all
            self._dismiss()

    def _dismiss(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            with contextlib.suppress(OSError):
                shell.communicate()


def _shell() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            (SHELL, "-c", SCRIPT),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None


_GUARDIAN = _Guardian()


def guard(group: int) -> None:
    """Have the process group killed should this process end without its own farewell."""
    _GUARDIAN.guard(group)


def release(group: int) -> None:
    """Forget the process group; call it before its leader is reaped."""
    _GUARDIAN.release(group)
