"""An agent whose one tool asks a backend; its model calls the tool and repeats the answer."""

import re

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from shop import backend


async def copies(title: str, tool_context: ToolContext) -> dict:
    """How many copies there are."""
    await backend.opened()
    note = await tool_context.load_artifact("user:note")
    if note is not None:
        return {"answer": note.text}
    return {"answer": f"{backend.copies(title)} copies of {title} in {backend.city()}"}


class Clerk(BaseLlm):
    model: str = "clerk"

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        if parts[-1].function_response:
            part = types.Part(text=parts[-1].function_response.response["answer"])
        else:
            title = re.findall(r"book-\d", parts[-1].text or "")[-1]
            call = types.FunctionCall(name="copies", args={"title": title})
            part = types.Part(function_call=call)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=20, candidates_token_count=10, total_token_count=30
        )
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=usage)


second = LlmAgent(name="second", model=Clerk(), tools=[copies])
root_agent = LlmAgent(name="shop", model=Clerk(), tools=[copies], sub_agents=[second])
