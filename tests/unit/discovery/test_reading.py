"""Files as bytes: bounded, regular, from within the repository."""

import os

import pytest

from evalgate.discovery import walk
from evalgate.errors import Problem


def test_a_file_within_the_root(repo):
    assert walk.read_bytes(repo({"a/b.json": "x"}), "a/b.json") == b"x"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("nowhere.json", "unreadable-file"),
        ("a", "unreadable-file"),  # a folder
        ("pipe", "unreadable-file"),  # reading it would never end
        ("large.json", "file-too-large"),
        ("../outside.json", "outside-root"),
        ("link.json", "outside-root"),
    ],
)
def test_what_is_not_read(repo, tmp_path, path, code):
    root = repo({"a/b.json": "x", "large.json": "x" * 100})
    (tmp_path / "outside.json").write_text("secret")
    (root / "link.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(root / "pipe")
    problem = walk.read_bytes(root, path, largest=50)
    assert isinstance(problem, Problem)
    assert problem.code == code
    assert walk.Tree(root).read_source(path) == "" or path == "large.json"


def test_a_file_that_the_user_names_may_lie_anywhere(tmp_path):
    (tmp_path / "x.json").write_text("x")
    assert walk.read_user_file(tmp_path / "x.json", label="x.json") == b"x"
    problem = walk.read_user_file(tmp_path / "y.json", label="y.json")
    assert isinstance(problem, Problem)
    assert problem.place.file == "y.json"
