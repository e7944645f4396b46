"""What a terminal shows of a change that broke a case, at several widths, as it was last reviewed;
`make golden` rewrites it. An escape is written as `^[`."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import tempfile
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from builders import forked_command
from builders.gated_repository import Repository

HERE = Path(__file__).parent / "terminal"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Case 1 is broken by the change, case 2 was broken before."""
    folder = tmp_path_factory.mktemp("terminal")
    made = Repository(folder / "repo", folder / "asked.log")
    long = " ".join(f"word{number}" for number in range(200))
    made.gate_file()
    made.cases(0, 1, 2, threshold=1.0, answers={1: long, 2: "answer 2 in other words"})
    for side, answer in (("base", long), ("head", long.replace("word150", "something else"))):
        made.agent(side, wrong=(2,))
        agent = (made.root / "agent.py").read_text()
        usual = 'text.replace("question", "answer")'
        made.write(
            "agent.py",
            agent.replace(f"else {usual}", f"else {{1: {answer!r}}}.get(number, {usual})"),
        )
        made.commit(side)
        made.git("checkout", "-q", "-B", "change")
    return made


def shown(repo: Repository, columns: int, environment: Mapping[str, str]) -> str:
    """What `evalgate run` writes to a terminal that is so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    own = {
        "ASKED_LOG": str(repo.log),
        "XDG_CACHE_HOME": str(repo.log.parent / "cache"),
        "TERM": "xterm-256color",
    }
    said = bytearray()
    with tempfile.TemporaryFile() as progress:
        command = forked_command.born(
            ["run", "--base", "main", "--fresh"],
            theirs,
            theirs,
            progress.fileno(),
            cwd=repo.root,
            env={**kept, **own, **environment},
        )
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65_536):
                said += chunk
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        code = command.wait(60)
        progress.seek(0)
        assert code == 1, progress.read().decode()
    return said.decode().replace("\r\n", "\n")


def reviewable(text: str, repo: Repository) -> str:
    """Without what differs from run to run."""
    text = text.replace(str(repo.root), "/repo").replace("\x1b", "^[")
    text = re.sub(r"\btime [0-9.]+(\s)s\b", r"time 0.1\1s", text)
    return re.sub(r"\b(base )[0-9a-f]{7}\b", r"\g<1>0123456", text)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "columns", "environment"),
    [
        ("60", 60, {}),
        ("100", 100, {}),
        ("160", 160, {}),
        ("no-color", 100, {"NO_COLOR": "1"}),
        ("ci", 100, {"CI": "true"}),
    ],
)
def test_a_terminal_reads_as_reviewed(
    repo: Repository, name: str, columns: int, environment: dict[str, str], update_golden: bool
) -> None:
    text = reviewable(shown(repo, columns, environment), repo)
    file = HERE / f"{name}.txt"
    if update_golden:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), (
        f"{file.name} changed: review it, then `make golden`"
    )
    assert ("^[" in text) is (name != "no-color")
    bare = re.sub(r"\^\[\]8;;[^^]*\^\[\\|\^\[\[\d+m", "", text)
    assert max(map(len, bare.splitlines())) <= columns or columns < 80
