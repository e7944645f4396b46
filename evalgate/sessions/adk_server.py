"""Conversations with ADK's own API server (`adk api_server`), over HTTP."""

from __future__ import annotations

import time
import uuid
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from evalgate.model import Case, Content, FailureKind, Invocation, Json, SessionInput, Timings
from evalgate.plugins import AgentFailed
from evalgate.sessions.endpoints import Line
from evalgate.wire import assembly, writing
from evalgate.wire.session_events import SessionEventWire

_KINDS = {
    "429": FailureKind.RATE_LIMITED,
    "RESOURCE_EXHAUSTED": FailureKind.RATE_LIMITED,
    "500": FailureKind.UNREACHABLE,
    "503": FailureKind.UNREACHABLE,
    "UNAVAILABLE": FailureKind.UNREACHABLE,
}  # error codes of a model that a retry may cure


class AdkServerConversation:
    """A session on the server, made for this conversation and deleted after it.

    Its id is always a fresh one: an id that a case asks for would be shared by the repeats of the case. Without a
    `user_id` in the case every session has a user of its own too, so that `user:` state is not shared.
    """

    def __init__(self, line: Line, *, url: str, app_name: str, case: Case) -> None:
        """Create the session. Raises AgentFailed."""
        self._line = line
        self._url = url.rstrip("/")
        session = case.session or SessionInput()
        self._app = app_name or session.app_name or self._only_app()
        self._user = session.user_id or f"evalgate-{uuid.uuid4().hex[:12]}"
        users = f"{self._url}/apps/{quote(self._app, safe='')}/users/{quote(self._user, safe='')}/sessions"
        made = line.ask("POST", users, {"state": dict(session.state)})
        self._id = str(made.get("id") or "") if isinstance(made, dict) else ""
        if not self._id:
            raise line.failed(FailureKind.PROTOCOL, "the server made a session without an id; is it ADK's API server?")
        self._session_url = f"{users}/{quote(self._id, safe='')}"

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        self._line.turn = len(self._line.done) + 1
        began = time.monotonic()
        said = writing.content_json(user_content)
        body = {
            "app_name": self._app,
            "user_id": self._user,
            "session_id": self._id,
            "new_message": {"role": "user"} | said,
            "streaming": False,
        }
        answer = self._line.ask("POST", f"{self._url}/run", body)
        events = self._events(answer)
        self._refuse_errors(events, answer)
        invocation = assembly.assemble(
            user_content,
            [event.noun() for event in events],
            invocation_id=next((event.invocation_id for event in events if event.invocation_id), ""),
            timings=Timings(total_s=time.monotonic() - began),
        )
        self._line.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The session's state as the server has it now. Raises AgentFailed."""
        session = self._line.ask("GET", self._session_url)
        state = session.get("state") if isinstance(session, dict) else None
        return state if isinstance(state, dict) else None

    def leave(self) -> None:
        """Delete the session; a server that cannot keeps it."""
        try:
            self._line.answer("DELETE", self._session_url)
        except AgentFailed:
            return

    def _only_app(self) -> str:
        apps = self._line.ask("GET", f"{self._url}/list-apps")
        if isinstance(apps, list) and len(apps) == 1 and isinstance(apps[0], str):
            return apps[0]
        served = ", ".join(str(app) for app in apps[:10]) if isinstance(apps, list) else "something other than names"
        message = f"which app? The server has {served or 'none'}; set app_name in the agent's options"
        raise self._line.failed(FailureKind.START, message)

    def _events(self, raw: Any) -> list[SessionEventWire]:
        if not isinstance(raw, list):
            raise self._line.failed(FailureKind.PROTOCOL, "the server's answer is not a list of events")
        try:
            return [SessionEventWire.model_validate(event) for event in raw]
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"])
            message = f"the server sent an invalid event: {where}: {first['msg']}"
            raise self._line.failed(FailureKind.PROTOCOL, message) from None

    def _refuse_errors(self, events: list[SessionEventWire], raw: list[Any]) -> None:
        for event, said in zip(events, raw, strict=True):
            if event.error_code and event.content is None:
                words = said.get("errorMessage") or said.get("error_message")
                message = f"the model answered with error {event.error_code}" + (f": {words}" if words else "")
                raise self._line.failed(_KINDS.get(event.error_code.upper(), FailureKind.MODEL_ERROR), message)
