"""The page's requests: each method answers one of them and calls the gate. Its signature checks the
fields of the request (app.py)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from evalgate.agents import toolbox
from evalgate.config import load
from evalgate.config.gate_file import RuleShape
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, EvalgateError, NothingToDo, Place
from evalgate.formats import expectations, fingerprints, rewrite
from evalgate.formats.recordings import Recording
from evalgate.gate import edit, prepare, stored_results, waiting
from evalgate.gate.edit import CaseUnchanged, TurnEdit
from evalgate.gate.stored_results import StoredCase
from evalgate.model import (
    Attachment,
    Case,
    CaseKey,
    Part,
    Rubric,
    Suite,
    Text,
    ToolCall,
    ToolResponse,
    Transcript,
    call_diff,
    events_of,
)
from evalgate.reports import html_report, turns
from evalgate.results import kept
from evalgate.results.file import Stored
from evalgate.results.output import BASE_RESULTS
from evalgate.text import templates
from evalgate.text.templates import Safe
from evalgate.values import JsonObject
from .chat import Chat, call_json
from .running import Running

LATEST = ""
"""Used as the name of a run: the newest results of each case."""
OF_RUN = ":base"
"""The suffix of a run's name that means the base of its comparison."""
NONE = "none"
UNCHANGED: Mapping[int, Any] = {}


Number: TypeAlias = Annotated[int, Field(ge=0)]


class PagePart(RuleShape):
    """A part of a request."""


class Call(PagePart):
    """A tool call that a case expects."""

    name: str = Field(min_length=1)
    args: JsonObject = Field(default_factory=dict)


class File(PagePart):
    """A file for the agent, in base64."""

    mime: str = Field(pattern=r"^[\w.+-]{1,60}/[\w.+-]{1,90}$")
    data: str = Field(pattern="^[A-Za-z0-9+/]*={0,2}$")


class FunctionResponse(PagePart):
    """The answer to a call that waits for one."""

    id: str
    name: str
    response: JsonObject


class Workspace:
    """One repository under `options` and evalgate.yml. Many threads may use it."""

    def __init__(self, options: JsonObject) -> None:
        """Raises ConfigError if the options are invalid."""
        self._given = dict(options)
        self.running = Running(str(self.settings().root))
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._chat: Chat | None = None

    def settings(self) -> Settings:
        """The current settings. Raises ConfigError."""
        return load.load_settings(self._given)

    def close(self) -> None:
        """End the run and the session."""
        self.end_chat()
        self.running.close()

    # --- looking ------------------------------------------------------------------------------

    def page(self, head: str, base: str | None) -> tuple[str, str]:
        """The page of a run (LATEST: the newest results of each case) alongside a base, and its
        policy. Raises EvalgateError."""
        settings = self.settings()
        context = prepare.make_context(settings)
        head_results, base_results = self._sides(settings, head)
        if base in (NONE, ""):
            base_results = None
        elif base is not None:
            base_results = stored_results.read_run(self._results(settings, base), of="the base")
        report = stored_results.compare_stored(
            settings, context, head=head_results, base=base_results
        )
        style, script = (
            templates.source(name, package=__package__) for name in ("ui.css", "ui.js")
        )
        return html_report.render_live(report, style=Safe(style), script=Safe(script))

    def state(self) -> JsonObject:
        """The cases, criteria, kept runs and waiting changes."""
        settings = self.settings()
        suites, problems = self._suites(settings)
        return {
            "suites": [
                {
                    "key": suite.key,
                    "problem": suite.problem,
                    "cases": [case.case_id for case in suite.cases],
                    "criteria": [use.name for use in suite.criteria],
                }
                for suite in suites
            ],
            "problems": problems,
            "runs": [
                {
                    "id": run.folder.name,
                    "at": run.started_at,
                    "commit": run.commit[:7],
                    "dirty": run.dirty,
                    "kind": run.verdict.value,
                    "cases": len(run.outcomes()),
                    "complete": run.complete,
                    "base": (run.folder / BASE_RESULTS).is_file(),
                }
                for run in kept.runs(settings.root)
            ],
            "waiting": [
                {key: getattr(change, key) for key in ("name", "reasons", "diff", "version")}
                for change in waiting.changes(settings.root).values()
            ],
            "run": self.running.snapshot(),
            "chat": None if self._chat is None else self._chat_json(self._chat),
        }

    def case(self, suite: str, case: str) -> JsonObject:
        """The case in the current form of its file, for the editor. Raises EvalgateError."""
        eval_case = self._case((suite, case))
        return {
            "version": fingerprints.of_case(eval_case),
            "rubrics": [
                {"id": rubric.rubric_id, "text": rubric.text} for rubric in eval_case.rubrics
            ],
            "turns": [
                {
                    "user": turns.answer_text(turn.user_content) or "",
                    "answer": turns.answer_text(turn.final_response),
                    "calls": None if turn.events is None else list(map(call_json, turn.tool_calls)),
                }
                for turn in eval_case.turns
            ],
        }

    # --- running ------------------------------------------------------------------------------

    def run(
        self,
        which: Literal["all", "failed", "selected"],
        cases: Sequence[CaseKey] = (),
        scored: Sequence[str] | None = None,
        *,
        fresh: bool = False,
    ) -> JsonObject:
        """Start a run of all cases, of the cases that failed last, or of `cases`. `scored`: the
        criteria to score; None: all criteria. Raises EvalgateError."""
        settings = self.settings()
        options = dict(self._given)
        if which == "failed":
            options["paths"], _ = stored_results.failed(settings)
        elif which == "selected":
            if not cases:
                raise ConfigError("no case is selected")
            # a selection of paths cannot name an id with a comma
            for _, case_id in cases:
                if "," in case_id:
                    message = f"case {case_id!r} cannot be selected: its id has a comma"
                    raise ConfigError(message, hint="Run its whole file.")
            options["paths"] = stored_results.selection(cases)
        if fresh:
            options["fresh"] = True
        reproduce = load.render_command(load.load_settings(options), folder="")
        self.running.start(options, scored=scored, reproduce=reproduce)
        return self.running.snapshot()

    def rebuild(self) -> JsonObject:
        """Run all cases after a change of the code, without reused results, and reopen the session
        with the agent in new processes. Raises EvalgateError."""
        chat = self._chat
        snapshot = self.run("all", fresh=True)
        if chat is not None:
            self.open_chat(chat.suite)
        return snapshot

    def stop(self) -> JsonObject:
        """Stop the run."""
        self.running.stop()
        return self.running.snapshot()

    # --- changing -----------------------------------------------------------------------------

    def accept(
        self,
        suite: str,
        case: str,
        *,
        head: str = LATEST,
        parts: Sequence[str] = (),
        run: Annotated[int, Field(ge=1)] | None = None,
        version: str = "",
    ) -> JsonObject:
        """The changes of its file if a case is accepted. A call with `version`, which a call
        without one returned, makes them. Raises ConfigError, UnavailableError."""
        settings = self.settings()
        stored_cases: Mapping[CaseKey, StoredCase] = {}
        if head != LATEST:
            stored_cases = stored_results.of_file(self._results(settings, head))
        else:
            with suppress(NothingToDo):
                _, stored_cases = stored_results.current(settings)
        stored_case = stored_cases.get((suite, case))
        if stored_case is None:
            raise ConfigError(f"there are no results of case {case!r}", hint="Run it first.")
        with self._writing:
            try:
                proposal = edit.propose(
                    stored_case, root=settings.root, parts=parts, run_number=run
                )
            except CaseUnchanged as reason:
                raise ConfigError(f"not accepted: {reason}") from reason
            source, new_text = edit.apply(proposal)
            current_version = fingerprints.digest([source.text, new_text])
            if version and version != current_version:
                raise ConfigError(
                    "the file or the results were changed meanwhile", hint="Look at it again."
                )
            if version:
                rewrite.save(source, new_text)
        return {
            "changes": [_change(change) for change in proposal.changes],
            "version": current_version,
            "written": bool(version),
        }

    def decide(self, change: str, version: str, *, accept: bool) -> JsonObject:
        """Make or drop a waiting change. Raises ConfigError, also if the change is no longer
        `version`, and UnavailableError."""
        root = self.settings().root
        with self._writing:
            (waiting_change,) = waiting.select(root, [change])
            if waiting_change.version != version:
                raise ConfigError("the change is another by now", hint="Look at it again.")
            (waiting.accept if accept else waiting.drop)(root, waiting_change)
        return {"written": accept}

    def edit(
        self,
        suite: str,
        case: str,
        version: str,
        *,
        answers: Mapping[int, str] = UNCHANGED,
        calls: Mapping[int, Sequence[Call]] = UNCHANGED,
        rubrics: Sequence[tuple[str, str]] | None = None,
    ) -> JsonObject:
        """Change the expectations of a case; absent ones stay. Raises ConfigError,
        UnavailableError."""
        key = (suite, case)
        new_calls = {
            turn: [ToolCall(name=call.name, args=call.args) for call in turn_calls]
            for turn, turn_calls in calls.items()
        }
        with self._writing:
            texts = {name: text.strip() for name, text in rubrics or ()}
            if len(texts) != len(rubrics or ()) or not all((*texts, *texts.values())):
                message = "each rubric needs an id of its own and a text"
                raise ConfigError(message, place=Place(suite))
            old_rubrics = {rubric.rubric_id: rubric for rubric in self._case(key).rubrics}
            new_rubrics = [
                replace(old_rubrics.get(name) or Rubric(rubric_id=name, text=text), text=text)
                for name, text in rubrics or ()
            ]

            def change_text(text: str) -> str:
                for turn in sorted({*answers, *calls}):
                    steps = events_of(new_calls.get(turn, ())) if turn in calls else None
                    text = expectations.change(
                        text,
                        file=suite,
                        case_id=case,
                        turn=turn,
                        answer=answers.get(turn),
                        steps=steps,
                    )
                if rubrics is None:
                    return text
                return expectations.set_rubrics(text, file=suite, case_id=case, rubrics=new_rubrics)

            rewrite.save(*edit.changed(self.settings().root, key, version, change_text))
        return {"written": True}

    def delete(self, suite: str, case: str, version: str) -> JsonObject:
        """Delete a case from its file. Raises ConfigError, UnavailableError."""
        delete_case = partial(expectations.delete_case, file=suite, case_id=case)
        with self._writing:
            rewrite.save(*edit.changed(self.settings().root, (suite, case), version, delete_case))
        return {"written": True}

    # --- talking ------------------------------------------------------------------------------

    def open_chat(self, suite: str) -> JsonObject:
        """Open a session with the agent of a suite; an open session ends first. Raises
        EvalgateError."""
        settings = self.settings()
        suites, problems = self._suites(settings)
        by_key = {candidate.key: candidate for candidate in suites}
        if suite not in by_key or by_key[suite].problem:
            reason = by_key[suite].problem if suite in by_key else "; ".join(problems)
            raise ConfigError(f"{suite} cannot be run: {reason}")
        context = prepare.make_context(settings)
        with self._opening:  # if two pages open a session at once, one of the sessions stays
            self.end_chat()
            chat = self._chat = Chat(by_key[suite], settings, context)
        return self._chat_json(chat)

    def say(
        self,
        text: str = "",
        files: Sequence[File] = (),
        replies: Sequence[FunctionResponse] = (),
    ) -> JsonObject:
        """Send a message to the agent: a text, files, or answers to its questions. Raises
        EvalgateError."""
        parts: list[Part] = [
            ToolResponse(id=reply.id, name=reply.name, response=reply.response) for reply in replies
        ]
        parts += [Text(text=text)] if text else []
        parts += [
            Attachment(data={"inline_data": {"mime_type": file.mime, "data": file.data}})
            for file in files
        ]
        if not parts:
            raise ConfigError("nothing was said")
        chat = self._open()
        chat.say(parts)
        return self._chat_json(chat)

    def live(self) -> JsonObject:
        """The agent's current turn, with a serial that changes whenever the session does."""
        chat = self._chat
        return {"serial": 0} if chat is None else chat.live()

    def chat_file(self, number: Number) -> JsonObject:
        """A file of the session, in base64. Raises ConfigError."""
        files = self._open().files
        if number >= len(files):
            raise ConfigError("there is no such file in the session")
        return files[number]

    def trace(self, number: Number) -> JsonObject:
        """The trace of a turn of the session, counted from 0. Raises ConfigError."""
        traces = self._open().traces
        if number >= len(traces):
            raise ConfigError("there is no such turn in the session")
        return {"entries": traces[number]}

    def save_chat(self, suite: str, case: Annotated[str, Field(min_length=1)]) -> JsonObject:
        """Save the session as a case in a file, without secrets; return the id of the case. Raises
        ConfigError, UnavailableError."""
        chat_turns = tuple(self._open().turns)
        if not chat_turns:
            raise ConfigError("nothing was said yet")
        parts = (part for turn in chat_turns for part in turn.user_content.parts)
        if any(isinstance(part, ToolResponse) for part in parts):
            raise ConfigError(
                "a session in which you answered a tool's question cannot be saved as a case",
                hint="The question has another id in every run. Start a session without one.",
            )
        settings = self.settings()
        source, _ = edit.find(settings.root, (suite, case))
        recording = Recording(
            case_id=case, eval_set_id=None, transcript=Transcript(invocations=chat_turns)
        )
        with self._writing:
            cases = edit.add(source.path, [recording], name=case)
        return {"written": True, "case": cases[0].case_id}

    def end_chat(self) -> JsonObject:
        """End the session, if any."""
        chat = self._chat
        self._chat = None
        if chat is not None:
            chat.close()
        return {"chat": None}

    def _open(self) -> Chat:
        if self._chat is None:
            raise ConfigError("there is no session with an agent", hint="Start one.")
        return self._chat

    def _chat_json(self, chat: Chat) -> JsonObject:
        return {**chat.view(), "tools": toolbox.mode_of(self.settings()).value}

    # --- what is there ------------------------------------------------------------------------

    def _suites(self, settings: Settings) -> tuple[Sequence[Suite], list[str]]:
        """The suites of a run, none if an error prevents it, and all problems."""
        try:
            project = prepare.prepare(settings)
            if not project.fatal():
                project = project.set_apart()
        except EvalgateError as error:
            return (), [str(error.message), *map(str, error.problems)]
        return project.suites, [problem.text for problem in project.problems]

    def _case(self, key: CaseKey) -> Case:
        _, case = edit.find(self.settings().root, key)
        if case is None:
            raise ConfigError(
                f"there is no case {key[1]!r} in {key[0]}", hint="Load the page again."
            )
        return case

    def _sides(self, settings: Settings, head: str) -> tuple[Stored, Stored | None]:
        """The results of a run, and those of the base of its comparison, if any."""
        if head != LATEST:
            results = self._results(settings, head)
            base = results.with_name(BASE_RESULTS)
            return stored_results.read_decided(results, of="the head"), (
                stored_results.read_run(base, of="the base") if base.is_file() else None
            )
        stored_cases: Mapping[CaseKey, StoredCase] = {}
        with suppress(NothingToDo):
            stored_cases = stored_results.newest(settings)
        return stored_results.together(settings, stored_cases)

    def _results(self, settings: Settings, name: str) -> Path:
        """The results file of a kept run, by its folder's name. Raises ConfigError."""
        folder = name.removesuffix(OF_RUN)
        for run in kept.runs(settings.root):
            if run.folder.name == folder:
                return run.folder / BASE_RESULTS if name.endswith(OF_RUN) else run.results
        hint = "Old runs are removed: open the page anew."
        raise ConfigError(f"no run {name[:100]!r} is kept", hint=hint)


def _change(change: TurnEdit) -> JsonObject:
    """The new expectations of a turn: the old and the new answer, and the lines of its calls."""
    turn = change.turn
    pairs = call_diff.pair(turn.expected_calls or (), turn.actual_calls or ())
    return {
        "turn": turn.number - 1,
        "answer": None if change.answer is None else [turn.expected_answer or "", change.answer],
        "calls": [[line.mark, line.text] for line in call_diff.difference(pairs)]
        if change.edits_calls
        else None,
    }
