"""The driver `http`: an agent behind a URL, ADK's API server or any endpoint that takes and gives JSON."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evalgate import words
from evalgate.model import (
    AgentFailure,
    Case,
    CriterionUse,
    Evidence,
    FailureKind,
    Grade,
    NotEvaluated,
    Reason,
    TrialKey,
)
from evalgate.plugins import Agent, AgentFailed, AgentSetting, Conversation, ToolHandling
from evalgate.process import redaction
from evalgate.sessions.adk_server import AdkServerConversation
from evalgate.sessions.endpoints import Line
from evalgate.sessions.mapped_endpoint import PLACES, EndpointShape, MappedConversation
from evalgate.web import json_path, placeholders
from evalgate.web.exchange import Exchange

_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


class ResponseOptions(BaseModel):
    """Where in the endpoint's answer things stand: small JSON paths like `$.answer.parts[0].text`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(description="The agent's answer: a text, or a list of texts that belong together.")
    tool_calls: str | None = Field(default=None, description="The list of tool calls; absent: unknown.")
    tool_name: str = Field(default="$.name", description="The tool's name, within one item of tool_calls.")
    tool_args: str = Field(default="$.args", description="Its arguments, an object or JSON in a text.")
    session_id: str | None = Field(default=None, description="The endpoint's session id.")
    state: str | None = Field(default=None, description="The session's state, an object.")

    @field_validator("*")
    @classmethod
    def _is_a_path(cls, value: str | None) -> str | None:
        if value is not None:
            json_path.parse_json_path(value)
        return value


class HttpOptions(BaseModel):
    """Where the agent is and how to talk to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Address of ADK's API server, or of the endpoint; may hold {session_id} and others.")
    flavour: Literal["adk", "mapped"] | None = Field(
        default=None, description="`adk` (`adk api_server`) or `mapped`; by default `mapped` where response is given."
    )
    app_name: str = Field(default="", description="adk: the app; by default the case's, or the server's only one.")
    method: Literal["POST", "PUT", "GET"] = Field(default="POST", description="mapped: the HTTP method.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Sent with every request; ${NAME} is a variable listed in `env`."
    )
    request: Any = Field(
        default=None, description="mapped: the JSON to send, with {text}, {session_id}, {state}, {messages} and others."
    )
    response: ResponseOptions | None = Field(default=None, description="mapped: where to find values in the answer.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ValueError("the url must begin with http:// or https:// and name a host")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> HttpOptions:
        mapped = self.kind == "mapped"
        if mapped and self.response is None:
            raise ValueError("a mapped endpoint needs `response`, with the path of the answer's text")
        if not mapped and (self.request is not None or self.response is not None):
            raise ValueError("`request` and `response` need `flavour: mapped`")
        used = placeholders.names_in(self.request) | placeholders.names_in(self.url)
        for name in sorted(used - PLACES):
            meant = words.nearest(name, PLACES, cutoff=0.75)
            if mapped and meant is not None:
                raise ValueError(f"{{{name}}} will not be filled in; did you mean {{{meant}}}?")
        if mapped and self.method != "GET" and not used & {"text", "messages"}:
            raise ValueError("`request` or `url` must contain the user's text: {text} or {messages}")
        return self

    @property
    def kind(self) -> str:
        """The flavour, as given or as meant."""
        return self.flavour or ("mapped" if self.response is not None else "adk")


class HttpAgent:
    """An endpoint (plugins.Agent)."""

    def __init__(self, options: HttpOptions, setting: AgentSetting) -> None:
        self._options = options
        self._setting = setting
        self._headers = _expanded(options.headers, setting)
        secrets = dict(enumerate(self._headers.values()))
        self._redact = redaction.redactor(
            {**setting.environment, **{f"HEADER_{number}_SECRET": value for number, value in secrets.items()}}
        )

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:  # noqa: ARG002 - the shape of Agent
        """A session of its own for each trial. Raises AgentFailed."""
        limits = self._setting.limits
        exchange = Exchange(
            environment=self._setting.environment, headers=self._headers, most_bytes=limits.output_bytes
        )
        line = Line(exchange, limits=limits, redact=self._redact)
        try:
            conversation = self._conversation(line, case)
            try:
                yield conversation
            finally:
                conversation.leave()
        finally:
            line.close()

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:  # noqa: ARG002 - as above
        """Custom metrics are Python code of the repository, and here is none."""
        message = f"the metric {code} is Python code, which this agent's driver does not run"
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message=message)

    def about(self) -> Mapping[str, str]:
        """Where it is."""
        return {"url": _USER_INFO.sub("", self._options.url), "flavour": self._options.kind}

    def close(self) -> None:
        """Nothing stays open between conversations."""

    def _conversation(self, line: Line, case: Case) -> AdkServerConversation | MappedConversation:
        options = self._options
        if options.response is None:
            return AdkServerConversation(line, url=options.url, app_name=options.app_name, case=case)
        return MappedConversation(line, shape=_shape(options, options.response), case=case)


class HttpDriver:
    """One row of DRIVERS."""

    name = "http"
    options = HttpOptions
    tools = ToolHandling.UNSEEN
    runs_metrics = False

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """The endpoint; nothing is asked yet. Raises AgentFailed where a header names an absent variable."""
        assert isinstance(options, HttpOptions)
        return HttpAgent(options, setting)


DRIVER = HttpDriver()


def _shape(options: HttpOptions, response: ResponseOptions) -> EndpointShape:
    parse = json_path.parse_json_path
    return EndpointShape(
        method=options.method,
        url=options.url,
        request=options.request,
        text=parse(response.text),
        tool_calls=parse(response.tool_calls) if response.tool_calls else None,
        tool_name=parse(response.tool_name),
        tool_args=parse(response.tool_args),
        session_id=parse(response.session_id) if response.session_id else None,
        state=parse(response.state) if response.state else None,
    )


def _expanded(headers: Mapping[str, str], setting: AgentSetting) -> dict[str, str]:
    expanded = {}
    for name, value in headers.items():
        try:
            expanded[name] = placeholders.expand(value, setting.environment)
        except KeyError as error:
            variable = str(error.args[0])
            message = f"the header {name} refers to ${{{variable}}}: {setting.why_absent(variable)}"
            raise AgentFailed(AgentFailure(kind=FailureKind.START, message=message)) from None
    return expanded
