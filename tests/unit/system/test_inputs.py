"""The answers of a checkout, as it lay on disk at one moment."""

from __future__ import annotations

import os
import py_compile
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evalgate.system import inputs
from evalgate.system.inputs import Snapshot
from evalgate.worker import inputs as worker_inputs

NAME = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)
BYTES_NAME = (
    st.binary(min_size=1, max_size=8).filter(lambda name: not {0, 47} & {*name}).map(os.fsdecode)
)
PARTS = st.lists(
    (NAME | BYTES_NAME).filter(lambda name: name not in (".", "..")), min_size=1, max_size=4
)


@given(st.sampled_from(["file", "name", "folder", "entries", "module", "packages", "pyc"]), PARTS)
def test_a_question_is_one_line_and_can_be_read_back(kind: str, parts: list[str]) -> None:
    path = "/".join(parts)
    asked = inputs.question(kind, path)
    assert inputs.parse(asked) == (kind, path)
    assert asked.isprintable()
    assert asked == f"{kind} {worker_inputs.spelling(path)}"


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "file",
        "file ",
        "why a.txt",  # no kind
        "file /etc/passwd",  # not relative
        "file ../a.txt",
        "file a/../b.txt",
        "file a//b.txt",
        "names a",
        "file a%2F..%2Fb.txt",
    ],
)
def test_a_question_that_is_none_equals_no_other(tmp_path: Path, asked: str) -> None:
    tree = Snapshot(tmp_path)
    answers = tree.answers([asked])
    assert tree.first_difference(answers) == asked


# --- random trees, one random edit ---

WORDS = ("a", "b", "c.py", "c.txt", "c", ".env", "README.md")
PLACE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("/".join)


def plant(top: Path, files: dict[str, str]) -> None:
    for place, text in files.items():
        path = top / place
        if (
            all(not parent.is_file() for parent in path.parents if parent != top)
            and not path.is_dir()
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def files_of(top: Path) -> dict[str, str]:
    return {
        path.relative_to(top).as_posix(): path.read_text()
        for path in top.rglob("*")
        if path.is_file()
    }


def folders_of(top: Path) -> set[str]:
    return {".", *(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_dir())}


def expected(top: Path, kind: str, path: str) -> object:
    """What the file system itself says."""
    place = top / path
    if kind == "file":
        return place.read_text() if place.is_file() else place.is_dir()
    if kind == "name":
        return place.is_file(), place.is_dir()
    if kind == "folder":
        return (
            sorted((p.name, p.is_dir()) for p in place.iterdir())
            if place.is_dir()
            else place.exists()
        )
    if kind == "module":
        near = list(place.parent.iterdir()) if place.parent.is_dir() else []
        fitting = [p for p in near if p.name in (place.name, f"{place.name}.py")]
        return sorted((p.name, p.is_dir()) for p in fitting)
    names = folders_of(top) | files_of(top).keys()
    return sorted((name, (top / name).is_dir()) for name in names), files_of(
        top
    ) if kind == "everything" else None


@given(
    st.dictionaries(PLACE, st.sampled_from(["1", "2"]), max_size=8),
    st.dictionaries(PLACE, st.sampled_from(["1", "3"]), max_size=2),
    st.sets(PLACE, max_size=2),
)
def test_an_answer_changes_where_what_is_asked_changes(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, str],
    added: dict[str, str],
    removed: set[str],
) -> None:
    old, new = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")
    plant(old, before)
    plant(new, {place: text for place, text in files_of(old).items() if place not in removed})
    plant(new, added)
    one, other = Snapshot(old), Snapshot(new)
    places = {*before, *added, *removed, "nowhere"}
    kinds = ("file", "name", "folder", "module")
    questions = {(kind, place) for place in places for kind in kinds} | {
        ("folder", "."),
        ("file", "."),
    }
    questions |= {("module", place.removesuffix(".py")) for place in places}
    for kind, place in sorted(questions):
        same = expected(old, kind, place) == expected(new, kind, place)
        asked = inputs.question(kind, place)
        assert (one.answer(asked) == other.answer(asked)) is same, asked
    for asked in ("names", "everything"):
        same = expected(old, asked, ".") == expected(new, asked, ".")
        assert (other.first_difference(one.answers([asked])) is None) is same


# --- the moment ---


def test_what_changes_later_has_no_answer_and_what_appears_later_is_absent(tmp_path: Path) -> None:
    for name in ("same", "rewritten", "removed"):
        (tmp_path / name).write_text("1")
    tree = Snapshot(tmp_path)
    (tmp_path / "rewritten").write_text("1")
    (tmp_path / "removed").unlink()
    (tmp_path / "later").write_text("1")
    questions = [
        "file same",
        "file later",
        "name later",
        "name removed",
        "folder .",
        "module later",
        "names",
    ]
    assert tree.first_difference(tree.answers(questions)) is None
    assert tree.answer("file later") == tree.answer("name later") == "absent"
    for asked in ("file rewritten", "file removed", "everything", "entries ."):
        assert tree.first_difference(tree.answers([asked])) == asked


def test_a_file_that_was_written_just_before_is_known(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / "a").write_text(str(number))
        tree = Snapshot(tmp_path)
        assert tree.answer("file a") == tree.answer("file a")


# --- what is left out ---


@pytest.fixture
def furnished(tmp_path: Path) -> Path:
    """A checkout with a repository, an environment, a report, bytecode and links."""
    files = {
        ".git/HEAD": "ref: a",
        ".venv/pyvenv.cfg": "",
        ".venv/lib/tool.py": "",
        "report/results.json": "{}",
        "code/agent.py": "A = 1",
        "code/__pycache__/notes.txt": "",
        "module/.git": "gitdir: ../x",
    }
    plant(tmp_path, files)
    (tmp_path / "link").symlink_to("code/agent.py")
    (tmp_path / "up").symlink_to("code/../code")
    (tmp_path / "around").symlink_to("around")
    (tmp_path / "full").symlink_to(tmp_path / "code")
    (tmp_path / "out").symlink_to("/dev/null")
    (tmp_path / "gone").symlink_to("/nowhere/at/all")
    return tmp_path


@pytest.mark.parametrize(
    "place",
    [
        ".git/index",
        ".venv/lib/more.py",
        "report/more.json",
        "code/__pycache__/agent.cpython-311.pyc",
        "module/.git",
    ],
)
def test_what_is_no_part_of_the_checkout_changes_no_names(furnished: Path, place: str) -> None:
    questions = [
        "names",
        "everything",
        "folder .",
        "folder code",
        "name .venv",
        "name .git",
        "module agent",
    ]
    before = Snapshot(furnished, apart=["report"]).answers(questions)
    plant(furnished, {place: "0" * 20})
    after = Snapshot(furnished, apart=[str(furnished / "report")])
    assert after.first_difference(before) is None
    assert after.environments == [".venv"]


@pytest.mark.parametrize(
    "asked", ["file .git/HEAD", "file .venv/lib/tool.py", "folder report", "file module/.git"]
)
def test_what_is_left_out_has_no_answer(furnished: Path, asked: str) -> None:
    tree = Snapshot(furnished, apart=["report"])
    assert tree.first_difference(tree.answers([asked])) == asked


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("file link", "file code/agent.py"),
        ("file up/agent.py", "file code/agent.py"),
        ("file full/agent.py", "file code/agent.py"),
        ("folder full", "folder code"),
        ("module up/agent", "module code/agent"),
        ("file around", "file nowhere"),
        ("file gone", "file nowhere"),
        ("file code/agent.py/more", "file nowhere"),
    ],
)
def test_links_are_followed(furnished: Path, asked: str, same: str) -> None:
    tree = Snapshot(furnished)
    assert tree.answer(asked) == tree.answer(same)


def test_a_link_that_leads_elsewhere_is_another_name(furnished: Path) -> None:
    before = Snapshot(furnished).answers(["name link", "name out", "name gone"])
    assert Snapshot(furnished).first_difference(before) is None
    (furnished / "link").unlink()
    (furnished / "link").symlink_to("full/agent.py")
    assert Snapshot(furnished).first_difference(before) == "name link"


def test_content_out_of_the_checkout_counts_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared.txt").write_text("1")
    (tmp_path / "top").mkdir()
    (tmp_path / "top/link").symlink_to("../shared.txt")
    before = Snapshot(tmp_path / "top").answers(["file link"])
    assert Snapshot(tmp_path / "top").first_difference(before) is None
    (tmp_path / "shared.txt").write_text("2")
    assert Snapshot(tmp_path / "top").first_difference(before) == "file link"


@pytest.mark.parametrize(
    ("mode", "is_source"),
    [
        (py_compile.PycInvalidationMode.TIMESTAMP, True),
        (py_compile.PycInvalidationMode.CHECKED_HASH, False),
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, False),
    ],
)
def test_bytecode_counts_where_it_may_run_in_place_of_its_source(
    tmp_path: Path, mode: py_compile.PycInvalidationMode, is_source: bool
) -> None:
    source = tmp_path / "a.py"
    source.write_text("A = 1")
    asked = "pyc __pycache__/a.pyc"
    before = Snapshot(tmp_path).answers([asked, "names", "everything"])
    py_compile.compile(
        str(source), cfile=str(tmp_path / "__pycache__/a.pyc"), invalidation_mode=mode
    )
    after = Snapshot(tmp_path)
    assert (after.first_difference(before) is None) is is_source
    assert (after.answer(asked) == "source") is is_source


def test_the_executable_bit_is_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    before = Snapshot(tmp_path).answers(["file run"])
    (tmp_path / "run").chmod(0o755)
    assert Snapshot(tmp_path).first_difference(before) == "file run"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Snapshot(tmp_path).answer("file pipe") == "other"


def test_many_names_take_little_time(tmp_path: Path) -> None:
    for folder in range(100):
        (tmp_path / str(folder)).mkdir()
        for name in range(50):
            (tmp_path / str(folder) / str(name)).touch()
    began = time.process_time()
    tree = Snapshot(tmp_path)
    tree.answers([f"module {folder}/{stem}" for folder in range(100) for stem in range(50)])
    assert time.process_time() - began < 2.0


GLOBS = inputs.question("glob", "src/**\n*.md\n!README.md")


@pytest.mark.parametrize(
    ("place", "is_same"),
    [
        ("src/a/agent.py", False),
        ("src/new.py", False),
        ("docs/guide.md", False),
        ("README.md", True),  # which a later line takes out again
        ("data/rows.csv", True),
    ],
)
def test_globs_ask_for_the_files_that_match(tmp_path: Path, place: str, *, is_same: bool) -> None:
    plant(
        tmp_path,
        dict.fromkeys(("src/a/agent.py", "docs/guide.md", "README.md", "data/rows.csv"), "text"),
    )
    answers = Snapshot(tmp_path).answers([GLOBS])
    plant(tmp_path, {place: "other"})
    assert (Snapshot(tmp_path).first_difference(answers) is None) is is_same


def test_an_evaluation_file_that_comes_is_no_name_and_is_among_everything(tmp_path: Path) -> None:
    plant(tmp_path, {"agent.py": "text"})
    answers = Snapshot(tmp_path).answers(["names", "everything"])
    plant(tmp_path, {"a.evalset.json": "{}"})
    tree = Snapshot(tmp_path, is_excluded=lambda path: path.endswith(".evalset.json"))
    assert [tree.answer(asked) == answers[asked] for asked in ("names", "everything")] == [
        True,
        False,
    ]


def test_no_commit_hides_a_folder_behind_an_environment(tmp_path: Path) -> None:
    plant(tmp_path, {"prompts/pyvenv.cfg": "", "prompts/system.md": "Be brief."})
    committed = Snapshot(tmp_path, is_committed=lambda _: True)
    assert committed.environments == []
    answers = committed.answers(["names", "everything", "file prompts/system.md"])
    plant(tmp_path, {"prompts/system.md": "Be verbose."})
    after = Snapshot(tmp_path, is_committed=lambda _: True)
    assert [after.answer(asked) == answers[asked] for asked in answers] == [True, False, False]


def test_what_a_tool_left_behind_is_no_difference_between_two_checkouts(tmp_path: Path) -> None:
    plant(tmp_path / "one", {"sub/evalgate-report/.gitignore": "*\n", "sub/evalgate-report/a": ""})
    plant(tmp_path / "one", {"sub/.gitignore": "*.log\n", "sub/b.log": "1"})
    (tmp_path / "two").mkdir()
    one, two = Snapshot(tmp_path / "one"), Snapshot(tmp_path / "two")
    assert list(one.differing(two)) == ["sub/.gitignore", "sub/b.log"]
    # it may hold what the agent reads
    assert one.answer("file sub/evalgate-report/a") != one.answer("file sub/evalgate-report/a")


def test_what_differs_between_two_checkouts(tmp_path: Path) -> None:
    plant(tmp_path / "one", {"a.py": "1", "b/c.md": "2", "d": "3"})
    plant(tmp_path / "two", {"a.py": "1", "b/c.md": "other", "e": "4"})
    assert list(Snapshot(tmp_path / "one").differing(Snapshot(tmp_path / "two"))) == [
        "b/c.md",
        "d",
        "e",
    ]
