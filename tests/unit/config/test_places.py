"""Paths in settings: a relative one stays below the root, whoever wrote it and whatever links a
commit has there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.config import load, places
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with links that lead out of it, into .git, round in a circle, and to a place
    within."""
    made = tmp_path / "repo"
    (made / ".git/hooks").mkdir(parents=True)
    (made / "real").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "secret").write_text("token")
    (made / "out").symlink_to(tmp_path / "elsewhere")
    (made / "hooks").symlink_to(".git/hooks")
    (made / "loop").symlink_to("loop")
    (made / "within").symlink_to("real")
    (made / "secret.yml").symlink_to(tmp_path / "secret")
    return made


@pytest.mark.parametrize(
    ("path", "in_file", "by_hand"),
    [
        ("reports", "", ""),
        ("a/../reports", "", ""),
        ("within/reports", "", ""),  # a link, but not out of it
        (".github/evalgate.yml", "", ""),
        ("../reports", "leads out", ""),  # a person may say so
        ("a/../../reports", "leads out", ""),
        ("/tmp/reports", "absolute", ""),
        # whoever said it: the commit decides where that is
        ("out/reports", "symbolic link", "symbolic link"),
        ("within/../out", "symbolic link", "symbolic link"),
        ("loop/reports", "", ""),  # told when it is opened, or:
        (".git", ".git", ".git"),
        (".GIT/hooks", ".git", ".git"),  # as some file systems read it
        ("a/.git/config", ".git", ".git"),
        ("hooks/post-checkout", ".git", ".git"),
        ("x" * 300, "too long", "too long"),
        ("x/" * 3000, "too long", "too long"),
        ("a\0b", "no path can have", "no path can have"),
        ("a\ud800", "no path can have", "no path can have"),  # half a character
    ],
)
def test_why_a_path_is_refused(root: Path, path: str, in_file: str, by_hand: str) -> None:
    for trusted, expected in ((False, in_file), (True, by_hand)):
        why = places.refusal_reason(root, path, trusted=trusted)
        if path.startswith("loop"):  # Python 3.13 follows it to its end, those before do not
            assert why in ("", "cannot be resolved: its symbolic links are broken")
        else:
            assert expected in why
            assert bool(why) == bool(expected)


def loaded(root: Path, written: dict[str, Any], **given: Any) -> Settings:
    (root / "evalgate.yml").write_text(json.dumps(written))
    return load.load_settings({"root": str(root), **given})


EVERYWHERE = [
    {"output": "PATH"},
    {"criteria": "PATH"},
    {"baseline_folder": "PATH"},
    {"durations": "PATH"},
    {"baseline": "file:PATH"},
    {"judge": {"replay": "PATH"}},
    {"judge": {"record": "PATH"}},
    {"judge": {"calibration": "PATH"}},
    {"suites": [{"match": ["*"], "config": "PATH"}]},
    {"agents": [{"driver": "replay", "path": "PATH"}]},
    {"agents": [{"driver": "command", "command": "x", "cwd": "PATH"}]},
]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".git/config", "out/x", "hooks/x"])
@pytest.mark.parametrize("written", EVERYWHERE, ids=json.dumps)
def test_a_path_of_the_file_that_leads_out_is_a_problem_and_not_used(
    root: Path, written: dict[str, Any], path: str
) -> None:
    settings = loaded(root, json.loads(json.dumps(written).replace("PATH", path)))
    (problem,) = settings.problems
    (key,) = written
    assert problem.code == "bad-path"
    assert path in problem.message
    assert problem.place is not None
    assert problem.place.line == 1
    default = Settings()
    section, usual = (
        each.gate_file if key in ("judge", "suites", "agents") else each
        for each in (settings, default)
    )
    assert getattr(section, key) == getattr(usual, key)


def test_a_default_that_a_commit_turned_into_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "evalgate-report").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="symbolic link"):
        loaded(root, {})
    # given in full
    assert loaded(root, {}, output=str(tmp_path / "elsewhere")).output == str(
        tmp_path / "elsewhere"
    )


@pytest.mark.parametrize("config", ["", "secret.yml", ".github/evalgate.yml"])
def test_evalgate_yml_itself_is_read_within_the_root(root: Path, config: str) -> None:
    name = config or "evalgate.yml"
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(root.parent / "secret")
    with pytest.raises(ConfigError, match="symbolic link") as error:
        load.load_settings({"root": str(root), "config": config})
    assert "token" not in str(error.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"output": "a\\u0000b"}', "U+0000"),
        ('{"tools": {"mocks": "a\\u0000b"}}', "U+0000"),
        ('{"criteria": "\\ud800x"}', "surrogate"),
        ('{"agents": [{"match": "\\udfff"}]}', "surrogate"),
        ('{"seed": 1' + "0" * 400 + "}", "too large"),
        *(
            (text, "less than or equal")
            for text in (
                '{"turn-timeout": 1e300}',
                '{"start-timeout": 1e300}',
                '{"reuse-days": 1e300}',
                '{"max-baseline-age": 1e300}',
                '{"memory": 1000000000000}',
                '{"judge": {"call_deadline": 1e300}}',
            )
        ),
        ('{"output": ' + "[" * 90 + "1" + "]" * 90 + "}", "valid string"),
        ('{"output": ' + "[" * 255 + "1" + "]" * 255 + "}", "nested too deeply"),
    ],
)
def test_what_no_setting_can_be_is_told_with_its_place(root: Path, written: str, said: str) -> None:
    (root / "evalgate.yml").write_text(written)
    problems = load.load_settings({"root": str(root)}).problems
    assert [problem.place.line for problem in problems if problem.place] == [1]
    assert said in problems[0].message


def test_what_a_door_is_given_may_hold_no_nul(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"`output` contains the character U\+0000"):
        load.load_settings({"root": str(root), "output": "a\0b"})
