"""One conversation with an agent of our own before the first real one.

google-adk imports hundreds of modules during the first turn (a second and more), which would be counted as the first
case's duration, and would fall on several conversations at once.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from . import faults
from .adk_loading import LoadedAgent
from .adk_sessions import AdkSession
from .importing import Home


class WarmingLlm(BaseLlm):  # type: ignore[misc]  # google-adk is not installed where types are checked
    """Calls the tool once, then answers; knows no network."""

    model: str = "warming"

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:  # noqa: ARG002, FBT001, FBT002 - google-adk's signature
        """See BaseLlm."""
        answered = any(part.function_response for content in llm_request.contents for part in content.parts or ())
        call = types.Part(function_call=types.FunctionCall(name="warm", args={}))
        part = types.Part(text="warm") if answered else call
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1, candidates_token_count=1, total_token_count=2
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def warm() -> dict[str, str]:
    """Does nothing."""
    return {}


async def run(plugins: tuple[Any, Any]) -> None:
    """Take every step of a turn once; whatever goes wrong will show, or not, in a real one."""
    try:
        agent = LlmAgent(name="warming", model=WarmingLlm(), instruction="Warm up.", tools=[warm])
        home = Home(name="warming", file=None, folder=None, roots=(), aliases=())
        session = AdkSession(LoadedAgent(root_agent=agent, app=None, home=home, closing=None), plugins, {}, "warming")
        await session.open()
        await session.turn({"parts": [{"text": "warm up"}]}, lambda _: None)
    except Exception as error:
        sys.stderr.write(f"warming up failed: {faults.sentence(error)}\n")
