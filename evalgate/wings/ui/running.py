"""The run that the page started: its process and its progress."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from evalgate.errors import ConfigError, UnavailableError
from evalgate.system.process import Child, ChildStartError, Ended, LineSplitter, LineTooLong
from evalgate.values import JsonObject

LONGEST_LINE = 1_000_000
LINES = 200
STOP_S = 30.0
"""The time that a stopped run has to write its results."""
STOPPED = {"kind": "not_measured", "reason": "", "complete": False}


class Running:
    """At most one run at a time. `serial` grows with each change, `number` with each run."""

    def __init__(self, root: str) -> None:
        self.serial = 0
        self._number = 0
        self._root = root
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._splitter = LineSplitter(limit=LONGEST_LINE)
        self._reset()

    def _reset(self) -> None:
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
        """Start a run with these settings. Raises ConfigError if another run is active,
        UnavailableError."""
        order = {
            "given": options,
            "scored": None if scored is None else sorted(scored),
            "reproduce": reproduce,
        }
        with self._lock:
            if self._child is not None:
                raise ConfigError("a run is under way", hint="Stop it, or wait for its end.")
            self._reset()
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
        child.listen(self._read_output, self._note_end)
        child.write(json.dumps(order, default=str).encode() + b"\n", timeout_s=10.0)

    def stop(self) -> None:
        """Stop the run as Ctrl-C does: its results so far are kept, and the next run continues
        it."""
        with self._lock:
            child = self._child
            self._about["stopping"] = self._child is not None
            self.serial += 1
        if child is not None:
            child.end(grace_s=STOP_S)

    def close(self) -> None:
        """Stop the run and wait for its end."""
        self.stop()
        child = self._child
        if child is not None:
            child.wait(STOP_S + 5.0)

    def snapshot(self, trials_from: int = 0) -> JsonObject:
        """The current state of the run, with its trials from number `trials_from` on."""
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

    def _read_output(self, chunk: bytes) -> None:
        try:
            for line in self._splitter.feed(chunk):
                with self._lock:
                    self._apply_message(json.loads(line))
                    self.serial += 1
        except (LineTooLong, ValueError):  # only our own process writes there
            self.stop()

    def _apply_message(self, message: JsonObject) -> None:
        progress = self._about
        match message.pop("what"):
            case "begin":
                progress.update(total=message["trials"], done=message["done"], why=message["why"])
            case "trial":
                progress["done"] += 1
                progress["usd"] = max(progress["usd"], message["usd"])
                if not message["base"]:
                    self._counts[message["kind"] or "not_measured"] += 1
                    self._trials.append((message["suite"], message["case"], message["kind"]))
                if message["failure"]:
                    self._lines.append(f"{message['case']}: {message['failure']}")
            case "say":
                self._lines.append(message["line"])
            case "done":
                progress["verdict"] = message
            case "error":
                progress["error"] = message

    def _note_end(self, end: Ended) -> None:
        with self._lock:
            child = self._child
            self._child = None
            # the run was stopped before its verdict
            if self._about.get("stopping") and "verdict" not in self._about:
                self._about["verdict"] = STOPPED
            self._about["running"] = self._about["stopping"] = False
            if "verdict" not in self._about and self._about["error"] is None and child is not None:
                output = child.stderr.text(limit=2000).strip()
                self._about["error"] = {"message": f"the run {end}", "hint": output, "problems": []}
            self.serial += 1
