"""One conversation with an ADK agent: services of its own, turns through google-adk's Runner."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from . import adk_thrift, faults, turn_watch
from .adk_loading import LoadedAgent

Message = dict[str, Any]


class AdkSession:
    """Nothing of it is shared with another session but the agent's own Python objects.

    ADK shares one session service among all cases, where `user:` and `app:` state outlives the case that set it.
    """

    def __init__(self, loaded: LoadedAgent, plugins: tuple[Any, Any], start: Message, default_app: str) -> None:
        self._app_name = start.get("app_name") or default_app
        self._user_id = start.get("user_id") or "test_user_id"
        self._session_id = start.get("session_id") or f"evalgate-{uuid.uuid4()}"
        self._state = start.get("state") or {}
        self._service = InMemorySessionService()
        self._runner = Runner(
            **_target(loaded, plugins, self._app_name),
            session_service=self._service,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
        )

    async def open(self) -> AdkSession:
        """Create the session with its initial state."""
        session = await self._service.create_session(
            app_name=self._app_name, user_id=self._user_id, session_id=self._session_id, state=self._state
        )
        self._session_id = session.id
        return self

    async def turn(self, content: Message, emit: Callable[[Message], None]) -> Message:
        """Run one turn; every event goes to `emit` as it comes.

        Raises what the agent raises, and faults.ModelAnsweredError where a model's error is the last word.
        """
        message = types.Content.model_validate({**content, "role": content.get("role") or "user"})
        watch = turn_watch.TurnWatch()
        turn_watch.CURRENT.set(watch)
        authors: list[str] = []
        failed: Any = None
        invocation_id = ""
        async for event in self._runner.run_async(
            user_id=self._user_id, session_id=self._session_id, new_message=message, **adk_thrift.run_options()
        ):
            invocation_id = invocation_id or event.invocation_id
            if event.partial:
                continue
            failed = _failed(event, failed)
            authors.append(event.author)
            emit(_event(event))
        if failed is not None:
            raise faults.ModelAnsweredError(failed.error_code, failed.error_message)
        answer: Message = {"timings": watch.timings(), "invocation_id": invocation_id}
        agents = watch.agents(authors)
        if agents:
            answer["agents"] = agents
        return answer

    async def end(self) -> Message:
        """The session's state at the end, without what ADK calls temporary."""
        session = await self._service.get_session(
            app_name=self._app_name,
            user_id=self._user_id,
            session_id=self._session_id,
            config=GetSessionConfig(num_recent_events=0),  # every event would be copied
        )
        if session is None:
            return {}
        return {"state": {key: value for key, value in session.state.items() if not key.startswith("temp:")}}


def _target(loaded: LoadedAgent, plugins: tuple[Any, Any], app_name: str) -> Message:
    """What the Runner is to run: the App with its plugins between our two, or the bare agent."""
    first, last = plugins
    if loaded.app is None:
        return {"app_name": app_name, "agent": loaded.root_agent, "plugins": [first, last]}
    update = {"name": app_name, "root_agent": loaded.root_agent, "plugins": [first, *loaded.app.plugins, last]}
    return {"app": loaded.app.model_copy(update=update)}


def _failed(event: Any, before: Any) -> Any:
    """The error that stands after `event`: its own, none where something was said, else that of before."""
    has_content = bool(event.content and event.content.parts)
    if event.error_code and not has_content:
        return event
    return None if has_content else before


def _event(event: Any) -> Message:
    """The fields of a protocol event."""
    found: Message = {"author": event.author, "final": bool(event.is_final_response())}
    if event.content is not None:
        found["content"] = _dumped(event.content)
    if event.usage_metadata is not None:
        found["usage_metadata"] = _dumped(event.usage_metadata)
    if event.model_version:
        found["model_version"] = event.model_version
    if event.grounding_metadata is not None:
        found["grounding_metadata"] = _dumped(event.grounding_metadata)
    return found


def _dumped(value: Any) -> Any:
    """JSON-ready; tools may answer with anything, and then the nearest JSON is made of it when it is written."""
    try:
        return value.model_dump(mode="json", exclude_none=True)
    except Exception:
        return value.model_dump(mode="python", exclude_none=True)
