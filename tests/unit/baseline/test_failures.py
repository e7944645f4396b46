"""Whose doing a failure of the base's agent is, by what both checkouts hold."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import build

from evalgate.baseline import base as baseline_base, failures
from evalgate.baseline.base import Base
from evalgate.config import load
from evalgate.discovery import project
from evalgate.model import BaseOrigin, BaseSource, FailureKind

OWN, NOBODYS = "the base's own", "nobody can tell"
PROGRAM = {"driver": "command", "command": [sys.executable, "agent.py"]}
IN_SRC = {"driver": "command", "command": f"{sys.executable} src/bot/main.py"}
AS_MODULE = {"driver": "command", "command": [sys.executable, "-m", "bot.main"]}
FUNCTION = {"driver": "python", "call": "desk.bot:answer"}
NAMED = {**FUNCTION, "python": sys.executable}
PROJECT = "[project]\nname = 'x'\n"
SHELF = {"libs/shelf/pyproject.toml": PROJECT, "libs/shelf/shelf/book.py": "PAGES = 1\n"}
EDITED = {"libs/shelf/shelf/book.py": "PAGES = 2\n"}
USES = {"agent.py": "import os, shelf\n"}
MOCKS = {"mode": "mock", "mocks": "tools.yml"}
TAPES = {"mode": "replay", "cassettes": "tapes"}
DIFFERS = "both sides ran in one environment, and {} differs"


def whose(
    folder: Path,
    *,
    agent: Mapping[str, Any],
    base: Mapping[str, str],
    head: Mapping[str, str | None],
    failure: tuple[FailureKind, str],
    rules: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> str:
    """What is found for one case of one suite. `base`: its files; `head`: what head has otherwise,
    None for none; `rules`: more of evalgate.yml, on both sides."""
    turn = {"user_content": {"parts": [{"text": "hi"}]}}
    usual = {
        "evalgate.yml": json.dumps({"agents": [agent], **(rules or {})}),
        "a.evalset.json": json.dumps(
            {"eval_set_id": "a", "eval_cases": [{"eval_id": "c", "conversation": [turn]}]}
        ),
    }
    for side, files in (("base", {**usual, **base}), ("head", {**usual, **base, **head})):
        (folder / side).mkdir()
        for name, text in files.items():
            if text is not None:
                (folder / side / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / side / name).write_text(text)
    settings = load.load_settings({"root": str(folder / "head"), **(given or {})})
    suites = project.prepare(settings, environ={}).suites
    theirs = baseline_base.read(settings, folder / "base", suites, {})
    found = Base(origin=BaseOrigin(source=BaseSource.RERUN), root=folder / "base", project=theirs)
    own = [dataclasses.replace(suite, agent=theirs.agents[suite.key]) for suite in suites]
    run = build.run_of(own, {("a.evalset.json", "c"): [build.failed(*failure)]})
    (cause,) = failures.causes_of(
        run.trials, found, settings=settings, suites=suites, base_suites=run.suites
    ).values()
    return OWN if cause == "" else str(cause or NOBODYS)


@pytest.mark.parametrize(
    ("agent", "base", "head", "found"),
    [
        (PROGRAM, {"requirements.txt": "a==1"}, {"agent.py": "pass"}, OWN),
        (PROGRAM, {"requirements.txt": "a==1"}, {"requirements.txt": "a==2"}, "requirements.txt"),
        (PROGRAM, {"app/uv.lock": ""}, {"app/uv.lock": None}, "app/uv.lock"),
        # what only head has: beside what the base says; a change that is the first to say anything
        # broke nothing
        (PROGRAM, {"requirements.txt": "a==1"}, {"constraints.txt": "a==2"}, "constraints.txt"),
        (PROGRAM, {}, {"requirements.txt": "a==1"}, OWN),
        # head's own environment is made of it, and the base does not run there
        (FUNCTION, {"web/package.json": "{}"}, {"requirements.txt": "a==1"}, OWN),
        (NAMED, {"web/package.json": "{}"}, {"requirements.txt": "a==1"}, "requirements.txt"),
        # its own environment, whatever else changes; the nearest to the module that is called
        (FUNCTION, {"requirements.txt": "a==1"}, {"requirements.txt": "a==2"}, OWN),
        (FUNCTION, {"desk/bot.py": "", "desk/requirements.txt": "a==1"}, {"desk/requirements.txt": "a==2"}, OWN),
        ({**FUNCTION, "python": "3.11"}, {"requirements.txt": "a==1"}, {"requirements.txt": "a==2"}, OWN),
        # a package of the checkout that may be installed: head's, for both sides
        (PROGRAM, {**SHELF, **USES}, EDITED, "libs/shelf/shelf/book.py"),
        (PROGRAM, {**SHELF, **USES}, {"libs/shelf/shelf/book.py": None}, "libs/shelf/shelf/book.py"),
        (PROGRAM, {**SHELF, **USES}, {"libs/shelf/shelf/more.py": ""}, "libs/shelf/shelf/more.py"),
        (NAMED, {**SHELF, "desk/bot.py": "from shelf import book\n"}, EDITED, "libs/shelf/shelf/book.py"),
        # who knows
        (PROGRAM, {**SHELF, "agent.py": "import os  # no shelf\n"}, EDITED, "libs/shelf/shelf/book.py"),
        (AS_MODULE, {"setup.py": "", "src/bot/main.py": "1", "run.py": "import bot"}, {"src/bot/main.py": "2"},
         "src/bot/main.py"),
        # whatever is installed, its own is found first: a change may repair that
        (PROGRAM, {"pyproject.toml": PROJECT, "agent.py": "import desk", "desk.py": "("}, {"desk.py": "1"}, OWN),
        (IN_SRC, {"pyproject.toml": PROJECT, "src/bot/main.py": "(", "t.py": "import bot"}, {"src/bot/main.py": ""},
         OWN),
        ({**NAMED, "path": "src"}, {"pyproject.toml": PROJECT, "src/desk/bot.py": "(", "t.py": "import desk"},
         {"src/desk/bot.py": ""}, OWN),
    ],
)  # fmt: skip
def test_what_the_environment_has_of_the_change(
    tmp_path: Path,
    agent: dict[str, Any],
    base: dict[str, str],
    head: dict[str, str | None],
    found: str,
) -> None:
    failure = FailureKind.START, "ImportError: it is not there"
    told = found if found == OWN else DIFFERS.format(found)
    assert whose(tmp_path, agent=agent, base=base, head=head, failure=failure) == told


@pytest.mark.parametrize(
    ("kind", "message", "found"),
    [
        (
            FailureKind.START,
            "it exited with code 1: OSError: [Errno 98] Address already in use",
            NOBODYS,
        ),
        (FailureKind.START, "Error: listen EADDRINUSE: address already in use :::8080", NOBODYS),
        (FailureKind.RAISED, "OSError: [Errno 28] No space left on device: '/tmp/x'", NOBODYS),
        (
            FailureKind.INSTALL,
            "installing requirements.txt failed: No space left on device (os error 28)",
            NOBODYS,
        ),
        (FailureKind.RAISED, "OSError: [Errno 24] Too many open files", NOBODYS),
        (FailureKind.RAISED, "MemoryError: ", NOBODYS),
        (FailureKind.RAISED, "OSError: [Errno 12] Cannot allocate memory", NOBODYS),
        (
            FailureKind.RAISED,
            "BlockingIOError: [Errno 11] Resource temporarily unavailable",
            NOBODYS,
        ),
        (FailureKind.RAISED, "RuntimeError: can't start new thread", NOBODYS),
        (FailureKind.RATE_LIMITED, "429", NOBODYS),
        # numbers that only look so
        (
            FailureKind.START,
            "FileNotFoundError: [Errno 2] No such file or directory: 'errno-98'",
            OWN,
        ),
        (FailureKind.RAISED, "OSError: [Errno 111] Connection refused", OWN),
    ],
)
def test_what_either_side_may_have_taken_from_the_other(
    tmp_path: Path, kind: FailureKind, message: str, found: str
) -> None:
    assert whose(tmp_path, agent=PROGRAM, base={}, head={}, failure=(kind, message)) == found


TOLD = "`tools` differs from the base's"


@pytest.mark.parametrize(
    ("rules", "base", "head", "given", "kind", "found"),
    [
        # the rules of the mocks, or a recorded call: evalgate.yml is the same
        (MOCKS, {"tools.yml": "{}"}, {"tools.yml": "look: {}"}, {}, FailureKind.RAISED, TOLD),
        (MOCKS, {}, {"tools.yml": "look: {}"}, {}, FailureKind.RAISED, TOLD),
        (TAPES, {"tapes/a.json": "{}"}, {"tapes/a.json": "[]"}, {}, FailureKind.RAISED, TOLD),
        (TAPES, {"tapes/a.json": "{}"}, {"tapes/a.json": None}, {}, FailureKind.RAISED, TOLD),
        # nothing of it is asked: other files, live tools, before any tool is called
        (TAPES, {"tapes/a.json": "{}"}, {"tapes/notes.txt": "x"}, {}, FailureKind.RAISED, OWN),
        (MOCKS, {"tools.yml": "{}"}, {"tools.yml": "look: {}"}, {"tools": "live"}, FailureKind.RAISED, OWN),
        (MOCKS, {"tools.yml": "{}"}, {"tools.yml": "look: {}"}, {}, FailureKind.START, OWN),
        # what a door says reaches both sides
        ({"mocks": "tools.yml"}, {"tools.yml": "{}"}, {"tools.yml": "a: {}"}, {"tools": "mock"}, FailureKind.RAISED,
         TOLD),
    ],
)  # fmt: skip
def test_mocks_and_cassettes_that_only_the_change_edits(
    tmp_path: Path,
    rules: dict[str, str],
    base: dict[str, str],
    head: dict[str, str | None],
    given: dict[str, str],
    kind: FailureKind,
    found: str,
) -> None:
    told = whose(
        tmp_path,
        agent=PROGRAM,
        base=base,
        head=head,
        failure=(kind, "KeyError: 'look'"),
        rules={"tools": rules},
        given=given,
    )
    assert told == found
