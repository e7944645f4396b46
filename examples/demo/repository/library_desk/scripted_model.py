"""A stand-in for a language model: it follows the instruction by rules, needs no account, always
says the same.

It reads what a real model would be sent (instruction, conversation, tool results) and answers with
a tool call or a text. Whether it checks the waiting list before a renewal depends on the
instruction alone, as it would for a real one."""

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

DAYS = {"saturday": "saturday", "sunday": "sunday"}


@dataclass
class Heard:
    """What the conversation says so far."""

    instruction: str = ""
    text: str = ""  # what the reader said last
    topic: str = ""  # hold or renew, once asked for
    title: str = ""
    card: str = ""
    # tool results since the reader spoke
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    book: dict[str, Any] = field(default_factory=dict)  # the book found last
    searched: bool = False


class ScriptedModel(BaseLlm):
    """Answers as an obedient model would."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one response: a tool call, or the answer."""
        move = next_move(listen(llm_request))
        part = types.Part(text=move) if isinstance(move, str) else types.Part(function_call=move)
        prompt_tokens = sum(len(str(content)) for content in llm_request.contents) // 4
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=prompt_tokens,
            candidates_token_count=20,
            total_token_count=prompt_tokens + 20,
        )
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=usage, model_version="scripted-1")


def listen(request: LlmRequest) -> Heard:
    """Gathers what matters from the request."""
    heard = Heard(instruction=str(request.config.system_instruction or "").lower())
    for content in request.contents:
        for part in content.parts or []:
            if part.function_response:
                hear_result(heard, part.function_response)
            elif part.text and content.role == "user":
                hear_reader(heard, part.text)
    return heard


def hear_reader(heard: Heard, text: str) -> None:
    """Takes in one message of the reader."""
    heard.text, heard.results = text.lower(), {}
    if title := re.search(r'"([^"]+)"', text):
        heard.title, heard.topic, heard.book, heard.searched = title.group(1), "", {}, False
    if card := re.search(r"\b\d{4}\b", text):
        heard.card = card.group()
    if wish := re.search(r"\b(renew|hold)\b", heard.text):
        heard.topic = wish.group()


def hear_result(heard: Heard, response: types.FunctionResponse) -> None:
    """Takes in one tool result."""
    result = dict(response.response or {})
    heard.results[response.name or ""] = result
    if response.name == "search_catalogue":
        heard.searched = True
        heard.book = next(iter(result["matches"]), {})


def next_move(heard: Heard) -> str | types.FunctionCall:
    """A tool call, or the answer."""
    if re.search(r"\b(open|close|closes|hours)\b", heard.text):
        return about_hours(heard)
    if not heard.title:
        return "I can only help with books, loans and opening hours. Is there a book that I can find for you?"
    if heard.topic and not heard.card:
        return "Happy to. What is your card number, please?"
    if not heard.searched:
        return types.FunctionCall(name="search_catalogue", args={"title": heard.title})
    if not heard.book:
        return f'I am sorry, "{heard.title}" is not in our catalogue.'
    if heard.topic == "renew":
        return about_renewal(heard)
    return about_hold(heard) if heard.topic == "hold" else about_shelf(heard)


def about_hours(heard: Heard) -> str | types.FunctionCall:
    """When the library is open."""
    day = next((DAYS[word] for word in DAYS if word in heard.text), "weekday")
    hours = heard.results.get("opening_hours")
    if hours is None:
        return types.FunctionCall(name="opening_hours", args={"day": day})
    name = "weekdays" if day == "weekday" else f"{day.capitalize()}s"
    if "closed" in hours:
        return f"We are closed on {name}."
    return f"On {name} we are open from {hours['opens']} to {hours['closes']}."


def about_shelf(heard: Heard) -> str | types.FunctionCall:
    """Whether a book can be had."""
    found = heard.results.get("check_availability")
    if found is None:
        return types.FunctionCall(
            name="check_availability", args={"book_id": heard.book["book_id"]}
        )
    name = f'"{heard.book["title"]}" by {heard.book["author"]}'
    if found["copies_in"]:
        return f"Yes, {name} is in: {found['copies_in']} copies at {found['shelf']}."
    return f"We have {name}, but every copy is out. Shall I place a hold?"


def about_hold(heard: Heard) -> str | types.FunctionCall:
    """Puts the reader on the waiting list."""
    held = heard.results.get("place_hold")
    if held is None:
        args = {"book_id": heard.book["book_id"], "card_number": heard.card}
        return types.FunctionCall(name="place_hold", args=args)
    return f'Done: you are number {held["position"]} on the list for "{heard.book["title"]}".'


def about_renewal(heard: Heard) -> str | types.FunctionCall:
    """Renews a loan; checks the waiting list first only where the instruction says so."""
    title, book_id = heard.book["title"], heard.book["book_id"]
    queue = heard.results.get("check_availability")
    if queue is None and "waiting" in heard.instruction:
        return types.FunctionCall(name="check_availability", args={"book_id": book_id})
    if queue and queue["waiting"]:
        return f'I cannot renew "{title}": {queue["waiting"]} readers are waiting for it. Please bring it back.'
    renewed = heard.results.get("renew_loan")
    if renewed is None:
        return types.FunctionCall(
            name="renew_loan", args={"book_id": book_id, "card_number": heard.card}
        )
    return f'Done: "{title}" is renewed until {renewed["due"]}.'
