"""Zips that strangers made."""

from __future__ import annotations

import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given, strategies as st

from evalgate.github import artifacts
from evalgate.github.client import GitHubFailed, GitHubFault

NAMES = ["results.json", "comment.md"]
MOST = 15_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_ENTRIES", 20)
    monkeypatch.setattr(artifacts, "MOST_FILE_BYTES", 10_000)
    monkeypatch.setattr(artifacts, "MOST_BYTES", MOST)


def zipped(
    *entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return held.getvalue()


def info(name: str, *, mode: int = 0) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name)
    found.external_attr = mode << 16
    return found


def extract(content: bytes) -> dict[str, bytes]:
    return artifacts.extract(content, names=NAMES)


def test_only_the_expected_names_are_read() -> None:
    content = zipped(
        ("results.json", b"{}"),
        ("../results.json", b"slip"),
        ("../../etc/passwd", b"slip"),
        ("/results.json", b"slip"),
        ("folder/results.json", b"deep"),
        ("C:\\results.json", b"slip"),
        ("RESULTS.JSON", b"case"),
        ("other.txt", b"x" * 100_000),  # too large, but nobody asked for it
    )
    assert extract(content) == {"results.json": b"{}"}


def test_an_archive_without_them_gives_nothing() -> None:
    assert extract(zipped()) == {}
    assert extract(zipped(("x", b""))) == {}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            lambda: zipped((info("results.json", mode=stat.S_IFLNK | 0o777), b"/etc/passwd")),
            "not a regular file",
        ),
        (lambda: zipped((info("results.json", mode=stat.S_IFIFO), b"")), "not a regular file"),
        (lambda: zipped(("results.json", b"1"), ("results.json", b"2")), "twice"),
        (
            lambda: zipped(("results.json", b"x" * 500), method=zipfile.ZIP_LZMA),
            "unsupported compression",
        ),
        (lambda: zipped(("results.json", b"x" * 500))[:-30], "truncated"),
        (lambda: zipped(("results.json", bytes(range(256)) * 30))[200:], "cannot be read"),
        (lambda: b"", "not a zip"),
        (lambda: b"<html>", "not a zip"),
        (
            lambda: zipped(("results.json", b"x")).replace(
                b"\x00\x00\x08\x00", b"\x01\x00\x08\x00"
            ),
            "encrypted",
        ),
    ],
)
def test_what_is_no_honest_archive_is_not_used(tmp_path, content, told) -> None:
    with pytest.raises(GitHubFailed) as caught:
        extract(content())
    assert caught.value.kind is GitHubFault.MALFORMED
    assert told in caught.value.message


def lying(size: int) -> bytes:
    """An entry that says it has ten bytes, in both headers."""
    content = zipped(("results.json", b"\0" * size))
    return content.replace(struct.pack("<I", size), struct.pack("<I", 10))


@pytest.mark.parametrize(
    "content",
    [
        lambda: zipped(("results.json", b"\0" * 10_001)),  # one file
        lambda: zipped(("results.json", b"\0" * 9_000), ("comment.md", b"\0" * 9_000)),  # together
        lambda: zipped(*((f"file{at}", b"") for at in range(21))),  # too many
        lambda: zipped(*((f"file{at}" + "x" * 60_000, b"") for at in range(2))),  # a huge directory
    ],
)
def test_what_is_too_large_is_not_used(content) -> None:
    with pytest.raises(GitHubFailed) as caught:
        extract(content())
    assert caught.value.kind is GitHubFault.TOO_LARGE


def test_a_size_that_lies_does_not_help_a_bomb() -> None:
    try:
        found = extract(lying(5_000_000))
    except GitHubFailed:
        return
    assert sum(len(each) for each in found.values()) <= MOST


@given(st.binary(max_size=300), st.integers(0, 400))
def test_damage_is_a_failure_of_ours_or_harmless(noise, at) -> None:
    whole = zipped(("results.json", b'{"a": 1}'), ("comment.md", b"hello"))
    try:
        extract(whole[:at] + noise + whole[at + len(noise) :])
    except GitHubFailed as failed:
        assert failed.kind in (GitHubFault.MALFORMED, GitHubFault.TOO_LARGE)  # noqa: PT017 - either is right
