"""One walk over a repository: what is seen and what is passed over."""

import contextlib
import os

import pytest

from evalgate.discovery import walk
from evalgate.errors import Severity


def seen(root, **rest):
    return walk.Tree(root, **rest).evaluation_files


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # names of evaluation files, in the order of their paths
        (
            [
                "b/x.evalset.json",
                "a.evalset.json",
                "my_evalset.json",
                "c.test.json",
                "d-dataset.json",
                "data.json",
            ],
            (
                "a.evalset.json",
                "b/x.evalset.json",
                "c.test.json",
                "d-dataset.json",
                "my_evalset.json",
            ),
        ),
        # results of earlier runs, hidden folders, caches, dependencies
        (
            [
                "app/.adk/eval_history/x.evalset_result.json",
                "app/.adk/x.evalset.json",
                ".cache/x.evalset.json",
                "node_modules/p/x.test.json",
                "__pycache__/x.test.json",
                ".github/evals/x.evalset.json",
            ],
            (".github/evals/x.evalset.json",),
        ),
        # Python environments, whatever they are called
        (["env/pyvenv.cfg", "env/lib/x.test.json", "conda/conda-meta/y", "conda/x.test.json"], ()),
        # a folder called as an environment often is, that is none
        (["venv/x.evalset.json"], ("venv/x.evalset.json",)),
        # .gitignore at two levels, and a file that is taken back in
        (
            [
                (".gitignore", "*.test.json\n!keep.test.json\n/build/\n"),
                "a.test.json",
                "keep.test.json",
                "build/x.evalset.json",
                "src/build/x.evalset.json",
                ("src/.gitignore", "local*\n"),
                "src/local.evalset.json",
                "local.evalset.json",
            ],
            ("keep.test.json", "local.evalset.json", "src/build/x.evalset.json"),
        ),
        # info/exclude
        (
            [
                (".git/HEAD", ""),
                (".git/info/exclude", "private/\n"),
                "private/x.evalset.json",
                "x.evalset.json",
            ],
            ("x.evalset.json",),
        ),
        # a submodule is a folder like any other
        (["sub/.git", "sub/x.evalset.json"], ("sub/x.evalset.json",)),
        # names with blanks, quotes, other scripts
        (["my evals/días 'x'.evalset.json"], ("my evals/días 'x'.evalset.json",)),
    ],
)
def test_what_is_seen(repo, files, expected):
    root = repo(
        {
            (each if isinstance(each, str) else each[0]): (
                each[1] if isinstance(each, tuple) else ""
            )
            for each in files
        }
    )
    assert seen(root) == expected


def test_excluded_by_the_gate_file(repo):
    root = repo({"evals/a.evalset.json": "", "evals/old/b.evalset.json": ""})
    assert seen(root, exclude=["evals/old/"]) == ("evals/a.evalset.json",)


def test_a_folder_that_the_user_names_is_walked_though_it_is_passed_over_otherwise(repo):
    root = repo(
        {".gitignore": "out/\n", "out/deep/a.evalset.json": "", ".hidden/b.evalset.json": ""}
    )
    assert seen(root) == ()
    assert seen(root, extra_folders=["out", ".hidden"]) == (
        ".hidden/b.evalset.json",
        "out/deep/a.evalset.json",
    )


def test_what_else_is_noted(repo):
    root = repo(
        {
            "app/agent.py": "",
            "app/__init__.py": "",
            "agent.py": "",
            "evals/test_config.json": "",
            "evals/other.json": "",
            ".gitignore": "x.evalset.json\n",
            "x.evalset.json": "",
        }
    )
    walked = walk.Tree(root)
    assert walked.agent_files == {".": {"agent.py"}, "app": {"agent.py", "__init__.py"}}
    assert walked.config_files == {"evals/test_config.json"}
    assert walked.ignored == ("x.evalset.json",)
    assert walked.other_json == ["evals/other.json"]


def test_what_git_ignores_is_noted_within_bounds(repo, monkeypatch, tmp_path):
    files = {f"data/{folder}/{number}.evalset.json": "" for folder in "abc" for number in range(4)}
    ignored = ("caf\udce9.evalset.json", "link.evalset.json")  # a name that cannot be told, a link
    root = repo(
        {".gitignore": "/data/\nlink*\ncaf*\ntest_config.json\n", "test_config.json": "", **files}
    )
    (root / ignored[1]).symlink_to(tmp_path / "nowhere")
    with contextlib.suppress(OSError):  # of a file system that takes no such name
        (root / ignored[0]).write_text("")
    walked = walk.Tree(root)
    assert walked.ignored == tuple(sorted(files))
    assert walk.Tree(root, extra_folders=["data/a"]).ignored == tuple(
        sorted(each for each in files if "/a/" not in each)
    )
    monkeypatch.setattr(walk, "MOST_IGNORED_ENTRIES", 6)
    assert 0 < len(walk.Tree(root).ignored) < len(files)


def test_a_large_ignored_folder_hides_no_file_of_another(repo, monkeypatch):
    files = {f"wandb/{folder}/{number}.txt": "" for folder in "abc" for number in range(4)}
    root = repo({".gitignore": "evals/\nwandb/\n", "evals/x.evalset.json": "", **files})
    monkeypatch.setattr(walk, "MOST_IGNORED_ENTRIES", 8)
    assert walk.Tree(root).ignored == ("evals/x.evalset.json",)


def test_symbolic_links(repo, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.evalset.json").write_text("{}")
    root = repo({"real/a.evalset.json": "{}"})
    (root / "loop").symlink_to(root)
    (root / "real" / "up").symlink_to("..")
    (root / "away").symlink_to(outside)
    (root / "inside.evalset.json").symlink_to("real/a.evalset.json")
    (root / "stolen.evalset.json").symlink_to(outside / "secret.evalset.json")
    (root / "broken.evalset.json").symlink_to("nowhere")
    (root / "round.evalset.json").symlink_to("round.evalset.json")
    walked = walk.Tree(root)
    assert walked.evaluation_files == ("inside.evalset.json", "real/a.evalset.json")
    assert {(problem.place.file, problem.code) for problem in walked.problems} == {
        ("stolen.evalset.json", "outside-root"),
        ("broken.evalset.json", "unreadable-file"),
        ("round.evalset.json", "unreadable-file"),
    }


def test_a_link_of_a_common_name_is_only_warned_of(repo, tmp_path):
    root = repo({})
    (root / "train-dataset.json").symlink_to(tmp_path / "huge.json")
    (problem,) = walk.Tree(root).problems
    assert problem.severity is Severity.WARNING


def test_what_only_looks_like_a_file_is_no_file(repo):
    root = repo({"folder.evalset.json/x.txt": ""})
    os.mkfifo(root / "pipe.evalset.json")
    assert seen(root) == ()


@pytest.mark.skipif(
    os.name != "posix", reason="needs the system: names of others are always Unicode"
)
def test_a_name_that_is_not_utf8_is_told_and_does_not_stop_the_walk(repo):
    root = repo({"a.evalset.json": ""})
    try:
        (root / os.fsdecode(b"\xff.evalset.json")).touch()
    except OSError:
        pytest.skip("needs the system: this file system takes UTF-8 names only")
    walked = walk.Tree(root)
    assert walked.evaluation_files == ("a.evalset.json",)
    (problem,) = walked.problems
    assert problem.code == "unusable-name"
    str(problem).encode("utf-8")


def test_a_deep_tree_does_not_overflow(repo):
    root = repo({"/".join(["d"] * 300) + "/a.evalset.json": ""})
    assert len(seen(root)) == 1
