"""The tools of a run: the mock file, the folder of cassettes, and what is recorded into it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from evalgate.config.tool_mocks import MockFile
from evalgate.errors import Place, Problem, Severity, UnavailableError
from evalgate.model import TrialKey
from evalgate.plugins import ToolMode
from evalgate.tools import cassette
from evalgate.tools.answering import ConversationTools
from evalgate.tools.cassette import CassetteError, Entry
from evalgate.tools.rules import Rules


class Toolbox:
    """See plugins.ToolSource.

    `root`: the checkout; `folder`: its cassettes, relative to it. `own`: a checkout whose cassettes come first, often
    the same. While recording, a case's cassette is written when a conversation of it has come to its end: what its
    lowest repeat did counts, other repeats add the calls that it did not make. `goes_on`: an interrupted run is
    resumed, so that what a cassette holds is kept.
    """

    def __init__(
        self,
        *,
        mode: ToolMode,
        mocks: MockFile,
        root: Path,
        own: Path,
        folder: str,
        redact: Callable[[str], str],
        seed: int,
        goes_on: bool,
    ) -> None:
        self.mode = mode
        self._mocks = mocks
        self._root = root
        self._own = own
        self._folder = folder
        self._redact = redact
        self._seed = seed
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._recorded: dict[tuple[str, str], dict[int, tuple[Entry, ...]]] = {}
        self._before: dict[tuple[str, str], tuple[Entry, ...]] = {}

    def open(self, key: TrialKey) -> ConversationTools:
        """The tools of one trial."""
        name = file_of(self._folder, key.suite, key.case_id)
        return ConversationTools(
            mode=self.mode,
            rules=Rules(self._mocks, key=key, seed=self._seed),
            entries=self._recorded_for(name) if self.mode is ToolMode.REPLAY else None,
            cassette=name,
            keep=lambda entries: self._keep(key, self._root / name, entries),
            redact=self._redact,
        )

    def _recorded_for(self, name: str) -> tuple[Entry, ...] | None:
        entries = read_entries(self._root / name)
        own = None if self._own == self._root else read_entries(self._own / name)
        return entries if own is None else cassette.merge(own, entries or ())

    def _keep(self, key: TrialKey, path: Path, entries: tuple[Entry, ...]) -> None:
        case = (key.suite, key.case_id)
        with self._lock:
            if case not in self._recorded:
                with contextlib.suppress(CassetteError):
                    self._before[case] = (self._goes_on and read_entries(path)) or ()
            repeats = self._recorded.setdefault(case, {})
            repeats[key.repeat] = entries
            merged = cassette.merge(*(repeats[number] for number in sorted(repeats)), self._before.get(case, ()))
            if merged or path.exists():
                _write(path, cassette.render_cassette(merged, suite=key.suite, case=key.case_id))


def file_of(folder: str, suite: str, case_id: str) -> str:
    """A case's cassette, relative to the checkout."""
    return f"{folder.rstrip('/')}/{cassette.file_name(suite, case_id)}"


def read_entries(path: Path) -> tuple[Entry, ...] | None:
    """What a cassette holds; None where there is no such file. Raises CassetteError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"cannot be read: {error}") from None
    return cassette.parse_cassette(text)


def check_cassettes(root: Path, folder: str, cases: Iterable[tuple[str, str]]) -> list[Problem]:
    """A problem for each cassette of these cases (suite, case id) that cannot be understood."""
    problems = []
    for suite, case_id in cases:
        name = file_of(folder, suite, case_id)
        try:
            read_entries(root / name)
        except CassetteError as error:
            message = f"the cassette of case `{case_id}`: {error}"
            hint = "Record it again with `--tools record`, or undo the changes to it."
            place = Place(file=name, line=1)
            problems.append(
                Problem(severity=Severity.ERROR, code="tool-cassette", message=message, place=place, hint=hint)
            )
    return problems


def digest(root: Path, paths: Iterable[str]) -> str:
    """16 hex digits over files and folders, relative to `root`: their names and contents."""
    seen = hashlib.sha256()
    for named in paths:
        place = root / named
        files = sorted(path for path in place.rglob("*.json") if path.is_file()) if place.is_dir() else [place]
        for path in files:
            with contextlib.suppress(OSError):
                seen.update(os.fsencode(path.relative_to(root)) + b"\0" + path.read_bytes() + b"\0")
    return seen.hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    """At once or not at all, so that a run that is killed leaves no half of a file."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise UnavailableError(f"the cassette {path.name} cannot be written: {error}") from error
