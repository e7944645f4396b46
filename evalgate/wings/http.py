"""The driver `http`: an agent behind a URL, either ADK's API server or any endpoint with JSON
requests and responses."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from evalgate.agents.base import (
    Agent,
    AgentDriver,
    AgentFailed,
    AgentSetting,
    Conversation,
    DriverOptions,
    Turns,
    kind_of,
)
from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import SessionEventWire
from evalgate.model import (
    Case,
    Content,
    Event,
    FailureKind,
    Invocation,
    SessionInput,
    Timings,
    ToolCall,
    TrialKey,
    TurnSetup,
    events_of,
    turns,
)
from evalgate.system import http, redact
from evalgate.system.http import Answer, Exchange, ExchangeFailed, Fault
from evalgate.text import words
from evalgate.values import Environ, Json, JsonObject, is_list_of, mapped_json, member
from evalgate.worker import errors

if TYPE_CHECKING:  # only mapped endpoints need it
    from jmespath.parser import ParsedResult

_KINDS = {
    Fault.TIMEOUT: FailureKind.TIMEOUT,
    Fault.UNREACHABLE: FailureKind.UNREACHABLE,
    Fault.TOO_LARGE: FailureKind.FLOODED,
    Fault.REDIRECTS: FailureKind.PROTOCOL,
    Fault.INVALID: FailureKind.START,
}
"""The kind of failure by the fault of an exchange."""


class EndpointTurns(Turns):
    """The turns of a conversation with an endpoint, over one connection."""

    who: ClassVar[str]
    """The endpoint, in words."""

    def __init__(self, agent: HttpAgent, exchange: Exchange, case: Case) -> None:
        """The connection is open; whoever opened it closes it."""
        super().__init__(case, agent.limits, agent.redact)
        self._exchange = exchange
        self._options = agent.options

    def begin(self) -> TurnSetup:
        """Begin the next turn, and return what the case sets for it. Raises AgentFailed if the
        endpoint cannot do it."""
        setup = super().begin()
        if setup.agent:
            raise self.refused(
                f"the case gives the turn to the agent {setup.agent[:80]!r}, which {self.who} does not support"
            )
        return setup

    def ask(self, method: str, url: str, body: Any = None) -> Any:
        """The JSON of the endpoint's response. Raises AgentFailed for any other response."""
        answer = self.answer(method, url, body)
        if answer.status >= 300:
            wait_s = http.parse_retry_after(answer.headers, current_moment=datetime.now(UTC))
            text = f"the endpoint answered with HTTP status {answer.status}"
            if retry_after := answer.headers.get("retry-after"):
                text += f" (Retry-After: {retry_after[:40]})"
            if answer.body.strip():
                text += f": {answer.excerpt()}"
            raise self.failed(
                kind_of(answer.status),
                text,
                detail=answer.excerpt(2000),
                retry_after_s=wait_s,
            )
        try:
            return answer.json()
        except ValueError:
            raise self.refused(f"the answer is not JSON: {answer.excerpt()!r}") from None

    def answer(self, method: str, url: str, body: Any = None) -> Answer:
        """The response, whatever its status. Raises AgentFailed if none arrives."""
        timeout_s, too_long = self.limit()
        try:
            with self.watch:
                return self._exchange.request(method, url, body=body, timeout_s=timeout_s)
        except ExchangeFailed as error:
            message = too_long if error.fault is Fault.TIMEOUT else str(error)
            raise self.failed(_KINDS[error.fault], message) from None

    def refused(self, message: str) -> AgentFailed:
        """A protocol failure of a response or a case, as an exception to raise."""
        return self.failed(FailureKind.PROTOCOL, message)


class AdkServerConversation(EndpointTurns):
    """A session on the server, created for this conversation and deleted after it.

    Its id is always new, because the repeats of a case would share an id from the case. Without a
    `user_id` in the case, every session has its own user too, so that `user:` state is not
    shared."""

    takes_history = False
    """The server has no request that puts turns into a session."""
    who = "ADK's API server"

    def __init__(self, agent: HttpAgent, exchange: Exchange, case: Case) -> None:
        """Create the session. Raises AgentFailed."""
        super().__init__(agent, exchange, case)
        self._url = self._options.url.rstrip("/")
        """Of the server, without a slash at its end."""
        session = case.session or SessionInput()
        self._app = self._options.app_name or session.app_name or self._only_app()
        """That of the options, else of the case, else the server's only one."""
        self._user = session.user_id or f"evalgate-{uuid.uuid4().hex[:12]}"
        users = f"{self._url}/apps/{quote(self._app, safe='')}/users/{quote(self._user, safe='')}/sessions"
        answer = self.ask("POST", users, {"state": {**session.state, **case.setup_of(0).state}})
        self._id = str(member(answer, "id") or "")
        """That of the session, which the server chooses."""
        if not self._id:
            raise self.refused("the server made a session without an id; is it ADK's API server?")
        self._session_url = f"{users}/{quote(self._id, safe='')}"

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        setup = self.begin()
        start_time = time.monotonic()
        body = {
            "app_name": self._app,
            "user_id": self._user,
            "session_id": self._id,
            "new_message": {"role": "user"} | adk_shapes.content_json(user_content),
            "streaming": False,
        }
        if setup.state and self.done:
            body["state_delta"] = dict(setup.state)
        answer = self.ask("POST", f"{self._url}/run", body)
        events = self._events(answer)
        for event in events:
            code = event.error_code
            if code and code not in errors.STOPS and event.content is None:
                description = errors.ModelAnsweredError(code, event.error_message).description
                raise self.failed(FailureKind(description["kind"]), description["message"])
        invocation = adk_shapes.turn_of_steps(
            user_content,
            [event.step() for event in events],
            invocation_id=next(filter(None, (event.invocation_id for event in events)), ""),
            timings=Timings(total_s=time.monotonic() - start_time),
        )
        self.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The session's current state on the server. Raises AgentFailed."""
        session = self.ask("GET", self._session_url)
        state = member(session, "state")
        return state if isinstance(state, dict) else None

    def leave(self) -> None:
        """Delete the session, if the server can."""
        with suppress(AgentFailed):
            self.answer("DELETE", self._session_url)

    def _only_app(self) -> str:
        """The only app that the server lists. Raises AgentFailed if it lists others, or none."""
        apps = self.ask("GET", f"{self._url}/list-apps")
        if isinstance(apps, list) and len(apps) == 1 and isinstance(apps[0], str):
            return apps[0]
        served = "an invalid response"
        if isinstance(apps, list):
            served = ", ".join(map(str, apps[:10]))
        message = f"cannot choose an app (the server lists: {served or 'none'}); set `app_name` in the agent's options"
        raise self.failed(FailureKind.START, message)

    def _events(self, raw: Any) -> list[SessionEventWire]:
        """The events of a turn. Raises AgentFailed if the response has another shape."""
        if not isinstance(raw, list):
            raise self.refused("the server's answer is not a list of events")
        try:
            return [SessionEventWire.model_validate(event) for event in raw]
        except ValidationError as error:
            message = (
                f"the server sent an invalid event: {words.fault_with_place(error.errors()[0])}"
            )
            raise self.refused(message) from None


PLACES = frozenset({"text", "session_id", "state", "user_id", "app_name", "messages", "turn"})
"""Names of placeholders in a request or a URL."""


class EndpointConversation(EndpointTurns):
    """One conversation. `{session_id}` is a new id until the endpoint returns its own."""

    who = "an endpoint"

    def __init__(self, agent: HttpAgent, exchange: Exchange, case: Case) -> None:
        """No request is sent yet. Turns before the case's own become messages."""
        super().__init__(agent, exchange, case)
        assert self._options.response is not None  # see HttpAgent
        paths = self._options.response.model_dump().items()
        self._paths = {name: parse_path(path) for name, path in paths if path}
        """By the name of the option, without those that are not set."""
        session = case.session or SessionInput()
        self._final_state: Json | None = None
        """None until a response has a state."""
        self.takes_history = "messages" in names_in(self._options.request)
        """Only a request with all messages shows them to the agent."""
        self._messages = [
            {"role": role, "content": text}
            for turn in case.history
            for role, text in (
                ("user", turn.user_content.text(with_thoughts=True)),
                ("assistant", turns.answer(turn)),
            )
        ]
        """As `{messages}` fills them in; they grow with each turn."""
        self._values: JsonObject = {
            "session_id": session.session_id or f"evalgate-{uuid.uuid4().hex}",
            "user_id": session.user_id,
            "app_name": session.app_name,
            "state": dict(session.state),
        }
        """By placeholder; a response may replace the session's id and state."""

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        text = user_content.text(with_thoughts=True)
        self._messages.append({"role": "user", "content": text})
        self._values["state"] |= self.begin().state
        values = self._values | {"text": text, "messages": list(self._messages), "turn": self.turn}
        start_time = time.monotonic()
        url = fill(
            self._options.url, {name: quote(str(value), safe="") for name, value in values.items()}
        )
        body = None if self._options.request is None else fill(self._options.request, values)
        answer = self.ask(self._options.method, url, body)
        seconds = time.monotonic() - start_time
        content = self._value_at("text", answer)
        if is_list_of(content, str):
            content = "".join(content)
        elif not isinstance(content, str | int | float):
            raise self._unmatched("text", answer, "a text")
        reply = str(content)
        self._messages.append({"role": "assistant", "content": reply})
        session_id = self._value_at("session_id", answer)
        if isinstance(session_id, str | int) and not isinstance(session_id, bool):
            self._values["session_id"] = str(session_id)
        state = self._value_at("state", answer)
        if isinstance(state, dict):
            self._values["state"] = self._final_state = state
        invocation = Invocation(
            user_content=user_content,
            final_response=Content.of(reply, "model") if reply else None,
            events=self._events(answer),
            timings=Timings(total_s=seconds),
        )
        self.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The state in the last response, if any."""
        return self._final_state

    def leave(self) -> None:
        """Do nothing: the endpoint has no session."""

    def _events(self, answer: Any) -> tuple[Event, ...] | None:
        """One event with the calls of a turn; () without calls, None if no path for calls is
        set."""
        if "tool_calls" not in self._paths:
            return None  # no path for calls is configured: unknown, not empty
        entries = self._value_at("tool_calls", answer)
        if entries is None:
            return ()
        if not isinstance(entries, list):
            raise self._unmatched("tool_calls", answer, "a list of tool calls")
        return events_of([self._call(entry) for entry in entries])

    def _call(self, entry: Any) -> ToolCall:
        """A call from an entry, which may be just a name. Raises AgentFailed for another shape."""
        name = entry if isinstance(entry, str) else self._value_at("tool_name", entry)
        args = self._value_at("tool_args", entry)
        if isinstance(args, str):  # as in OpenAI's API: JSON in a text
            with suppress(ValueError):
                args = json.loads(args)
        if not isinstance(name, str):
            raise self._unmatched("tool_name", entry, "the name of a tool")
        if args is not None and not isinstance(args, dict):
            raise self._unmatched("tool_args", entry, "the arguments of a tool, an object")
        return ToolCall(name=name, args=args)

    def _value_at(self, name: str, answer: Any) -> Any:
        """The value at a path of the options; None if it is null or missing, or no path is given.
        Raises AgentFailed."""
        path = self._paths.get(name)
        if path is None:
            return None
        try:
            return path.search(answer)
        # raised by a function of the expression
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self.refused(f"{path.expression} of the answer: {error}") from None

    def _unmatched(self, name: str, answer: Any, expectation: str) -> Exception:
        """The failure of a response with another value at a path, as an exception to raise."""
        match = self._value_at(name, answer)
        has = f"found {_described(answer)}" if match is None else f"found {_described(match)} there"
        place = self._paths[name].expression
        return self.refused(f"expected {expectation} at {place} of the answer, {has}")


def parse_path(text: str) -> ParsedResult:
    """Parse a JMESPath expression. Raises ValueError with the parser's reason."""
    import jmespath  # noqa: PLC0415 - see above

    try:
        return jmespath.compile(text)
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(":. ")
        raise ValueError(
            f"{text!r} is not a JMESPath expression (like answer.parts[0].text): {reason}"
        ) from None


_PLACE = re.compile(r"\{([a-z_]+)\}")
"""A placeholder; the group is its name."""


def names_in(shape: Any) -> frozenset[str]:
    """All placeholders `{name}` in the texts of a JSON shape, by name. No other brace of Python's
    spelling is followed by a letter."""
    return frozenset(_PLACE.findall(repr(shape)))


def fill(shape: Any, values: Json) -> Any:
    """Replace the placeholders `{name}` of the shape. A text that is only a placeholder becomes the
    value itself.

    Names that are not in `values` remain: they may be braces of the user's own JSON."""

    def filled(leaf: Any) -> Any:
        """A text with its placeholders filled in; any other value as it is."""
        if not isinstance(leaf, str):
            return leaf
        placeholder = _PLACE.fullmatch(leaf)
        if placeholder and placeholder[1] in values:
            return values[placeholder[1]]
        return _PLACE.sub(
            lambda match: _as_text(values[match[1]]) if match[1] in values else match[0], leaf
        )

    return mapped_json(shape, filled, key=lambda key: _as_text(filled(key)))


def _as_text(value: Any) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def with_environment(text: str, environment: Environ) -> str:
    """The text with `${NAME}` replaced by the variable's value. Raises KeyError with the name of a
    missing variable."""
    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda match: environment[match[1]], text)


def _described(value: Any) -> str:
    """A value in a message: an object by its keys, others as JSON, both limited in length."""
    if isinstance(value, dict):
        return f"an object with {', '.join(repr(str(key)[:40]) for key in list(value)[:8]) or 'no keys'}"
    return json.dumps(value, ensure_ascii=False)[:120]


_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")
"""User and password of a URL."""
_MAYBE_SECRET = re.compile(r"(?<=://)[^/?#\s]*@|[?#].*", re.DOTALL)
"""User, password, query and fragment of a URL."""


class ResponseOptions(DriverOptions):
    """The places of values in the endpoint's response: JMESPath expressions such as
    `answer.parts[0].text`."""

    text: str = Field(
        description="The agent's answer: a string, or a list of strings that are joined."
    )
    tool_calls: str | None = Field(
        default=None, description="The list of tool calls; absent: unknown."
    )
    tool_name: str = Field(
        default="name", description="The tool's name, within one item of tool_calls."
    )
    tool_args: str = Field(
        default="args", description="Its arguments, an object or JSON in a text."
    )
    session_id: str | None = Field(default=None, description="The endpoint's session id.")
    state: str | None = Field(default=None, description="The session's state, an object.")

    @field_validator("*")
    @classmethod
    def _is_a_path(cls, value: str | None) -> str | None:
        """Raises ValueError for a path that JMESPath cannot read."""
        if value is not None:
            parse_path(value)
        return value


class HttpOptions(DriverOptions):
    """The agent's address and how to call it."""

    url: str = Field(
        description="URL of ADK's API server or of the endpoint; may contain placeholders like {session_id}."
    )
    flavour: Literal["adk", "mapped"] | None = Field(
        default=None,
        description="`adk` (`adk api_server`) or `mapped`. Default: `mapped` if `response` is set, else `adk`.",
    )
    app_name: str = Field(
        default="", description="adk: the app. Default: the case's, or the server's only one."
    )
    method: Literal["POST", "PUT", "GET"] = Field(
        default="POST", description="mapped: the HTTP method."
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="Sent with every request; ${NAME} is a variable listed in `env`.",
    )
    request: Any = Field(
        default=None,
        description="mapped: the JSON to send, with {text}, {session_id}, {state}, {messages} and others.",
    )
    response: ResponseOptions | None = Field(
        default=None, description="mapped: where to find values in the answer."
    )

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        """Raises ValueError for other addresses."""
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.netloc:
            raise ValueError("the url must begin with http:// or https:// and name a host")
        return url

    @model_validator(mode="after")
    def _validate_kind(self) -> HttpOptions:
        """Raises ValueError if options are missing for the flavour, or have no effect in it."""
        is_mapped = self.kind == "mapped"
        if is_mapped and self.response is None:
            raise ValueError(
                "a mapped endpoint needs `response` with the path to the answer's text"
            )
        if not is_mapped and (self.request is not None or self.response is not None):
            raise ValueError("`request` and `response` need `flavour: mapped`")
        names = names_in(self.request) | names_in(self.url)
        for name in sorted(names - PLACES):
            suggestion = words.nearest(name, PLACES, cutoff=0.75)
            if is_mapped and suggestion is not None:
                raise ValueError(
                    f"{{{name}}} will not be filled in; did you mean {{{suggestion}}}?"
                )
        if is_mapped and self.method != "GET" and not names & {"text", "messages"}:
            raise ValueError(
                "`request` or `url` must contain the user's text: {text} or {messages}"
            )
        return self

    @property
    def kind(self) -> str:
        """The flavour, as set or as implied by `response`."""
        return self.flavour or ("mapped" if self.response is not None else "adk")


class HttpAgent(Agent):
    """An endpoint."""

    def __init__(self, options: HttpOptions, setting: AgentSetting) -> None:
        """Raises AgentFailed if a header refers to a missing variable."""
        self.options = options
        self.limits = setting.limits
        self._environment = setting.world.environment
        """With proxies and certificates, and the variables of headers."""
        self._headers: dict[str, str] = {}
        """With the values of variables, so they may be secret."""
        for name, value in options.headers.items():
            try:
                self._headers[name] = with_environment(value, self._environment)
            except KeyError as error:
                variable = str(error.args[0])
                message = (
                    f"the header {name} refers to ${{{variable}}}: {setting.why_absent(variable)}"
                )
                raise AgentFailed(FailureKind.START.failure(message)) from None
        self.redact = redact.redactor(self._environment, self._headers.values())
        """Removes secret variables and all headers' values from messages."""

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:  # noqa: ARG002 - the shape of Agent
        """A new session for each trial. Raises AgentFailed."""
        exchange = Exchange(
            environment=self._environment,
            headers=self._headers,
            most_bytes=self.limits.output_bytes,
        )
        is_adk = self.options.response is None
        shape = AdkServerConversation if is_adk else EndpointConversation
        with closing(exchange):
            conversation = shape(self, exchange, case)
            try:
                yield conversation
            finally:
                conversation.leave()

    def about(self) -> Mapping[str, str]:
        """The URL without user and password, and the flavour."""
        return {"url": _USER_INFO.sub("", self.options.url), "flavour": self.options.kind}


class HttpDriver(AgentDriver):
    """An endpoint."""

    name = "http"
    options = HttpOptions
    argument = "url"

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """The endpoint; no request is sent yet. Raises AgentFailed if a header refers to a missing
        variable."""
        assert isinstance(options, HttpOptions)
        return HttpAgent(options, setting)

    def is_remote(self, options: Json) -> bool:  # noqa: ARG002 - the shape of AgentDriver
        """Always True."""
        return True

    def label(self, options: Json) -> str:
        """The URL without secrets."""
        return super().label({"url": _MAYBE_SECRET.sub("", str(options.get("url", "")))})


DRIVER = HttpDriver()
