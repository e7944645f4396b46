"""What commits, settings and LFS pointers say: parsed, and never trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evalgate.baseline import base as baseline_base
from evalgate.system import git
from evalgate.system.git import Remote

A, B, C = (letter * 40 for letter in "abc")
COMMIT = f"""\
tree {C}
parent {A}
parent {B}
author Ada <ada@example.com> 1700000000 +0100
committer GitHub <noreply@github.com> 1700000001 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 parent {C}

Merge {B} into {A}

And more.
"""


def test_a_commit_object() -> None:
    assert baseline_base.parents_in(COMMIT.encode()) == (A, B)


@given(st.binary())
def test_no_bytes_upset_the_reading_of_a_commit(data: bytes) -> None:
    for each in (data, b"parent " + data + b"\n\n"):
        assert "\n" not in "".join(baseline_base.parents_in(each))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (A, True),
        ("f" * 64, True),
        ("0" * 40, False),
        ("a" * 39, False),
        ("A" * 40, False),
        (f"{A}\n", False),
        ("", False),
    ],
)
def test_whole_object_names(text: str, is_one: bool) -> None:
    assert git.is_full_sha(text) is is_one


HEADER = ("http.https://github.com/.extraheader", "Authorization: x")


@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        ([], Remote()),
        ([("remote.origin.url", "https://x/y")], Remote(name="origin", url="https://x/y")),
        (
            [("remote.up.url", "git@x:y"), ("remote.origin.url", "b")],
            Remote(name="origin", url="/top/b"),
        ),
        ([("remote.up.stream.url", "git@x:y")], Remote(name="up.stream", url="git@x:y")),
        ([("remote.a.url", "x"), ("remote.b.url", "y")], Remote()),  # nobody says which
        ([("remote.origin.url", "../o.git")], Remote(name="origin", url="/o.git")),
        ([("remote.origin.url", "/o"), HEADER], Remote(name="origin", url="/o", headers=(HEADER,))),
        (
            [
                ("remote.origin.url", "/o"),
                ("remote.origin.uploadpack", "/evil"),
                ("remote.origin.promisor", "true"),
                ("remote.origin.partialclonefilter", "blob:none"),
                ("core.sshcommand", "/evil"),
            ],
            Remote(
                name="origin",
                url="/o",
                partial=(
                    ("remote.origin.promisor", "true"),
                    ("remote.origin.partialclonefilter", "blob:none"),
                ),
            ),
        ),
    ],
)
def test_what_is_taken_over_of_a_remote(settings: list[tuple[str, str]], remote: Remote) -> None:
    assert git.parse_remote(settings, working_tree=Path("/top")) == remote


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("git@github.com:a/b.git", "https://github.com/a/b.git"),
        ("ssh://git@github.com/a/b", "https://github.com/a/b"),
        ("ssh://git@github.com:22/a/b", "https://github.com/a/b"),
        ("https://github.com/a/b", "https://github.com/a/b"),
        ("git@example.com:a/b", "git@example.com:a/b"),  # the token is not for them
        ("file:///github.com/a", "file:///github.com/a"),
        ("/github.com/a", "/github.com/a"),
    ],
)
def test_addresses_that_a_token_opens(url: str, expected: str) -> None:
    assert git.over_https(url, server="https://github.com") == expected


def test_paths_are_quoted_as_in_c() -> None:
    assert git.quoted_path(Path('/a b/"q"\\\n/é')) == b'"/a b/\\042q\\042\\134\\012/\\303\\251"\n'


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (POINTER, True),
        (POINTER.replace(b"oid", b"ext-0-foo sha256:1\noid"), True),
        (POINTER + b" " * 1024, False),
        (POINTER.replace(b"aaaa", b"../."), False),
        (b"version 1\n", False),
        (b"", False),
    ],
)
def test_lfs_pointers(tmp_path: Path, data: bytes, expected: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    assert baseline_base.is_pointer(file) is expected
    link = tmp_path / "link"
    link.symlink_to(file)
    assert not baseline_base.is_pointer(link)


@given(data=st.lists(st.binary(max_size=200)).map(b"\n".join))
def test_no_bytes_upset_the_reading_of_pointers(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "pointer"
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" + data)
    assert baseline_base.is_pointer(file) in (True, False)
