"""What git ignores."""

import pytest

from evalgate.config import places
from evalgate.discovery import walk
from evalgate.discovery.walk import IgnoreRules


def rules(**layers):
    made: IgnoreRules = ()
    for prefix, text in layers.items():
        spec = places.compiled(tuple(text.splitlines()))
        made = (*made, ("" if prefix == "root" else f"{prefix}/", spec))
    return made


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.json", False),
        ("secret/", True),
        ("deep/secret/", True),
        ("build/", True),
        ("deep/build/", False),  # anchored at the root
        ("data.local.json", True),
        ("keep.local.json", False),  # taken back in
        ("sub/x.json", True),  # by the folder's own file
        ("sub/data.local.json", False),  # the nearer rule wins
        ("other/x.json", False),
    ],
)
def test_the_nearest_rule_that_speaks_wins(path, expected):
    made = rules(
        root="secret/\n/build\n*.local.json\n!keep.local.json\n# a comment\n",
        sub="/x.json\n!*.local.json",
    )
    assert walk.is_ignored(path, made) is expected


def test_without_rules_nothing_is_ignored():
    assert not walk.is_ignored("a.json", ())


def test_a_line_that_is_no_pattern_is_skipped_and_the_others_count():
    spec = places.compiled(("*.tmp", "odd\\", "build/", "[z-a]"))
    assert spec.match_file("a.tmp")
    assert spec.match_file("build/")


def test_info_exclude_of_a_checkout_and_of_a_linked_worktree(tmp_path):
    main = tmp_path / "main"
    (main / ".git" / "info").mkdir(parents=True)
    (main / ".git" / "info" / "exclude").write_text("private/\n")
    (main / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    own = main / ".git" / "worktrees" / "base"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "HEAD").write_text("ref: refs/heads/base\n")
    linked = tmp_path / "base"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {own}\n")
    assert walk.read_checkout_rules(main) == walk.read_checkout_rules(linked) == "private/\n"
    assert walk.read_checkout_rules(tmp_path) == ""
