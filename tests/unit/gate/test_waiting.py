"""Changes that wait for a person: the files that they change, and what may have happened to these
meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalgate.errors import ConfigError, EvalgateError
from evalgate.gate import waiting
from evalgate.gate.waiting import WaitingChange

FILE = "evaluations/bye/bye.yaml"
LINES = [f"line {number}: a\n" for number in range(30)]


def text(**changed: str) -> str:
    """The file with other lines."""
    lines = [changed.get(f"line_{number}", line) for number, line in enumerate(LINES)]
    return "".join(lines)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text(text())
    return tmp_path


def change(new: str | None, name: str = "bye", file: str = FILE) -> WaitingChange:
    return WaitingChange(name=name, texts={file: (text(), new)}, reasons=("it is replaced",))


def test_a_change_is_kept_shown_and_made(root: Path) -> None:
    (root / FILE).chmod(0o640)
    waiting.keep(root, change(text(line_3="line 3: x\n")))
    newer = change(text(line_3="line 3: b\n"))
    waiting.keep(root, newer)
    waiting.keep(root, change(None, name="../../a name with/slashes"))
    assert waiting.changes(root)["bye"] == newer
    assert "-line 3: a\n+line 3: b\n" in newer.diff
    assert newer.diff.startswith(f"--- {FILE}\n+++ {FILE}\n")
    (found,) = waiting.select(root, ["bye"])
    waiting.accept(root, found)
    assert (root / FILE).read_text() == text(line_3="line 3: b\n")
    assert (root / FILE).stat().st_mode & 0o777 == 0o640
    assert list(waiting.changes(root)) == ["../../a name with/slashes"]
    with pytest.raises(ConfigError, match="no change 'bye' is waiting"):
        waiting.select(root, ["bye"])
    assert sorted(path.name for path in root.iterdir()) == [".evalgate", "evaluations"]


NEW = text(line_3="line 3: b\n", line_20="line 20: b\n")


@pytest.mark.parametrize(
    ("now", "after"),
    [
        (text(), NEW),
        # elsewhere in the file: both
        (text(line_11="line 11: z\n"), NEW.replace("line 11: a", "line 11: z")),
        ("more\n" + text(), "more\n" + NEW),
        # at one of the places, or beside it
        (text(line_20="line 20: z\n"), None),
        (text(line_5="line 5: z\n"), None),
        # there already; twice; gone
        (NEW, None),
        (text() + text(), None),
        ("", None),
    ],
)
def test_a_file_that_was_changed_meanwhile(root: Path, now: str, after: str | None) -> None:
    """What a person saw is what is made, or nothing is."""
    (root / FILE).write_text(now)
    if after is None:
        with pytest.raises(ConfigError, match="was changed since"):
            waiting.accept(root, change(NEW))
    else:
        waiting.accept(root, change(NEW))
    assert (root / FILE).read_text() == (now if after is None else after)


def test_a_file_of_one_line_without_its_end(root: Path) -> None:
    (root / FILE).write_text('{"a": 1}')
    of_line = WaitingChange(name="x", texts={FILE: ('{"a": 1}', '{"a": 2}')})
    assert of_line.diff.splitlines()[-4:] == [
        '-{"a": 1}',
        "\\ No newline at end of file",
        '+{"a": 2}',
        "\\ No newline at end of file",
    ]
    waiting.accept(root, of_line)
    assert (root / FILE).read_text() == '{"a": 2}'


def test_a_deletion(root: Path) -> None:
    assert change(None).diff.endswith("-line 29: a\n")
    (root / FILE).write_text(text(line_11="else\n"))
    with pytest.raises(ConfigError, match="was changed since"):
        waiting.accept(root, change(None))
    (root / FILE).write_text(text())
    waiting.accept(root, change(None))
    assert not (root / FILE).parent.exists()  # it was of this file alone
    with pytest.raises(EvalgateError):
        waiting.accept(root, change(None))


@pytest.mark.parametrize(
    "file",
    [
        "../outside.json",
        "/etc/hosts.json",
        ".git/hooks.json",
        # no evaluation file
        "agent.py",
        "evalgate.yml",
        ".github/workflows/gate.yml",
        "evaluations/.hidden/x.json",
        # a link
        "link.yaml",
    ],
)
def test_nothing_else_is_changed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, file: str
) -> None:
    """The kept file may have come with a pull request."""
    outside = tmp_path_factory.mktemp("outside") / "file.yaml"
    outside.write_text(text())
    for other in (
        "agent.py",
        "evalgate.yml",
        ".github/workflows/gate.yml",
        "evaluations/.hidden/x.json",
    ):
        (root / other).parent.mkdir(parents=True, exist_ok=True)
        (root / other).write_text(text())
    (root / "link.yaml").symlink_to(outside)
    (root / ".git").mkdir()
    (root / ".git/hooks.json").write_text(text())
    with pytest.raises(ConfigError):
        waiting.accept(root, change(text(line_3="line 3: b\n"), file=file))
    files = [path for path in root.rglob("*") if path.is_file()]
    assert {path.read_text() for path in (outside, *files)} == {text()}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", json.dumps({"name": "x", "texts": {"a": ["b"]}, "reasons": []}), "\ud800"],
)
def test_a_broken_file_is_named(root: Path, content: str) -> None:
    waiting.keep(root, change(None))
    (path,) = (root / waiting.FOLDER).glob("*.json")
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError, match=f"{path.name} is not a proposed change"):
        waiting.changes(root)
