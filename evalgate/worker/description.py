"""The parts of an agent, reported once when it is loaded: read from its objects, without running or
asking it.

The agent's own code may put anything there: unreadable parts are left out."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]

MOST_AGENTS = 100
MOST_TOOLS = 200
INSTRUCTION = 40_000
DESCRIPTION = 4_000
SHORT = 400
"""Characters: more than evalgate keeps, which takes secrets out before it cuts."""
SETTINGS = (
    *(
        "temperature",
        "top_p",
        "top_k",
        "max_output_tokens",
        "candidate_count",
        "seed",
        "stop_sequences",
    ),
    *("presence_penalty", "frequency_penalty", "response_mime_type", "thinking_config"),
)
"""Of a model's config. Others may hold credentials (`http_options`), or stand elsewhere
(`tools`)."""
INSTRUCTIONS = ("static_instruction", "global_instruction", "instruction")
OPTIONS = (
    "include_contents",
    "max_iterations",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
)
"""Of an agent."""
GIVEN = frozenset({"self", "tool_context", "input_stream"})
"""Parameters that no model sees."""
_SECRET = re.compile(r"(?i)^[^=]*(?:key|token|secret|passw|credential|auth)|://[^/\s:@]*:[^/\s@]+@")
"""A parameter that is named like a secret, or an address with a password."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


CLIENTS = {"Gemini": "model", "LiteLlm": "model", "LiteLLMModel": "model_id"}
"""The attribute with a model's name, by the classes of clients that look for its key in the
environment."""


def of_tree(root: Any) -> list[Message]:
    """The agents below and with `root`, those that are tools of others among them, each once."""
    return [_agent(agent) for agent in _tree(root)]


def models(root: Any) -> list[str]:
    """The models that these agents ask with keys of the environment: named by a text, or by a
    client without a key."""
    agent_models = (_read(agent, "model") for agent in _tree(root))
    names = [model if isinstance(model, str) else _without_key(model) for model in agent_models]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _without_key(client: Any) -> Any:
    arguments = _read(client, "_additional_args")  # of LiteLlm
    has_key = _read(client, "api_key") or (isinstance(arguments, dict) and arguments.get("api_key"))
    return None if has_key else _read(client, CLIENTS.get(type(client).__name__, ""))


def _tree(root: Any) -> list[Any]:
    agents: list[Any] = []
    queue = [root]
    while queue and len(agents) < MOST_AGENTS:
        agent = queue.pop(0)
        if any(agent is other for other in agents):
            continue
        agents.append(agent)
        tool_agents = [_read(tool, "agent") for tool in _tools(agent)]  # of an AgentTool
        queue += [
            *_many(agent, "sub_agents"),
            *(other for other in tool_agents if isinstance(_read(other, "name"), str)),
        ]
    return agents


def _tools(agent: Any) -> list[Any]:
    return _many(agent, "tools")[:MOST_TOOLS]


def _agent(agent: Any) -> Message:
    instructions = [_instruction(_read(agent, name)) for name in INSTRUCTIONS]
    config = _read(agent, "generate_content_config")
    settings = {
        name: _value(_read(of, name))
        for of, names in ((config, SETTINGS), (agent, OPTIONS))
        for name in names
    }
    settings["output_schema"] = str(_read(_read(agent, "output_schema"), "__name__") or "")
    return {
        "name": str(_read(agent, "name") or ""),
        "kind": type(agent).__name__,
        "model": _model(_read(agent, "model")),
        "description": _text(_read(agent, "description"), DESCRIPTION),
        "instruction": "\n\n".join(instruction for instruction in instructions if instruction)[
            :INSTRUCTION
        ],
        "settings": {name: value for name, value in settings.items() if value},
        "tools": dict(pair for tool in _tools(agent) for pair in _describe_tool(tool)),
        "sub_agents": [str(_read(child, "name") or "") for child in _many(agent, "sub_agents")],
    }


def _read(value: Any, name: str) -> Any:
    """An attribute; None if it is missing, or reading it raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _many(agent: Any, name: str) -> list[Any]:
    members = _read(agent, name)
    return list(members) if isinstance(members, (list, tuple)) else []


def _text(value: Any, limit: int) -> str:
    """What evalgate takes a cut secret out of stands before the dots."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= limit else f"{value[:limit]}..."


def _model(model: Any) -> str:
    """The name of a model, which may stand within its client."""
    if model is None or isinstance(model, str):
        return (model or "")[:SHORT]
    name = _read(model, "model")
    return name[:SHORT] if isinstance(name, str) else type(model).__name__


def _instruction(value: Any) -> str:
    """A text, the texts of a content, or which function makes it."""
    if isinstance(value, str):
        return value
    if callable(value) and isinstance(_read(value, "__name__"), str):
        return f"(made by {value.__name__}())"
    parts = [_read(part, "text") for part in _many(value, "parts")]
    return "\n".join(part for part in parts if isinstance(part, str))


def _value(value: Any) -> str:
    """A setting as JSON; "" if it is not set, or has its default value."""
    if value is None or value is False or value == "default":
        return ""
    try:
        dumped = (
            value.model_dump(mode="json", exclude_none=True)
            if hasattr(value, "model_dump")
            else value
        )
        return json.dumps(dumped, sort_keys=True)[:SHORT]
    except Exception:
        return ""


def _describe_tool(tool: Any) -> Iterator[tuple[str, Message]]:
    """A tool by its name. What a toolset lists may lie on a server, and is not asked for."""
    function = tool if inspect.isroutine(tool) else _read(tool, "func")
    name = _read(tool, "name") or _read(function, "__name__") or type(tool).__name__
    described = _read(tool, "description") or (
        inspect.getdoc(function) if function is not None else ""
    )
    read: Callable[[], dict[str, str]] = lambda: (  # noqa: E731 - a function of its own would hide the choice
        _declared(tool) if function is None else _parameters(function)
    )
    try:
        parameters = read()
    except Exception:
        parameters = {}
    yield (
        str(name)[:SHORT],
        {"description": _text(described, DESCRIPTION), "parameters": parameters},
    )


def _parameters(function: Any) -> dict[str, str]:
    """`{"amount": "float = 0.0"}`: the parameters of a function, without what differs from process
    to process."""
    parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in GIVEN:
            continue
        kind = parameter.annotation
        default = parameter.default
        text = (
            ""
            if kind is parameter.empty
            else kind
            if isinstance(kind, str)
            else inspect.formatannotation(kind)
        )
        if default is not parameter.empty:
            is_plain = default is None or isinstance(default, (bool, int, float, str))
            if isinstance(default, str) and _SECRET.search(f"{name}={default}"):
                is_plain = False
            text += f" = {default!r}" if is_plain else " = ..."
        parameters[name] = _ADDRESS.sub("", text).strip()[:SHORT]
    return parameters


def _declared(tool: Any) -> dict[str, str]:
    """The parameters that a tool declares to models."""
    declare = _read(tool, "_get_declaration")
    declared = declare() if callable(declare) else None
    schema = _read(declared, "parameters_json_schema") or _read(declared, "parameters")
    if schema is not None and hasattr(schema, "model_dump"):
        schema = schema.model_dump(mode="json", exclude_none=True)
    if not isinstance(schema, dict):
        return {}
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return {
        str(name)[:SHORT]: _text(_schema(schema), SHORT)
        + ("" if name in required else " (optional)")
        for name, schema in properties.items()
    }


def _schema(schema: Any) -> str:
    """As JSON; types are `STRING` in some versions of google-adk, and `string` in others."""
    if isinstance(schema, dict) and isinstance(schema.get("type"), str):
        schema = {**schema, "type": schema["type"].lower()}
    return json.dumps(schema, sort_keys=True)
