"""The driver `ces`: a live app of Customer Engagement Suite over REST (`runSession`).

Base and head are two versions of an app, or each checkout's export as a separate app. The run
deletes its resources at its end. It notes the name of a resource before it creates it, so that the
next run deletes the leftovers of a killed run."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import threading
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from posixpath import basename

import filelock
from pydantic import BaseModel, Field, field_validator, model_validator

from evalgate.agents.base import (
    Agent,
    AgentDriver,
    AgentFailed,
    AgentSetting,
    Conversation,
    DriverOptions,
    Turns,
    exists,
    kind_of,
)
from evalgate.model import (
    AgentFailure,
    Attachment,
    Case,
    Content,
    Event,
    FailureKind,
    Invocation,
    Part,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Transcript,
    TrialKey,
)
from evalgate.system import isolation, redact
from evalgate.system.http import GoogleToken
from evalgate.text import words
from evalgate.values import (
    Json,
    JsonObject,
    canonical_text,
    digest_of,
    elements,
    is_list_of,
    member,
    with_keys,
)
from evalgate.worker import pipe
from . import read, shapes
from .cxas import TRANSFER
from .live import Live, LiveFailed, address, find_names, mask, move_to_app
from .outcomes import ERRORS, Plan, tool_name
from .read import APP_NAME, Kind
from .shapes import (
    Evaluation,
    EvaluationErrorInfo,
    EvaluationResult,
    ExecutionState,
)

_KINDS = {
    "UNREACHABLE": FailureKind.UNREACHABLE,
    "DEADLINE_EXCEEDED": FailureKind.TIMEOUT,
    "UNKNOWN": FailureKind.PROTOCOL,
}
"""The kinds of failures by code, if the HTTP status does not show them."""
_OURS = re.compile(
    APP_NAME.pattern.removesuffix(r"[^/\s]+") + r"(?:[^/\s]+/deployments/)?evalgate-[0-9a-f]{16}"
)
"""The names of resources that a run creates."""
_EVENT = re.compile(r"<event>([^<>]+)</event>")
_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
MAX_EXPORT_BYTES = 50 * 1024 * 1024
"""The largest export of an app."""


class CesOptions(DriverOptions):
    """The app, and its version."""

    app: str = Field(
        description="The app: projects/P/locations/L/apps/A. With `path`, only its location is used."
    )
    path: str = Field(
        default="", description="A folder with an app's export: it becomes an app for the run."
    )
    version: str = Field(
        default="", description="A version of the app: its id. Default: the draft."
    )
    entry_agent: str = Field(
        default="", description="The agent that the session begins with. Default: the root agent."
    )
    tool_fakes: bool = Field(
        default=False, description="Use the fakes of tools, if the app has any."
    )
    on_platform: bool = Field(
        default=False, description="The platform runs and judges the evaluations (`--on-platform`)."
    )
    endpoint: str = Field(
        default="",
        description="The address of the API, https:// or this machine. Default: CES_API_ENDPOINT, else Google's.",
    )

    @field_validator("app")
    @classmethod
    def _is_an_app(cls, value: str) -> str:
        if not APP_NAME.fullmatch(value):
            raise ValueError("the app must be named projects/P/locations/L/apps/A")
        return value

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        return value and address(value)

    @model_validator(mode="after")
    def _names_one_agent(self) -> CesOptions:
        if self.path and self.version:
            raise ValueError("`path` and `version` name two agents: give one of them")
        return self


# --- temporary resources --------------------------------------------------------------------------


class NameJournal:
    """The names of one run's resources, in a file that stays locked while the run is alive. A
    folder has the files of one address of the API."""

    def __init__(self, folder: Path, live: Live, name: str = "") -> None:
        """`name`: of the file of an earlier run. Raises filelock.Timeout if that run is alive."""
        folder.mkdir(parents=True, exist_ok=True)
        self._live = live
        self._path = folder / (name or f"{uuid.uuid4().hex}.names")
        self._lock = filelock.FileLock(f"{self._path}.lock", thread_local=False)
        self._lock.acquire(blocking=not name)
        if not name:
            self._path.touch()

    def add(self, name: str) -> None:
        """Note a resource before it is created; the name is on the disk when this returns."""
        with self._path.open("a", encoding="utf-8") as out:
            out.write(f"{name}\n")
            out.flush()
            os.fsync(out.fileno())

    def delete_all(self) -> None:
        """Delete the noted resources, the newest first, and the file. Raises LiveFailed; then the
        names stay.

        The author of the file is unknown: only resources with our prefix are deleted."""
        names = self._path.read_text("utf-8", "replace").splitlines()
        for name in filter(_OURS.fullmatch, reversed(names)):
            try:
                self._live.delete(name)
            except LiveFailed as failed:
                if failed.code != "NOT_FOUND":
                    raise
        self._path.unlink()

    def close(self) -> None:
        """Release the file. If it still has names, the next run deletes those resources."""
        self._lock.release()
        if not self._path.exists():
            Path(self._lock.lock_file).unlink(missing_ok=True)


def delete_leftovers(folder: Path, live: Live) -> int:
    """Delete the resources of killed runs; return the number of these runs. Raises LiveFailed."""
    count = 0
    for path in sorted(folder.glob("*.names")):
        try:
            journal = NameJournal(folder, live, path.name)
        except filelock.Timeout:  # the run is alive
            continue
        try:
            if path.exists():
                journal.delete_all()
                count += 1
        finally:
            journal.close()
    return count


# --- a conversation -------------------------------------------------------------------------------


class CesConversation(Turns):
    """A session of the app."""

    takes_history = True

    def __init__(self, live: Live, config: Json, setting: AgentSetting, case: Case) -> None:
        super().__init__(case, setting.limits, redact.redactor(setting.world.environment))
        self._live, self._config = live, dict(config)
        self._app = str(config["session"]).partition("/sessions/")[0]
        self._variables: JsonObject = {}
        self._has_variables = False
        if case.history:
            self._config["historicalContexts"] = [
                {"role": role, "chunks": list(_chunks(content, self._app))}
                for turn in case.history
                for role, content in (
                    ("user", turn.user_content),
                    *(("agent", event.content) for event in turn.steps),
                    ("agent", turn.final_response),
                )
                if content is not None
            ]

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        setup = self.begin()
        session = self._case.session
        initial_state = session.state if session and not self.done else {}
        state = {
            name: value
            for name, value in {**initial_state, **setup.state}.items()
            if name not in self._variables or self._variables[name] != value
        }
        self._variables |= state
        # only new and changed variables
        inputs = [*([{"variables": state}] if state else []), *_inputs(user_content, self._app)]
        config = self._config
        if setup.agent:
            config = {**config, "entryAgent": f"{self._app}/agents/{setup.agent}"}
        timeout_s, too_long = self.limit()
        start_s = time.monotonic()
        try:
            with self.watch:
                response = self._live.call(
                    "POST",
                    f"{self._config['session']}:runSession",
                    body={"config": config, "inputs": inputs},
                    timeout_s=timeout_s,
                    tries=1,  # the runner repeats the trial and slows down all trials
                )
        except LiveFailed as failed:
            kind = _KINDS.get(failed.code) or kind_of(failed.status)
            message = too_long if failed.code == "DEADLINE_EXCEEDED" else str(failed)
            raise self.failed(kind, message, retry_after_s=failed.retry_after_s) from None
        invocation = self._invocation(
            user_content, response, Timings(total_s=time.monotonic() - start_s)
        )
        self.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The session's variables that the app reported; None if it reported none."""
        return dict(self._variables) if self._has_variables else None

    def _invocation(self, user_content: Content, response: Json, timings: Timings) -> Invocation:
        outputs = response.get("outputs")
        if not is_list_of(outputs, dict):
            raise self.failed(FailureKind.PROTOCOL, "the answer has no list of outputs")
        texts = [str(output["text"]) for output in outputs if output.get("text")]
        # the steps of the app
        messages = [
            message
            for output in outputs
            for message in elements(output.get("diagnosticInfo"), "messages")
            if isinstance(message, dict)
        ]
        # the calls that the app leaves to its client
        listed_calls = (elements(output.get("toolCalls"), "toolCalls") for output in outputs)
        call_messages = [
            {"chunks": [{"toolCall": call} for call in calls]} for calls in listed_calls if calls
        ]
        variables = _variables_in(messages)
        self._variables |= variables or {}
        self._has_variables |= variables is not None
        events, answer = _events_and_answer((*messages, *call_messages))
        if answer is not None:  # in place of the texts of outputs
            texts = ["".join(part.text for part in answer.parts if isinstance(part, Text))]
        final_response = Content.of("\n".join(texts), "model")
        has_state = self._has_variables and self._case.ces is not None
        return Invocation(
            user_content=user_content,
            final_response=final_response if texts else None,
            # without diagnostic messages, the tools that were called are unknown
            events=tuple(events) if messages or call_messages else None,
            timings=timings,
            state=dict(self._variables) if has_state else None,
        )


def _event(message: Json) -> Event | None:
    """The event of a message; None for the user's message."""
    role = str(message.get("role") or "agent")
    parts = [part for chunk in message.get("chunks", ()) for part in _parts(chunk)]
    is_response = bool(parts) and all(isinstance(part, ToolResponse) for part in parts)
    if not parts or (role.lower() == "user" and not is_response):
        return None
    return Event(
        author=role, content=Content(parts=tuple(parts), role="user" if is_response else "model")
    )


def _variables_in(messages: Iterable[Json]) -> JsonObject | None:
    """The session's variables in messages; None if they have none."""
    variables = [
        chunk[key]
        for message in messages
        for chunk in message.get("chunks", ())
        for key in ("updatedVariables", "defaultVariables")
        if isinstance(chunk.get(key), dict)
    ]
    if variables:
        return {name: value for values in variables for name, value in values.items()}
    return None


def _events_and_answer(messages: Iterable[Json]) -> tuple[list[Event], Content | None]:
    """The events of messages, and the answer: the content of the last event if it is only text."""
    events = list(filter(None, map(_event, messages)))
    content = events[-1].content if events else None
    if content is None or not all(isinstance(part, Text) for part in content.parts):
        return events, None
    return events[:-1], content


def _parts(chunk: Json) -> Iterator[Part]:
    """The part of a conversation in a chunk of a message, if any."""
    if isinstance(chunk.get("text"), str):
        yield Text(text=chunk["text"])
    elif call := chunk.get("toolCall"):
        call_id = call.get("id") or None
        yield ToolCall(name=_display_name(call), args=call.get("args") or {}, id=call_id)
    elif answer := chunk.get("toolResponse"):
        response, call_id = answer.get("response"), answer.get("id") or None
        yield ToolResponse(name=_display_name(answer), response=response, id=call_id)
    elif transfer := chunk.get("agentTransfer"):
        target = transfer.get("displayName") or basename(str(transfer.get("targetAgent", "")))
        yield ToolCall(name=TRANSFER, args={"agent_name": target})
    elif chunk.get("payload"):
        yield Attachment(data={"payload": chunk["payload"]})


def _display_name(tool: Json) -> str:
    """The display name of a tool, else its id."""
    return str(
        tool.get("displayName")
        or member(tool.get("toolsetTool"), "toolId")
        or basename(str(tool.get("tool", "")))
    )


def _chunks(content: Content, app: str) -> Iterator[JsonObject]:
    for part in content.parts:
        match part:
            case Text(text=text):
                yield {"text": text}
            case ToolCall(name=name, args=args) if name == TRANSFER:
                target = f"{app}/agents/{(args or {}).get('agent_name', '')}"
                yield {"agentTransfer": {"targetAgent": target}}
            case ToolCall(args=fields) | ToolResponse(response=fields):
                is_call = isinstance(part, ToolCall)
                key, name = ("toolCall", "args") if is_call else ("toolResponse", "response")
                tool = {"tool": tool_name(part.name, app), name: dict(fields or {})}
                yield {key: {**tool, **pipe.present(id=part.id)}}
            case Attachment(data=data):
                inline = data.get("inline_data") or data.get("inlineData") or {}
                mime = str(inline.get("mime_type") or inline.get("mimeType") or "")
                key = "image" if mime.startswith("image/") else "blob"
                yield {key: {"mimeType": mime, "data": inline.get("data", "")}}


def _inputs(content: Content, app: str) -> list[JsonObject]:
    """The user's content as SessionInputs; a user calls no tools."""
    inputs: list[JsonObject] = []
    responses = []
    for chunk in _chunks(content, app):
        event = _EVENT.fullmatch(chunk.get("text", ""))
        if event:
            inputs.append({"event": {"event": event[1]}})
        elif "toolResponse" in chunk:
            responses.append(chunk["toolResponse"])
        elif chunk.keys().isdisjoint({"toolCall", "agentTransfer"}):
            inputs.append(chunk)
    if responses:
        inputs.append({"toolResponses": {"toolResponses": responses}})
    return inputs


# --- evaluations that the platform runs -----------------------------------------------------------

_OUTCOME_FIELDS = (
    *("golden", "scenario"),
    *("evaluationMetricsThresholdOverride", "evaluationMetricsConfigOverride"),
)
"""The parts of an evaluation that decide its outcome."""
_KINDS_OF_ERRORS = {error: kind for kind, error in ERRORS.items()}
"""Other errors may be the platform's; they are no crash of the agent."""


def _unmeasured(kind: FailureKind, message: str) -> AgentFailed:
    return AgentFailed(kind.failure(message))


def _turns(live: Live, result: EvaluationResult) -> list[Invocation]:
    """The turns of a run; empty if the platform keeps no conversation of it.

    In a STABLE run of a golden, each turn has a conversation of its own that begins with the
    expected earlier turns: only its last turn belongs to the run. In a NAIVE run, all turns share
    one conversation."""
    replays = result.golden_result.turn_replay_results if result.golden_result else ()
    scenario = result.scenario_result
    names = [scenario.conversation] if scenario else [replay.conversation for replay in replays]
    try:
        stored = {name: _stored_turns(live.get(name)) for name in dict.fromkeys(names) if name}
    except LiveFailed as failed:
        if failed.code not in ("NOT_FOUND", "PERMISSION_DENIED"):
            raise
        return []
    if scenario:
        return stored.get(scenario.conversation, [])
    turns = [
        stored.get(name, [])[
            slice(-1, None) if names.count(name) == 1 else slice(number, number + 1)
        ]
        for number, name in enumerate(names)
    ]
    return [turn for pieces in turns for turn in pieces] if all(turns) else []


def _stored_turns(conversation: Json) -> list[Invocation]:
    """The turns of a stored conversation."""
    invocations = []
    state: JsonObject | None = None
    for turn in conversation.get("turns", ()):
        messages = [message for message in turn.get("messages", ()) if isinstance(message, dict)]
        if variables := _variables_in(messages):
            state = {**(state or {}), **variables}
        events, answer = _events_and_answer(messages)
        user_messages = [
            part
            for message in messages
            if str(message.get("role")).lower() == "user" and _event(message) is None
            for chunk in message.get("chunks", ())
            for part in _parts(chunk)
        ]
        invocations.append(
            Invocation(
                user_content=Content(parts=tuple(user_messages), role="user"),
                final_response=answer,
                events=tuple(events),
                state=state,
            )
        )
    return invocations


# --- the agent ------------------------------------------------------------------------------------


class CesAgent(Agent):
    """An app."""

    def __init__(self, options: CesOptions, setting: AgentSetting) -> None:
        self._options = options
        self._setting = setting
        self._redact = redact.redactor(setting.world.environment)
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._journal: NameJournal | None = None
        self._app = options.app
        self._deployment = ""
        self._failure: AgentFailure | None = None
        self._evaluation_names: dict[str, str] = {}

    def start(self) -> None:
        """Create the resources of the run. Raises AgentFailed, with the same error each time."""
        self._started()

    def _started(self) -> Live:
        with self._lock:
            if self._live is None and self._failure is None:
                try:
                    self._live = self._open_live()
                except LiveFailed as failed:
                    self._failure = FailureKind.START.failure(self._redact(str(failed)))
                except AgentFailed as failed:
                    self._failure = failed.failure
            if self._failure is not None:
                raise AgentFailed(self._failure)
            assert self._live is not None
            return self._live

    def play(self, case: Case, key: TrialKey) -> Transcript | None:  # noqa: ARG002 - the shape of Agent
        """Let the platform run the evaluation. Raises AgentFailed."""
        if not self._options.on_platform:
            return None
        if case.ces is None:
            raise _unmeasured(FailureKind.START, "the platform runs CES evaluations only")
        with closing(self._started().another()) as live_app:
            try:
                return self._run_evaluation(live_app, case)
            except LiveFailed as failed:
                is_refusal = kind_of(failed.status) is FailureKind.RAISED and failed.status >= 400
                kind = FailureKind.START if is_refusal else FailureKind.UNREACHABLE
                raise _unmeasured(kind, self._redact(str(failed))) from None

    def _run_evaluation(self, live: Live, case: Case) -> Transcript:
        """Run an evaluation once (`runEvaluation`). Raises LiveFailed, and AgentFailed if the
        platform did not finish it, or has another evaluation than the case."""
        plan = Plan.model_validate(case.ces or {})
        with self._lock:
            key = canonical_text(plan.evaluation.json())
            if key not in self._evaluation_names:
                self._evaluation_names[key] = self._find_or_write(live, plan)
            name = self._evaluation_names[key]
        # a copy of an earlier result would be no evidence
        caching = {"runCachingMode": "FORCE_RUN"}
        request = {"evaluations": [name], "runCount": 1, "evaluationRunCachingSettings": caching}
        if self._options.version:
            request["appVersion"] = f"{self._app}/versions/{self._options.version}"
        if self._options.tool_fakes:
            request["config"] = {"toolCallBehaviour": "FAKE"}
        if case.conversation is not None:
            is_naive = len(case.conversation) > 1 and not case.isolated
            request["goldenRunMethod"] = "NAIVE" if is_naive else "STABLE"
        operation = live.call("POST", f"{self._app}:runEvaluation", body=request)
        try:
            response = live.wait(operation, timeout_s=self._setting.limits.case_timeout_s)
        except LiveFailed as failed:
            if failed.code == "DEADLINE_EXCEEDED":  # the result is no longer needed
                with suppress(LiveFailed):
                    live.call("POST", f"{operation['name']}:cancel", body={}, tries=1)
            raise
        run = response.get("evaluationRun")
        results = live.listed(name, "results", key="evaluationResults")
        raw = next((raw for raw in results if run and raw.get("evaluationRun") == run), None)
        result, _ = read.parse_message(raw, Kind.RESULT, file=name, unknown=[])
        if not isinstance(result, EvaluationResult):
            raise _unmeasured(FailureKind.UNREACHABLE, "the run has no result that can be read")
        if result.execution_state is not ExecutionState.COMPLETED:
            error = result.error_info or EvaluationErrorInfo()
            error_text = ": ".join(filter(None, (result.execution_state.name, error.error_message)))
            kind = _KINDS_OF_ERRORS.get(error.error_type, FailureKind.UNREACHABLE)
            raise _unmeasured(kind, f"the platform did not finish it: {error_text}")
        turns = tuple(_turns(live, result))
        return Transcript(invocations=turns, isolated=case.isolated, platform=result.json())

    def _find_or_write(self, live: Live, plan: Plan) -> str:
        """The name of the app's evaluation for the plan, created or updated in our own app. In
        other apps, a difference raises AgentFailed."""
        if plan.goals:
            raise _unmeasured(FailureKind.START, "the platform does not run simulations of `cxas`")
        expected = shapes.content_of(plan.evaluation)
        names = find_names(live, self._app, json.dumps(expected))
        expected = move_to_app(expected, self._app, names)
        name, title = expected.pop("name", ""), plan.evaluation.display_name
        stored = {
            raw.get(key): raw
            for raw in live.listed(self._app, "evaluations")
            for key in ("name", "displayName")
        }
        raw = stored.get(name) or stored.get(title)
        message, _ = read.parse_message(raw, Kind.EVALUATION, file=name, unknown=[])
        content = {} if message is None else shapes.content_of(message)
        old, new = (with_keys(side, _OUTCOME_FIELDS) for side in (content, expected))
        paths = mask(old, new, Evaluation)
        if raw is not None and not paths:
            return str(raw["name"])
        if not self._options.path:  # the app is not ours
            reason = f"differs from the file in {words.listed(paths)}" if raw else "is missing"
            refusal = f"the evaluation {title!r} of the app {reason}: `evalgate ces push` writes it"
            raise _unmeasured(FailureKind.START, refusal)
        if raw is None:
            return str(live.create(self._app, "evaluations", expected)["name"])
        body = {**new, "name": raw["name"], "etag": raw.get("etag", "")}
        return str(live.update(body, mask=",".join(paths))["name"])

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:  # noqa: ARG002 - the shape of Agent
        """A separate session for each trial. Raises AgentFailed."""
        with closing(self._started().another()) as live_app:
            agent = self._options.entry_agent
            config = pipe.present(
                session=f"{self._app}/sessions/evalgate-{uuid.uuid4().hex[:16]}",
                deployment=self._deployment,
                entryAgent=agent if not agent or "/" in agent else f"{self._app}/agents/{agent}",
                useToolFakes=self._options.tool_fakes,
            )
            yield CesConversation(live_app, config, self._setting, case)

    def about(self) -> Mapping[str, str]:
        """The app and its version."""
        version = pipe.present(version=self._options.version)
        return {"app": self._options.app, **version} if self._live is not None else {}

    def close(self) -> None:
        """Delete the run's resources. Never raises: the next run deletes the leftovers."""
        with self._lock:
            live_app = self._live
            journal = self._journal
            self._journal = None
            if journal is not None:
                with suppress(OSError, ValueError):
                    try:
                        journal.delete_all()
                    except LiveFailed as failed:
                        self._setting.world.log(
                            self._redact(
                                f"the next run deletes the resources of this one: {failed}"
                            )
                        )
                    journal.close()
            if live_app is not None:
                live_app.close()

    def _connect(self) -> Live:
        environment = self._setting.world.environment
        # google-auth reads this process's environment, not the agent's
        if not environment.get(_CREDENTIALS) and os.environ.get(_CREDENTIALS):
            message = f"no Google Cloud credentials: {self._setting.why_absent(_CREDENTIALS)}"
            raise _unmeasured(FailureKind.START, message)
        return Live(environment, endpoint=self._options.endpoint, token=GoogleToken(environment))

    def _open_live(self) -> Live:
        live_app = self._connect()
        folder = Path(self._setting.world.cache) / "ces" / digest_of(live_app.base, 16)
        try:
            if count := delete_leftovers(folder, live_app):
                self._setting.world.log(
                    f"deleted CES resources of {words.counted(count, 'earlier run')}"
                )
        except LiveFailed as failed:
            self._setting.world.log(
                self._redact(f"CES resources of earlier runs cannot be deleted now: {failed}")
            )
        resource_id = f"evalgate-{uuid.uuid4().hex[:16]}"
        if self._options.path:
            self._import(live_app, folder, resource_id)
        elif self._options.version and not self._options.on_platform:
            # sessions name deployments
            self._journal = NameJournal(folder, live_app)
            self._deployment = f"{self._app}/deployments/{resource_id}"
            self._journal.add(self._deployment)
            body = {
                "displayName": f"evalgate, temporary: {resource_id}",
                "appVersion": f"{self._app}/versions/{self._options.version}",
                "channelProfile": {"channelType": "API"},
            }
            live_app.create(self._app, "deployments", body, resource_id=resource_id)
        else:
            live_app.get(self._app)
        return live_app

    def _import(self, live: Live, folder: Path, app_id: str) -> None:
        """Create an app from the checkout's export."""
        self._journal = NameJournal(folder, live)
        location = self._options.app.partition("/apps/")[0]
        content = _pack(Path(self._setting.root) / self._options.path)
        self._app = f"{location}/apps/{app_id}"
        self._journal.add(self._app)
        body = {
            "appId": app_id,
            "displayName": f"evalgate, temporary: {app_id}",
            "appContent": content,
        }
        new_app = live.wait(live.call("POST", f"{location}/apps:importApp", body=body))
        if new_app.get("name", self._app) != self._app:
            self._app = str(new_app["name"])
            self._journal.add(self._app)


def _pack(folder: Path) -> str:
    """A zip archive of a folder in base64, without links and without the job's credentials. Raises
    AgentFailed if it is empty or too large."""
    secret_files = isolation.credential_files(os.environ)
    buffer = io.BytesIO()
    size = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if (
                path.is_symlink()
                or not path.is_file()
                or path in secret_files
                or any(map(isolation.is_private, inside.parts))
            ):
                continue
            size += path.stat().st_size
            if size > MAX_EXPORT_BYTES:
                message = f"{folder.name} is larger than {MAX_EXPORT_BYTES:,} bytes"
                raise _unmeasured(FailureKind.START, message)
            archive.writestr(inside.as_posix(), path.read_bytes())
    if not size:
        raise _unmeasured(FailureKind.START, f"there are no files in {folder.name}")
    return base64.b64encode(buffer.getvalue()).decode()


class CesDriver(AgentDriver):
    """A live app."""

    name = "ces"
    options = CesOptions
    argument = "app"

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """The app; this makes no request yet."""
        shapes.Proto.build()
        assert isinstance(options, CesOptions)
        return CesAgent(options, setting)

    def is_led(self, options: Json) -> bool:
        """True if the platform runs its evaluations."""
        return bool(options.get("on_platform"))

    def is_remote(self, options: Json) -> bool:
        """True unless the app is created from a folder."""
        return not options.get("path")

    def missing(self, options: Mapping[str, str], root: Path) -> tuple[str, str] | None:
        """The folder of the export, if it is missing."""
        path = options.get("path", "")
        if not path or exists(root / path):
            return None
        return "path", f"there is no folder {path}"

    def is_same_place(self, options: Json, other_options: Json) -> bool:
        """True if app, version and address are equal."""
        return all(
            options.get(name, "") == other_options.get(name, "")
            for name in ("app", "version", "endpoint")
        )


DRIVER = CesDriver()
