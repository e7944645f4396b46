"""Regular expressions of users: searched in a child process, which a search without an end ends.

One child serves all threads of a process. It starts with the first pattern."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

LONGEST_SEARCH_S = 2.0
"""The processor time of a search, compilation included."""
MEMORY_BYTES = 1 << 30
"""Of the child's data, on systems that limit it."""
LOADING = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables by which the system finds an interpreter's libraries."""

_CODE = """
import json, re, signal, sys, warnings
warnings.simplefilter("ignore")
try:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
except (ImportError, OSError, ValueError):
    pass
signal.signal(signal.SIGPROF, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
for line in sys.stdin.buffer:
    pattern, texts, flags, limit_s = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        search = re.compile(pattern, flags).search
        answer = [search(text) is not None for text in texts]
    except (re.error, OverflowError, RecursionError) as error:
        answer = str(error)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(answer), flush=True)
"""
"""The child's program, which answers a line of JSON with a line. The system's timer ends it
whatever its interpreter does, and whether or not we live."""


class SearchFailed(Exception):  # noqa: N818 - named after the event
    """A search ended without an answer."""


_LOCK = threading.Lock()
"""Held from a question to its answer."""
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""By process: a fork does not share its parent's child."""


def search(pattern: str, texts: Sequence[str], *, flags: int = 0) -> list[bool]:
    """For each text, True if `re.search` finds the pattern in it. Raises ValueError if it is not a
    regular expression, and SearchFailed."""
    request = json.dumps([pattern, texts, int(flags), LONGEST_SEARCH_S]).encode() + b"\n"
    with _LOCK:
        answer = _ask(request)
    if not answer.endswith(b"\n"):
        limit = f"{LONGEST_SEARCH_S:g} s or {MEMORY_BYTES >> 20:,} MB"
        raise SearchFailed(
            f"the search for the pattern {pattern[:200]!r} in {sum(map(len, texts)):,} characters"
            f" needed more than {limit}: write it without nested or long repetitions"
        )
    results = json.loads(answer)
    if isinstance(results, list):
        return results
    raise ValueError(results)


def _ask(request: bytes) -> bytes:
    """The child's answer; without a line break if the child ended."""
    child = _CHILDREN.get(os.getpid())
    if child is None:
        child = _CHILDREN[os.getpid()] = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE, str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in LOADING if name in os.environ},
            start_new_session=True,
        )
    answer = b""
    try:
        if child.stdin is not None and child.stdout is not None:
            with suppress(BrokenPipeError):
                child.stdin.write(request)
                child.stdin.flush()
            answer = child.stdout.readline()
        return answer
    finally:
        if not answer.endswith(b"\n"):  # it ended, or we were interrupted
            _end()


@atexit.register
def _end() -> None:
    """End the child of this process, if there is one."""
    child = _CHILDREN.pop(os.getpid(), None)
    if child is not None:
        child.kill()
        with suppress(BrokenPipeError), child:  # closes its pipes
            pass
