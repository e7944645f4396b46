"""What a local GitHub saw, and what is to go wrong with it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from builders import github_spec
from builders.github_state import State


@dataclass
class Fault:
    """What goes wrong with requests that match `METHOD path`, `times` times.

    `how`: status, hang, reset (before an answer), cut (in its middle), html, garbage. `done`:
    carried out before."""

    match: str
    how: str = "status"
    times: int = 1
    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = False


@dataclass
class Seen:
    """One request and its answer."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    call: tuple[str, str] | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


class Double:
    """The server and what it saw. `denied`: methods and paths that the token may not use, as a
    pattern. `most_judged`: how many requests are judged by the description; None: all."""

    def __init__(self, *, log: Path | None = None) -> None:
        self.description = github_spec.load()
        self.state = State(self.description)
        self.seen: list[Seen] = []
        self.stored: list[Mapping[str, str]] = []
        self.faults: list[Fault] = []
        self.denied = ""
        self.most_judged: int | None = None
        self.url = ""
        self.stopped = threading.Event()
        self._log = log

    def fail(self, match: str, **how: Any) -> None:
        self.faults.append(Fault(match, **how))

    def calls(self, match: str = "") -> list[str]:
        """`METHOD /path` of the requests that match, without the repository and queries."""
        told = [
            f"{each.method} {urlsplit(each.target).path.replace('/repos/o/r', '')}"
            for each in self.seen
        ]
        return [each for each in told if re.search(match, each)]

    def problems(self) -> list[str]:
        return [
            f"{each.method} {each.target}: {problem}"
            for each in self.seen
            for problem in each.problems
        ]

    def fault_for(self, method: str, target: str) -> Fault | None:
        with self.state.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.match, f"{method} {urlsplit(target).path}"):
                    fault.times -= 1
                    return fault
        return None

    def remember(self, seen: Seen) -> None:
        self.seen.append(seen)
        if self._log is not None:
            row = {
                "method": seen.method,
                "target": seen.target,
                "status": seen.status,
                "problems": seen.problems,
            }
            row |= {"authorized": "authorization" in seen.headers, "body": _readable(seen.body)}
            with self.state.lock, self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def _readable(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")
