"""Files are written whole or not at all; outputs cannot be forged; a failed place is a problem, not
a verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evalgate.results import output


def read_outputs(text: str) -> dict[str, str]:
    """As a runner reads them."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        name, arrow, delimiter = line.partition("<<")
        if arrow:
            value = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            found[name] = "\n".join(value)
    return found


def test_outputs_survive_hostile_values(tmp_path: Path) -> None:
    path = tmp_path / "out"
    outputs = {"reason": "a\nEOF\nverdict<<EOF\npass\nEOF\n", "verdict": "fail", "empty": ""}
    assert output.append(path, output.render_outputs(outputs)) is None
    assert read_outputs(path.read_text()) == outputs


def test_two_outputs_have_two_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "out"
    output.append(path, output.render_outputs({"a": "1", "b": "2"}))
    delimiters = re.findall(r"<<(\S+)", path.read_text())
    assert len(set(delimiters)) == 2


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    def pieces():
        yield "half"
        raise RuntimeError("killed")

    path = tmp_path / "deep" / "report.txt"
    with pytest.raises(RuntimeError):
        output.write_file(path, pieces())
    assert list(path.parent.iterdir()) == []


def test_lone_surrogates_are_written_readably(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    assert output.write_file(path, ["answer \ud83d"]) is None
    assert path.read_text() == "answer \\ud83d"
    assert path.stat().st_mode & 0o444 == 0o444


def test_a_place_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for problem in (
        output.write_file(tmp_path / "file" / "x.txt", ["x"]),
        output.append(tmp_path / "file" / "x", "x"),
    ):
        assert problem is not None
        assert problem.code == "not-written"


def test_the_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_text("before\n")
    output.append(path, "# evalgate")
    assert path.read_text() == "before\n# evalgate\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {".gitignore": "*\n"}),  # made by the run: no commit takes it along
        ({}, {}),  # somebody's own
        ({".gitignore": "!*\n"}, {".gitignore": "!*\n"}),
    ],
)
def test_a_folder_that_a_run_makes_ignores_itself(
    tmp_path: Path, before: dict[str, str] | None, after: dict[str, str]
) -> None:
    folder = tmp_path / "deep" / "report"
    if before is not None:
        folder.mkdir(parents=True)
    for name, text in (before or {}).items():
        (folder / name).write_text(text)
    output.write_all([("a", "a.txt", iter(["text"]))], folder)
    assert {each.name: each.read_text() for each in folder.iterdir()} == {**after, "a.txt": "text"}
