"""The command line is the table of settings."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from evalgate import cli, config
from evalgate.cli import commands
from evalgate.config import Door, settings
from evalgate.config.settings import Settings
from evalgate.errors import (
    ConfigError,
    ExitCode,
    NothingToDo,
    Place,
    Problem,
    Severity,
    UnavailableError,
)
from evalgate.extensions import Command
from evalgate.system import isolation


def test_run_takes_every_setting_and_nothing_else() -> None:
    taken = {parameter.name for parameter in commands.run.params}
    assert taken == {"everything", "failed"} | set(config.names_with(Settings, Door.CLI))


def test_help_has_every_option_in_one_group() -> None:
    grouped = [name for names in commands.GROUPS.values() for name in names]
    assert sorted(grouped) == sorted({"help", *(each.name for each in commands.run.params)})
    text = CliRunner().invoke(cli.cli, ["run", "--help"]).output
    assert [title for title in commands.GROUPS if f"{title}:\n" in text] == list(commands.GROUPS)
    assert "Show this message and exit." in text
    assert "More:" not in text
    assert "evalgate run tests/booking.evalset.json:case_1\n" in text


def test_help_shows_each_description_and_default() -> None:
    text = " ".join(CliRunner().invoke(cli.cli, ["run", "--help"]).output.split())
    for name in config.names_with(Settings, Door.CLI):
        if name != "paths":
            assert f"--{settings.input_name(name)}" in text
            assert " ".join((Settings.model_fields[name].description or "").split())[:40] in text
    assert "[default: 300]" in text


def test_only_what_was_typed_is_given() -> None:
    seen: dict[str, object] = {}

    @click.command()
    @commands.options("paths", "runs", "strict", "env", "grep")
    def probe(**values: object) -> None:
        seen.update(commands.explicit_options(values))

    assert (
        CliRunner()
        .invoke(probe, ["a", "b", "--runs", "3", "--no-strict", "--env", "X", "--env", "Y"])
        .exit_code
        == 0
    )
    assert seen == {"paths": ("a", "b"), "runs": "3", "strict": False, "env": ("X", "Y")}


PROBLEM = Problem(
    severity=Severity.ERROR,
    code="some-code",
    message="wrong",
    place=Place(file="a.json", line=3),
    hint="do",
)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            ConfigError.collected([PROBLEM]),
            ExitCode.CONFIG,
            ["a.json:3: error: wrong [some-code]", "do", "1 problem"],
        ),
        (
            UnavailableError("git is gone", hint="install git"),
            ExitCode.NOT_MEASURED,
            ["error: git is gone", "install git"],
        ),
        (NothingToDo("no file"), ExitCode.NOTHING_TO_DO, ["error: no file"]),
        (
            ZeroDivisionError("x"),
            ExitCode.BUG,
            ["nternal error in evalgate", "Please report", "Traceback"],
        ),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ["interrupted"]),
        # what the machine lacks is no bug
        (OSError(24, "Too many open files"), ExitCode.NOT_MEASURED, ["`ulimit -n`"]),
        (MemoryError(), ExitCode.NOT_MEASURED, ["Too little memory", "`ulimit -v`"]),
        (RuntimeError("can't start new thread"), ExitCode.NOT_MEASURED, ["`ulimit -u`"]),
    ],
)
def test_the_wall_shows_each_error_once(
    error: BaseException, code: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error

    assert cli.run_command(fail, debug=False) == code
    shown = capsys.readouterr().err
    for word in words:
        assert shown.count(word) == 1
    assert ("Traceback" in shown) == (code == ExitCode.BUG)


def test_help_imports_no_heavy_module() -> None:
    check = "import sys; import evalgate.cli as c; c.cli(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    ).stdout
    assert not [
        name for name in ("pydantic", "rich", "yaml", "requests", "google") if f"'{name}'" in loaded
    ]


def test_a_command_that_cannot_be_imported_is_a_bug_and_no_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        cli, "COMMANDS", {"run": Command("run", "", "evalgate.cli.no_such_module:run")}
    )
    with pytest.raises(SystemExit) as caught:
        cli.dispatch(["run"])
    assert caught.value.code == ExitCode.BUG


@pytest.mark.parametrize(
    ("given", "workflow", "why_not", "isolates", "told"),
    [
        ({}, "", "", False, False),  # a terminal is asked
        ({"isolate": True}, "", "no bwrap", True, False),  # and told by the error what is missing
        ({}, "true", "", True, False),
        ({}, "true", "no bwrap", False, True),  # in a workflow it is said what an agent can do
        ({"isolate": False}, "true", "", False, False),
        ({"isolate": True}, "true", "no bwrap", True, False),
    ],
)
def test_when_agents_are_kept_apart(
    given: dict[str, object],
    workflow: str,
    why_not: str,
    isolates: bool,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", workflow)
    monkeypatch.setattr(isolation, "refusal_reason", lambda: why_not)
    said: list[str] = []
    asked = Settings(**given, explicit_options=given)  # type: ignore[arg-type]  # as `load` does it
    assert commands.isolates(asked, said.append) is isolates
    assert [why_not in line and "docs/security.md" in line for line in said] == [True] * told


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("rnu", "No such command 'rnu'. Did you mean `run`?"),
        ("Validat", "No such command 'Validat'. Did you mean `validate`?"),
        ("xyz", "No such command 'xyz'."),  # like none
    ],
)
def test_a_command_that_is_mistyped(typed: str, shown: str) -> None:
    done = CliRunner().invoke(cli.cli, [typed])
    assert (done.exit_code, done.output.splitlines()[-1]) == (2, f"Error: {shown}")
