"""What a worker says of the packages in its Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evalgate.worker import server

GIT = '{"url": "https://x.invalid/a", "vcs_info": {"commit_id": "%s"}}'
FOLDER = '{"url": "file:///x", "dir_info": {}}'
WHEEL = '{"url": "file:///x/a.whl", "archive_info": {}}'
IN_PLACE = '{"url": "file:///x", "dir_info": {"editable": true}}'
RECORD = "a/__init__.py,sha256=%s,10\n"
ADDED = (
    "a-1.0.dist-info/direct_url.json,sha256=%s,50\na-1.0.dist-info/uv_cache.json,sha256=%s,50\n"
    "../../../bin/a,sha256=%s,300\na/__pycache__/a.cpython-312.pyc,,\n"
)
Packages = dict[str, str | tuple[str, str]]


def test_versions_are_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("google_adk-1.2.0.dist-info", "Old-0.5-py3.11.egg-info", "bare.egg-info", "readme.txt")
    for folder, found in (
        (tmp_path / "own", names),
        (tmp_path / "site", ("google_adk-1.0.0.dist-info", "b-2.dist-info")),
    ):
        for name in found:
            (folder / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "own"), str(tmp_path / "site")])
    # what is found first is what is imported
    assert server.read_packages()[1] == {"b": "2", "google-adk": "1.2.0", "old": "0.5"}


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({"a-1.0.dist-info": ""}, {"a-1.0.dist-info": ""}, True),
        # `a` without a version, some day later
        ({"a-1.0.dist-info": ""}, {"a-1.1.dist-info": ""}, False),
        ({"a-1.0.dist-info": ""}, {"a-1.0.dist-info": "", "b-2.dist-info": ""}, False),
        # a branch that moved
        ({"a-1.0.dist-info": GIT % "1"}, {"a-1.0.dist-info": GIT % "2"}, False),
        # a folder of the checkout, which lies elsewhere each time
        (
            {"a-1.0.dist-info": '{"url": "file:///x", "dir_info": {}}'},
            {"a-1.0.dist-info": '{"url": "file:///y"}'},
            True,
        ),
        # what was installed of a folder, or of a wheel in it, under the same version; what is used
        # in place
        (
            {"a-1.0.dist-info": (FOLDER, RECORD % "x")},
            {"a-1.0.dist-info": (FOLDER, RECORD % "y")},
            False,
        ),
        (
            {"a-1.0.dist-info": (WHEEL, RECORD % "x")},
            {"a-1.0.dist-info": (WHEEL, RECORD % "y")},
            False,
        ),
        (
            {"a-1.0.dist-info": (IN_PLACE, RECORD % "x")},
            {"a-1.0.dist-info": (IN_PLACE, RECORD % "y")},
            True,
        ),
        # of an index: the version says it
        ({"a-1.0.dist-info": ("", RECORD % "x")}, {"a-1.0.dist-info": ("", RECORD % "y")}, True),
        # what an installer writes, at another place and another time, and in another order
        (
            {"a-1.0.dist-info": (FOLDER, RECORD % "x" + ADDED % ("1", "1", "1"))},
            {
                "a-1.0.dist-info": (
                    FOLDER.replace("///x", "///y"),
                    ADDED % ("2", "2", "2") + RECORD % "x",
                )
            },
            True,
        ),
        # without a RECORD, or with no JSON
        ({"a-1.0.dist-info": FOLDER}, {"a-1.0.dist-info": FOLDER}, True),
        (
            {"a-1.0.dist-info": ("[1]", RECORD % "x")},
            {"a-1.0.dist-info": ("{", RECORD % "y")},
            True,
        ),
    ],
)
def test_other_packages_are_another_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Packages,
    after: Packages,
    *,
    is_same: bool,
) -> None:
    told = []
    for number, packages in enumerate((before, after)):
        for name, files in packages.items():
            origin, record = (files, "") if isinstance(files, str) else files
            folder = tmp_path / str(number) / name
            folder.mkdir(parents=True)
            if origin:
                (folder / "direct_url.json").write_text(origin)
            if record:
                (folder / "RECORD").write_text(record)
        monkeypatch.setattr(sys, "path", [str(tmp_path / str(number)), str(tmp_path / "none")])
        told.append(server.read_packages()[0])
    assert (told[0] == told[1]) is is_same
