"""A deterministic agent without a network: three model calls, two tools and one answer a turn."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def find_shelf(title: str) -> dict:
    """Where a book stands."""
    return {"title": title, "shelf": "A3"}


def count_copies(number: int, more: int) -> dict:
    """How many copies there are."""
    return {"copies": number + more}


class ScriptedModel(BaseLlm):
    """Calls both tools for `book N`, then answers."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        number, answered = 0, 0
        for content in llm_request.contents:
            for part in content.parts or []:
                asked = (
                    re.search(r"book (\d+)", part.text or "") if content.role == "user" else None
                )
                if asked:
                    number, answered = int(asked[1]), 0
                answered += part.function_response is not None
        title = f"book-{number % 10}"
        if answered == 0:
            part = types.Part(
                function_call=types.FunctionCall(name="find_shelf", args={"title": title})
            )
        elif answered == 1:
            part = types.Part(
                function_call=types.FunctionCall(
                    name="count_copies", args={"number": number, "more": 1}
                )
            )
        else:
            part = types.Part(
                text=f"The {title} stands on shelf A3 and there are {number + 1} copies of it."
            )
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=100, candidates_token_count=20, total_token_count=120
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=usage,
            model_version="scripted-1",
        )


root_agent = LlmAgent(
    name="desk_agent",
    model=ScriptedModel(),
    instruction="Answer with the tools.",
    tools=[find_shelf, count_copies],
)
