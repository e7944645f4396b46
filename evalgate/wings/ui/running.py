"""The run that the page started: its process, and what is known of it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from evalgate.errors import ConfigError, UnavailableError
from evalgate.system.process import Child, ChildStartError, Ended, LineSplitter, LineTooLong
from evalgate.values import JsonObject

LONGEST_LINE: Final = 1_000_000
LINES: Final = 200
STOP_S: Final = 30.0
"""For a run to write what it has."""
STOPPED: Final = {"kind": "not_measured", "reason": "", "complete": False}


class Running:
    """At most one run at a time. `serial` grows with everything that becomes known, `number` with
    each run."""

    def __init__(self, root: str) -> None:
        self.serial = 0
        self._number = 0
        self._root = root
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._splitter = LineSplitter(limit=LONGEST_LINE)
        self._forget()

    def _forget(self) -> None:
        self._about: JsonObject = {
            "running": False,
            "total": 0,
            "done": 0,
            "why": "",
            "usd": 0.0,
            "error": None,
        }
        self._counts: Counter[str] = Counter()
        self._lines: list[str] = []
        self._trials: list[tuple[str, str, str | None]] = []
        self._started = time.monotonic()

    def start(
        self, options: Mapping[str, Any], *, scored: Collection[str] | None, reproduce: str
    ) -> None:
        """Start a run with these settings. Raises ConfigError if one is under way,
        UnavailableError."""
        order = {
            "given": options,
            "scored": None if scored is None else sorted(scored),
            "reproduce": reproduce,
        }
        with self._lock:
            if self._child is not None:
                raise ConfigError("a run is under way", hint="Stop it, or wait for its end.")
            self._forget()
            self._number += 1
            self._splitter = LineSplitter(limit=LONGEST_LINE)
            # -P: do not import modules of the repository
            command = [sys.executable, "-P", "-m", "evalgate.wings.ui.child"]
            try:
                self._child = child = Child(command, cwd=self._root, environment=dict(os.environ))
            except ChildStartError as error:
                raise UnavailableError(f"the run cannot be started: {error}") from error
            self._about["running"] = True
            self.serial += 1
        child.listen(self._heard, self._ended)
        child.write(json.dumps(order, default=str).encode() + b"\n", timeout_s=10.0)

    def stop(self) -> None:
        """Stop it as Ctrl-C does: what was measured is kept, and continued by the next run."""
        with self._lock:
            child = self._child
            self._about["stopping"] = self._child is not None
            self.serial += 1
        if child is not None:
            child.end(grace_s=STOP_S)

    def close(self) -> None:
        """Stop it, and wait for its end."""
        self.stop()
        child = self._child
        if child is not None:
            child.wait(STOP_S + 5.0)

    def snapshot(self, trials_from: int = 0) -> JsonObject:
        """What is known now, with the trials from a number on."""
        with self._lock:
            return {
                **self._about,
                "serial": self.serial,
                "number": self._number,
                "counts": dict(self._counts),
                "lines": self._lines[-LINES:],
                "seconds": round(time.monotonic() - self._started, 1)
                if self._about["running"]
                else None,
                "trials": self._trials[trials_from:],
                "next": len(self._trials),
            }

    def _heard(self, chunk: bytes) -> None:
        try:
            for line in self._splitter.feed(chunk):
                with self._lock:
                    self._take(json.loads(line))
                    self.serial += 1
        except (LineTooLong, ValueError):  # it is our own process: nothing else writes there
            self.stop()

    def _take(self, message: JsonObject) -> None:
        about = self._about
        match message.pop("what"):
            case "begin":
                about.update(total=message["trials"], done=message["done"], why=message["why"])
            case "trial":
                about["done"] += 1
                about["usd"] = max(about["usd"], message["usd"])
                if not message["base"]:
                    self._counts[message["kind"] or "not_measured"] += 1
                    self._trials.append((message["suite"], message["case"], message["kind"]))
                if message["failure"]:
                    self._lines.append(f"{message['case']}: {message['failure']}")
            case "say":
                self._lines.append(message["line"])
            case "done":
                about["verdict"] = message
            case "error":
                about["error"] = message

    def _ended(self, ended: Ended) -> None:
        with self._lock:
            child = self._child
            self._child = None
            # before it could tell anything
            if self._about.get("stopping") and "verdict" not in self._about:
                self._about["verdict"] = STOPPED
            self._about["running"] = self._about["stopping"] = False
            if "verdict" not in self._about and self._about["error"] is None and child is not None:
                output = child.stderr.text(limit=2000).strip()
                self._about["error"] = {
                    "message": f"the run {ended}",
                    "hint": output,
                    "problems": [],
                }
            self.serial += 1
