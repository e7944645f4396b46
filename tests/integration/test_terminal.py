"""What the command says to a shell whose terminal is gone, and to whoever interrupts it while it is
being loaded."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from builders import forked_command, gated_repository, starting
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return gated_repository.of_one_case(tmp_path)


def in_shell(repo: Repository, line: str) -> list[str]:
    """What a shell shows of a line with the command, its exit code behind it."""
    script = f'evalgate() {{ {forked_command.EVALGATE} "$@"; }}; {line}; echo ${{PIPESTATUS[0]}}'
    # SHELL is what `script` starts; a runner need not have it, and another shell knows no functions
    # of bash
    environment = {**os.environ, "ASKED_LOG": str(repo.log), "SHELL": "/bin/bash"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=repo.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        # a reader that has seen enough, or never looked: quiet, as other tools are
        ("evalgate --help | head -1", ["Usage: evalgate [OPTIONS] [COMMAND] [ARGS]...", "0"]),
        ("evalgate --help | true", ["0"]),
        ("evalgate no-such-command 2>&1 | true", ["2"]),
        # closed before it starts
        ("evalgate --help >&- 2>&- <&-", ["0"]),
        # a full disk: said where it can be, its exit code kept
        (
            "evalgate --help >/dev/full",
            ["0", "evalgate: output cannot be written: No space left on device"],
        ),
        ("evalgate no-such-command >/dev/full 2>&1", ["2"]),
    ],
)
def test_an_exit_code_outlives_the_terminal(repo: Repository, line: str, shown: list[str]) -> None:
    assert in_shell(repo, line) == shown


def test_a_verdict_outlives_the_terminal(repo: Repository) -> None:
    assert in_shell(repo, "evalgate run >&- 2>&-") == ["0"]
    assert (repo.root / "evalgate-report" / "results.json").is_file()
    first = (
        (repo.root / "evalgate-report" / "journal.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()[0]
    )
    assert first.startswith('{"journal"'), "the journal had been taken for standard output"


@pytest.mark.parametrize(
    ("line", "colored"),
    [
        ("evalgate run", False),  # a pipe
        ("FORCE_COLOR=1 evalgate run", True),
        ("NO_COLOR=1 FORCE_COLOR=1 evalgate run", False),
        ("export -f evalgate; script -qec 'evalgate run' /dev/null", True),  # a terminal
        ("export -f evalgate; NO_COLOR=1 script -qec 'evalgate run' /dev/null", False),
    ],
)
def test_colors_are_for_eyes(repo: Repository, line: str, *, colored: bool) -> None:
    shown = "\n".join(in_shell(repo, line))
    assert "PASS: " in shown
    assert ("\x1b[32mPASS" in shown) is colored


def test_ctrl_c_while_the_command_is_loaded_is_no_fail(repo: Repository) -> None:
    command = forked_command.console_script(["run"], cwd=repo.root)
    starting.wait_until_loading(command)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert (command.returncode, err) == (130, "interrupted\n")
    assert not (repo.root / "evalgate-report").exists()


COMMAND = "x\n::error::owned\r::warning::owned\u2028::notice::owned\n \t##[group]owned \x1b[31m \x1b]0;title\x07\x00\u202e"


ARGUMENT = COMMAND.replace("\x00", "")


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("case", ("run",)),
        ("case", ("list",)),
        ("criterion", ("run",)),
        ("criterion", ("validate",)),
        ("setting", ("validate",)),
        ("failure", ("run",)),
        ("", ("merge", ARGUMENT)),
        ("", ("compare", "none.json", ARGUMENT)),
        ("", ("run", "--fail-on", ARGUMENT)),
        ("", ("run", "--agent", f"command:{ARGUMENT}")),
        ("", (ARGUMENT,)),  # told by click itself
    ],
    ids=lambda value: value if isinstance(value, str) else value[0][:8],
)
def test_nothing_in_a_repository_commands_the_runner_of_a_workflow(
    repo: Repository, arguments: tuple[str, ...], where: str
) -> None:
    """Ids, keys, settings, arguments and what agents say, on both streams, however a run ends."""
    if where == "case":
        rename_case(repo, COMMAND)
    elif where == "criterion":
        repo.write("test_config.json", json.dumps({"criteria": {COMMAND: 0.5}}))
    elif where == "setting":
        repo.gate_file(
            **{COMMAND: 1, "agents": [{"driver": "command", "command": [COMMAND], COMMAND: 2}]}
        )
    elif where == "failure":
        repo.write("agent.py", f"import sys; sys.exit({COMMAND!r})")
    _, said = repo.call(*arguments, environment={"GITHUB_ACTIONS": "true"})
    assert said
    lines = re.split("[\r\n\x0b\x0c\x85\u2028\u2029]", said)
    assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == []
    assert re.findall("[\x00\x1b\u202e]", said) == []


def test_at_a_terminal_no_id_hides_what_is_shown(repo: Repository) -> None:
    rename_case(repo, COMMAND)
    repo.write("test_config.json", json.dumps({"criteria": {COMMAND: 0.5}}))
    _, said = repo.call("validate", environment={"GITHUB_ACTIONS": ""})
    assert "unknown" in said
    assert re.findall("[\x00\x1b\u202e]", said) == []


def rename_case(repo: Repository, name: str) -> None:
    path = repo.root / "desk.evalset.json"
    content = json.loads(path.read_text())
    content["eval_cases"][0]["eval_id"] = name
    path.write_text(json.dumps(content))
