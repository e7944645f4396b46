"""A person's conversation with the agent of a suite, set up as for the suite's cases."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress

from evalgate.agents import opening, toolbox
from evalgate.agents.base import AgentFailed, ToolMode
from evalgate.agents.protocol import ArtifactMessage, EventMessage
from evalgate.agents.worker_process import Step, WorkerConversation
from evalgate.baseline import rules as baseline_rules
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.discovery import dotenv
from evalgate.errors import ConfigError, UnavailableError
from evalgate.model import (
    AgentFailure,
    Attachment,
    Case,
    Content,
    Invocation,
    Part,
    Suite,
    Text,
    ToolCall,
    ToolResponse,
    TrialKey,
)
from evalgate.reports import turns
from evalgate.system import redact
from evalgate.values import Json, JsonObject, elements, mapped_texts

CASE = "chat"
LIVE_TEXT = 20_000
"""The most characters of a running answer that the page shows: its last ones."""
FILES_ROOM = 100_000_000
"""The most characters, in base64, of all files that a session keeps for the page."""


class Chat:
    """One session with the agent. Its worker runs until `close`. `is_over`: the agent failed.
    `traces`: the entries of each turn (worker/trace.py), failed turns included. `files`: the files
    that the page requests by number. `serial` changes whenever the session does."""

    def __init__(self, suite: Suite, settings: Settings, context: Context) -> None:
        """Open it. Raises UnavailableError if the agent does not start."""
        self.suite = suite.key
        self.turns: list[Invocation] = []
        self.traces: list[list[JsonObject]] = []
        self.files: list[JsonObject] = []
        self.is_over = False
        self.serial = time.monotonic_ns()
        self._views: list[JsonObject] = []
        self._artifacts: list[JsonObject] = []
        self._room = FILES_ROOM
        self._redact = redact.redactor_of_files(os.environ)
        self._state_lock = threading.Lock()
        self._forget_turn()
        self._stack = ExitStack()
        self._turn_lock = threading.Lock()
        self._closed = False
        if toolbox.mode_of(settings) is ToolMode.RECORD:  # a cassette belongs to a case
            settings = settings.with_options(tools="live")
        judge_environ = dotenv.of_judges(settings, [suite.agent], context.environ).environ
        keys = baseline_rules.judge_keys(
            settings, settings, (suite,), None, context, environ=judge_environ
        )
        open_agents = opening.open_agents(
            (suite,), settings, context, root=settings.root, judge_keys=keys
        )
        try:
            agent = self._agent = self._stack.enter_context(open_agents)[suite.agent.key]
            self._conversation = self._stack.enter_context(
                agent.converse(
                    Case(case_id=CASE, conversation=()), TrialKey(suite=suite.key, case_id=CASE)
                )
            )
        except AgentFailed as error:
            self._stack.close()
            raise _unavailable(error.failure) from error
        except BaseException:
            self._stack.close()
            raise
        if isinstance(self._conversation, WorkerConversation):
            self._conversation.listen(self._note_step)

    def say(self, parts: Sequence[Part]) -> None:
        """Run the agent's next turn. Raises UnavailableError if it fails or the session is over,
        ConfigError if an answer has no question."""
        with self._turn_lock:
            if self._closed or self.is_over:
                raise UnavailableError("the session with the agent has ended", hint="Start one.")
            questions = {call.id for call in self.questions()}
            if any(part.id not in questions for part in parts if isinstance(part, ToolResponse)):
                raise ConfigError("the agent does not ask this", hint="Load the page again.")
            with self._state_lock:
                self._forget_turn(is_busy=True)
            turn: Invocation | None = None
            try:
                turn = self._conversation.send(Content(parts=tuple(parts), role="user"))
            except AgentFailed as error:
                self.is_over = True
                raise _unavailable(error.failure) from error
            finally:
                with self._state_lock:
                    self._end_turn(turn)

    def _forget_turn(self, *, is_busy: bool = False) -> None:
        self._is_busy = is_busy
        self._text = ""
        self._piece = ""
        self._calls: list[str] = []
        self._entries: dict[int, JsonObject] = {}
        self.serial = time.monotonic_ns()

    def _end_turn(self, turn: Invocation | None) -> None:
        entries = [entry for _, entry in sorted(self._entries.items())]
        self._forget_turn()
        if turn is not None:
            self.turns.append(turn)
            self._views.append(self._view(turn))
        self.traces.append(entries)

    def _note_step(self, step: Step) -> None:
        """Note a step of the current turn; the worker's thread calls this."""
        with self._state_lock:
            self.serial = time.monotonic_ns()
            if isinstance(step, ArtifactMessage):
                file = next(iter(self._file_references([step.part or {}])), None)
                self._artifacts.append({"name": step.name, "version": step.version, "file": file})
            elif not isinstance(step, EventMessage):
                entry = mapped_texts(step.entry, self._redact)
                self._entries.setdefault(step.number, {}).update(entry)
            elif content := step.step().content:
                texts = [part for part in content.parts if isinstance(part, Text)]
                text = "".join(part.text for part in texts if not part.thought)
                if step.partial:
                    self._piece += text
                    return
                self._piece = ""
                self._text += f"{text}\n" if text else ""
                self._calls += [part.name for part in content.parts if isinstance(part, ToolCall)]

    def questions(self) -> list[ToolCall]:
        """The calls of the last turn that a person has to answer."""
        trace = self.traces[-1] if self.traces else []
        # the agent's process may send anything
        ids = [name for entry in trace for name in elements(entry, "long_running_tool_ids")]
        turn = self.turns[-1] if self.turns and not self.is_over else None
        return [call for call in turn.tool_calls if call.id in ids] if turn else []

    def live(self) -> JsonObject:
        """The current turn so far."""
        with self._state_lock:
            return {
                "serial": self.serial,
                "busy": self._is_busy,
                "turns": len(self.traces),
                "over": self.is_over,
                "text": (self._text + self._piece)[-LIVE_TEXT:],
                "calls": self._calls[-100:],
            }

    def view(self) -> JsonObject:
        """The session as the page shows it."""
        with self._state_lock:
            return {
                "suite": self.suite,
                "turns": list(self._views),
                "traces": len(self.traces),
                "state": (self.turns[-1].state if self.turns else None) or {},
                "artifacts": list(self._artifacts),
                "questions": [{"id": call.id, **call_json(call)} for call in self.questions()],
                "over": self.is_over,
            }

    def _view(self, turn: Invocation) -> JsonObject:
        contents = (*(event.content for event in turn.steps), turn.final_response)
        answers = [part for part in turn.user_content.parts if isinstance(part, ToolResponse)]
        return {
            "user": turns.answer_text(turn.user_content) or "",
            "answers": [{"name": part.name, "response": part.response} for part in answers],
            "attached": self._file_references(_files_of([turn.user_content])),
            "answer": turns.answer_text(turn.final_response),
            "calls": [call_json(call) for call in turn.tool_calls],
            "files": self._file_references(_files_of(contents)),
            "seconds": turn.timings.total_s if turn.timings else None,
        }

    def _file_references(self, parts: Iterable[Json]) -> list[JsonObject]:
        """References to the files among the parts: type, size, and the number by which the page
        requests the file, None if there is no room for it."""
        references: list[JsonObject] = []
        for part in parts:
            blob = part.get("inline_data") or part.get("inlineData")
            if isinstance(text := part.get("text"), str):
                data = base64.b64encode(text.encode("utf-8", "replace")).decode()
                blob = {"mime_type": "text/plain", "data": data}
            if not isinstance(blob, dict):
                continue
            mime = str(blob.get("mime_type") or blob.get("mimeType") or "")
            data = str(blob.get("data") or "").replace("-", "+").replace("_", "/")
            self._room -= len(data)
            number = len(self.files) if self._room >= 0 else None
            if number is not None:
                self.files.append({"mime": mime, "data": data})
            references.append({"mime": mime, "size": len(data) * 3 // 4, "number": number})
        return references

    def close(self) -> None:
        """End the session and the agent's processes; a running turn fails."""
        self._closed = True
        # the session is still open, so a running turn fails now
        self._agent.close()
        with self._turn_lock, suppress(AgentFailed):
            self._stack.close()


def call_json(call: ToolCall) -> JsonObject:
    """A call as the page shows it."""
    return {"name": call.name, "args": dict(call.arguments)}


def _files_of(contents: Iterable[Content | None]) -> list[Json]:
    parts = (part for content in contents if content for part in content.parts)
    return [part.data for part in parts if isinstance(part, Attachment)]


def _unavailable(failure: AgentFailure) -> UnavailableError:
    line = failure.detail.strip().splitlines()[-1][:500] if failure.detail.strip() else ""
    return UnavailableError(
        f"the agent failed: {failure.message}", hint="" if line in failure.message else line
    )
