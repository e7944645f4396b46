"""A model without a network: the user's message is its script, one line a model call.

say TEXT | call NAME JSON | think TEXT | transfer AGENT | error CODE MESSAGE | raise WHAT | wait
SECONDS

Where somebody listens, words come one by one, each after PAUSE_S seconds, if that is set."""

from __future__ import annotations

import asyncio
import json
import os
import re

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types


class ScriptedLlm(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        script, step = read(llm_request.contents)
        for line in script[step:]:
            verb, _, rest = line.partition(" ")
            if verb == "wait":
                await asyncio.sleep(float(rest))
                continue
            if verb == "raise":
                raise problem(rest)
            if stream and verb == "say":
                for word in re.findall(r"\S+\s*", rest):
                    await asyncio.sleep(float(os.environ.get("PAUSE_S", "0")))
                    content = types.Content(role="model", parts=[types.Part(text=word)])
                    yield LlmResponse(content=content, partial=True)
            yield answer(verb, rest)
            return
        yield answer("say", "(the script is over)")


def read(contents) -> tuple[list[str], int]:
    """The last script, and how many tools have answered since."""
    script: list[str] = []
    step = 0
    for content in contents:
        for part in content.parts or []:
            text = part.text or ""
            if part.function_response or "tool returned result" in text:
                step += 1
            elif (
                content.role == "user"
                and text
                and "For context" not in text
                and not text.startswith("[")
            ):
                script, step = [line for line in text.splitlines() if line.strip()], 0
    # A line that waits is no model call of its own.
    for index, line in enumerate(script):
        if line.startswith("wait ") and index < step:
            step += 1
    return script, step


def answer(verb: str, rest: str) -> LlmResponse:
    if verb == "error":
        code, _, message = rest.partition(" ")
        return LlmResponse(error_code=code, error_message=message)
    if verb == "call":
        name, _, arguments = rest.partition(" ")
        parts = [
            types.Part(
                function_call=types.FunctionCall(name=name, args=json.loads(arguments or "{}"))
            )
        ]
    elif verb == "transfer":
        call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": rest})
        parts = [types.Part(function_call=call)]
    elif verb == "think":
        parts = [types.Part(text=rest, thought=True), types.Part(text=f"after thinking: {rest}")]
    else:
        parts = [types.Part(text=rest)]
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=2, total_token_count=12
    )
    return LlmResponse(
        content=types.Content(role="model", parts=parts),
        usage_metadata=usage,
        model_version="scripted-1",
    )


def problem(what: str) -> Exception:
    details = {"error": {"message": "scripted", "status": "SCRIPTED"}}
    if what.isdigit():
        kind = errors.ClientError if int(what) < 500 else errors.ServerError
        return kind(int(what), details)
    if what == "refused":
        return ConnectionRefusedError("connection refused")
    if what == "httpx":
        import httpx

        return httpx.ConnectError("no route to host")
    return ValueError(what)
