"""How the end of a worker reads."""

import pytest

from evalgate.agents import worker_process
from evalgate.model import FailureKind
from evalgate.system.process import Ended


@pytest.mark.parametrize(
    ("returncode", "memory", "kind", "text"),
    [
        (3, None, FailureKind.EXITED, "the agent's process exited with code 3"),
        (0, None, FailureKind.EXITED, "the agent's process exited with code 0"),
        # memory was not the matter
        (3, 1024**3, FailureKind.EXITED, "the agent's process exited with code 3"),
        (-15, None, FailureKind.KILLED, "the agent's process was killed by signal 15 (SIGTERM)"),
        (
            -9,
            None,
            FailureKind.KILLED,
            "the agent's process was killed by signal 9 (SIGKILL) (out of memory?)",
        ),
        (
            -6,
            512 * 1024**2,
            FailureKind.KILLED,
            "the agent's process was killed by signal 6 (SIGABRT); its memory is capped at 512 MiB",
        ),
        (-99, None, FailureKind.KILLED, "the agent's process was killed by signal 99 (unknown)"),
        (
            137,
            None,
            FailureKind.EXITED,
            "the agent's process exited with code 137 (out of memory?)",
        ),
    ],
)
def test_an_end_in_words(returncode: int, memory: int | None, kind: FailureKind, text: str) -> None:
    failure = worker_process.failure_of_end(
        Ended(returncode=returncode), unfinished=b"", memory_bytes=memory
    )
    assert (failure.kind, failure.message) == (kind, text)


def test_half_a_line_is_shown() -> None:
    failure = worker_process.failure_of_end(
        Ended(returncode=0), unfinished=b'{"type":"ev', memory_bytes=None
    )
    assert failure.message.endswith('in the middle of a line: \'{"type":"ev\'')


def test_excerpts_are_short_and_printable() -> None:
    shown = worker_process.excerpt(b"\x1b[31m\xff" + b"x" * 10_000)
    assert len(shown) < 300
    assert shown.isprintable()
    assert shown.endswith(" ...'")
