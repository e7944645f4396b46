"""A server that answers for models by a script, for nothing: the Gemini API, Vertex AI, OpenAI's
chat completions.

What an agent is asked stands in its evaluation files, and so does what it should do: the model
calls the tools that the turn expects, where they are declared, and then gives the expected answer.
A reply that has to fit a schema is made from the schema. It is not a test of the agent, but it
takes the agent through its code."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evalgate.model import Case, Text

MOST_STEPS = 12
"""After so many tool calls in a turn the model answers, whatever is still expected."""

CODE = re.compile(r"The code of this message is (\S+)")
TO_SPLIT = re.compile(r"<<< agent_text (\S+)\n(.*?)\n>>> agent_text \1", re.DOTALL)
SIMULATED_USER = re.compile(r"or (\S+) if the conversation is over\.\s*$")
CALLED = re.compile(r"called tool `(\w+)`")


@dataclass(frozen=True)
class Turn:
    """What a turn expects: names and arguments of calls, and the answer."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    answer: str = "I have looked into it, and all of it is in order."


@dataclass
class Script:
    """The turns of all cases by what the user says, and how often each model was asked."""

    turns: dict[str, Turn] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case) -> None:
        """Learn the turns of a case."""
        for turn in case.conversation or ():
            said = " ".join(part.text for part in turn.user_content.parts if isinstance(part, Text))
            parts = turn.final_response.parts if turn.final_response else ()
            answer = " ".join(part.text for part in parts if isinstance(part, Text))
            calls = tuple((call.name, dict(call.args or {})) for call in turn.tool_calls)
            self.turns.setdefault(_squeezed(said), Turn(calls, answer or Turn.answer))

    def next(
        self, texts: Sequence[str], done: Sequence[str], tools: Mapping[str, Any]
    ) -> tuple[str, Any] | str:
        """A call (name, arguments) or an answer, to the last of `texts` that the script knows;
        `done`: the tools that have answered since."""
        if "set_model_response" in tools:
            return "set_model_response", example(tools["set_model_response"])
        if "exit_loop" in tools and "exit_loop" not in done:
            return "exit_loop", {}
        known = next(
            (self.turns[key] for text in reversed(texts) if (key := _squeezed(text)) in self.turns),
            Turn(),
        )
        left = Counter(done)
        for name, args in known.calls:
            if left[name]:
                left[name] -= 1
            elif name in tools and len(done) < MOST_STEPS:
                return name, {**_required(tools[name]), **args}
        return known.answer


def _required(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments that a tool cannot do without, where the case leaves them out."""
    fields = (schema or {}).get("properties") or {}
    return {
        name: example(fields[name])
        for name in (schema or {}).get("required") or ()
        if name in fields
    }


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def example(
    schema: Mapping[str, Any] | None,
    *,
    code: str = "",
    name: str = "",
    place: int = 0,
    defs: Any = None,
) -> Any:
    """The least that fits a schema; `code`: what evalgate's judges have to repeat; `place`: in a
    list, so that each entry of a list of verdicts has another id."""
    schema = schema or {}
    defs = schema.get("$defs") or defs or {}
    if "$ref" in schema:
        return example(
            defs.get(schema["$ref"].rpartition("/")[2]),
            code=code,
            name=name,
            place=place,
            defs=defs,
        )
    if choices := schema.get("enum"):
        return choices[place % len(choices)] if name == "id" else choices[0]
    for several in ("anyOf", "any_of", "oneOf", "allOf"):
        if schema.get(several):
            return example(schema[several][0], code=code, name=name, place=place, defs=defs)
    kind = schema.get("type") or ("object" if schema.get("properties") else "string")
    kind = (kind[0] if isinstance(kind, list) else str(kind)).lower()
    if kind == "object":
        fields = (schema.get("properties") or {}).items()
        return {
            key: example(each, code=code, name=key, place=place, defs=defs) for key, each in fields
        }
    if kind == "array":
        count = int(schema.get("minItems") or schema.get("min_items") or 1)
        return [
            example(schema.get("items"), code=code, place=index, defs=defs)
            for index in range(count)
        ]
    text = code if name == "code" and code else "" if name.endswith("_excerpt") else "as expected"
    plain: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "null": None}
    return plain.get(kind, text)


# --- the two APIs ---------------------------------------------------------------------------------


def gemini_reply(script: Script, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to generateContent."""
    texts, done = _history(request.get("contents") or [])
    config = _either(request, "generationConfig") or {}
    schema = _either(config, "responseJsonSchema") or _either(config, "responseSchema")
    if schema or "json" in str(_either(config, "responseMimeType")):
        found = CODE.search("\n".join(texts))
        said: tuple[str, Any] | str = json.dumps(example(schema, code=found[1] if found else ""))
    elif texts and (ending := SIMULATED_USER.search(texts[-1])):
        said = ending[1]
    elif texts and (whole := TO_SPLIT.search(texts[-1])):
        said = f"<sentence>{whole[2]}</sentence>"
    else:
        said = script.next(texts, done, _declared(request.get("tools") or []))
    part = (
        {"text": said}
        if isinstance(said, str)
        else {"functionCall": {"name": said[0], "args": said[1]}}
    )
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 20,
            "candidatesTokenCount": 10,
            "totalTokenCount": 30,
        },
        "modelVersion": "scripted",
    }


def _history(contents: Any) -> tuple[list[str], list[str]]:
    """What was said to the model, and the tools that answered since the user last spoke."""
    texts: list[str] = []
    done: list[str] = []
    for content in [contents] if isinstance(contents, Mapping) else contents:
        parts = content.get("parts") or []
        said = [
            part["text"] for part in parts if part.get("text") and content.get("role") != "model"
        ]
        if said and not said[0].startswith("For context:"):
            texts.append(" ".join(said))
            done = []
        done += [answer["name"] for part in parts if (answer := _either(part, "functionResponse"))]
        done += [name for text in said for name in CALLED.findall(text)]
    return texts, done


def _declared(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    every = [each for tool in tools for each in _either(tool, "functionDeclarations") or []]
    return {
        each["name"]: _either(each, "parametersJsonSchema") or each.get("parameters")
        for each in every
    }


def _either(said: Mapping[str, Any], name: str) -> Any:
    """A field under its name of the API or in snake case: google-genai writes both, and Google
    takes both."""
    return said.get(name) or said.get(
        re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
    )


def openai_reply(script: Script, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to chat completions."""
    texts: list[str] = []
    done: list[str] = []
    for message in request.get("messages") or []:
        content = message.get("content") or ""
        if message.get("role") == "user":
            texts.append(
                content
                if isinstance(content, str)
                else " ".join(each.get("text", "") for each in content)
            )
            done = []
        done += [call["function"]["name"] for call in message.get("tool_calls") or []]
    tools = {
        each["function"]["name"]: each["function"].get("parameters")
        for each in request.get("tools") or []
    }
    said = script.next(texts, done, tools)
    message = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if not isinstance(said, str):
        function = {"name": said[0], "arguments": json.dumps(said[1])}
        message["tool_calls"] = [
            {"id": f"call_{len(done)}", "type": "function", "function": function}
        ]
    ending = "stop" if isinstance(said, str) else "tool_calls"
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    choice = {"index": 0, "message": message, "finish_reason": ending}
    return {
        "id": "scripted", "object": "chat.completion", "created": 0, "model": str(request.get("model")),
        "choices": [choice], "usage": usage,
    }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """One request; the server's `script` answers."""

    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_POST(self) -> None:
        """Answer by the end of the path, as both of Google's APIs have it."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        try:
            request = json.loads(body or b"{}")
        except ValueError:
            request = {}  # a form, as token endpoints get
        method = path.rpartition(":")[2] if ":" in path else path.rpartition("/")[2]
        self.server.script.asked[method] += 1
        reply = self._reply(method, request)
        if reply is None:
            self._missing(path)
        elif method == "streamGenerateContent" and "alt=sse" in query:
            self._send(200, f"data: {json.dumps(reply)}\r\n\r\n", "text/event-stream")
        else:
            self._send(
                200,
                json.dumps([reply] if method == "streamGenerateContent" else reply),
                "application/json",
            )

    def do_GET(self) -> None:
        """Have nothing, as an empty project of Google Cloud."""
        self._missing(self.path)

    def _missing(self, path: str) -> None:
        error = {"code": 404, "message": f"not scripted: {path}"}
        self._send(404, json.dumps({"error": error}), "application/json")

    def _reply(self, method: str, request: Any) -> Any:
        script, vector = self.server.script, {"values": [0.5] * 8}
        if not method and "contents" in request:
            # Vertex AI by GOOGLE_VERTEX_BASE_URL: the client sends all to that address
            method = "generateContent"
        match method:
            case "generateContent" | "streamGenerateContent":
                return gemini_reply(script, request)
            case "completions":
                return openai_reply(script, request)
            case "countTokens":
                return {"totalTokens": 20}
            case "embedContent":
                return {"embedding": vector}
            case "batchEmbedContents":
                return {"embeddings": [vector for _ in request.get("requests") or [0]]}
            case "evaluateInstances":
                return {"metricResults": [{"score": 1.0, "explanation": "scripted"}]}
            case "token":
                return {"access_token": "scripted", "expires_in": 3600, "token_type": "Bearer"}
        return None

    def _send(self, status: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface's signature
        """Say nothing."""


class ScriptedServer(ThreadingHTTPServer):
    """On a free port of this machine."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The server's address."""
    server = ScriptedServer(script)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
