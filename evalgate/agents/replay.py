"""The driver `replay`: recorded conversations instead of an agent."""

from __future__ import annotations

import contextlib
import glob
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from evalgate.model import Case, CriterionUse, Evidence, Grade, NotEvaluated, Reason, TrialKey
from evalgate.plugins import Agent, AgentSetting, Conversation, ToolHandling
from evalgate.sessions import replaying
from evalgate.sessions.recorded import Shelf
from evalgate.sessions.replaying import ReplayedConversation

RECORDED = ("*.evalset_result.json", "*.session.json", "*.recording.json", "*.recording.jsonl")
NOT_RECORDED = ("*.evalset.json", "*.test.json", "test_config.json")


class ReplayOptions(BaseModel):
    """Where the recordings are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(
        default=None,
        description="A file, a folder or a glob, relative to the repository's root; by default what was recorded "
        "beside each evaluation file and in .adk/eval_history there.",
    )


class ReplayAgent:
    """Recordings (plugins.Agent). They are indexed on first use: once, or once a folder where no path is given."""

    def __init__(self, options: ReplayOptions, setting: AgentSetting) -> None:
        self._path = options.path
        self._root = Path(setting.root)
        self._lock = threading.Lock()
        self._shelves: dict[Path | None, Shelf] = {}

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:
        """The recorded conversation of a trial. Raises AgentFailed (NO_RECORDING)."""
        suite_file = self._root / key.suite
        transcript = replaying.pick(self._shelf(suite_file.parent), case=case, key=key, suite_file=suite_file)
        yield ReplayedConversation(transcript)

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:  # noqa: ARG002 - the shape of Agent
        """Custom metrics run in an agent's environment, and here is none."""
        message = f"the metric {code} needs the agent's environment, which a replay does not have"
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message=message)

    def about(self) -> Mapping[str, str]:
        """Where the recordings are."""
        return {"recordings": self._path or "beside the evaluation files"}

    def close(self) -> None:
        """Forget the recordings."""
        with self._lock:
            self._shelves.clear()

    def _shelf(self, folder: Path) -> Shelf:
        key = folder if self._path is None else None
        with self._lock:
            if key not in self._shelves:
                paths = _beside(folder) if self._path is None else _named(self._root, self._path)
                sought = "beside the evaluation file and in its .adk/eval_history" if key else f"at {self._path}"
                self._shelves[key] = Shelf.of(paths, sought=sought)
            return self._shelves[key]


class ReplayDriver:
    """One row of DRIVERS."""

    name = "replay"
    options = ReplayOptions
    tools = ToolHandling.RUNS_NONE
    runs_metrics = False

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """The recordings; nothing is read yet."""
        assert isinstance(options, ReplayOptions)
        return ReplayAgent(options, setting)


DRIVER = ReplayDriver()


def _beside(folder: Path) -> list[Path]:
    places = (folder, folder / ".adk" / "eval_history")
    return [path for place in places for pattern in RECORDED for path in place.glob(pattern) if path.is_file()]


def _named(root: Path, text: str) -> list[Path]:
    """The files that a user named; of a folder those that may hold recordings, never what is expected of an agent."""
    path = root / text
    if path.is_file():
        return [path]
    if path.is_dir():
        found = [each for pattern in ("*.json", "*.jsonl") for each in path.rglob(pattern)]
        return [each for each in found if each.is_file() and not any(each.match(name) for name in NOT_RECORDED)]
    names = glob.glob(text, root_dir=root, recursive=True, include_hidden=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [root / name for name in names if (root / name).is_file()]
