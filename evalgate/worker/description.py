"""The parts of an agent, reported once when it is loaded: read from its objects, without running or
asking it.

The agent's own code may put anything there: unreadable parts are left out."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from .pipe import Message, dump_model, present

MOST_AGENTS = 1_000
"""In a tree, with the agents of tools; the others are left out."""
MOST_TOOLS = 200
"""Of one agent; the others are left out."""
INSTRUCTION = 40_000
"""Characters of all instructions of an agent together."""
DESCRIPTION = 4_000
"""Characters of the description of an agent or a tool."""
SHORT = 400
"""Characters of a name, a setting or a parameter. All limits are above those of evalgate, which
removes secrets before it cuts."""
SETTINGS = (
    *("temperature", "top_p", "top_k", "max_output_tokens", "candidate_count", "seed"),
    *("stop_sequences", "presence_penalty", "frequency_penalty", "response_mime_type"),
    "thinking_config",
)
"""Settings of a model's config. Others may hold credentials (`http_options`), or have their own
place (`tools`)."""
INSTRUCTIONS = ("static_instruction", "global_instruction", "instruction")
"""Attributes with an agent's instructions, in the order in which they are joined."""
OPTIONS = (
    "include_contents",
    "max_iterations",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
)
"""Options of an agent."""
HIDDEN_PARAMETERS = frozenset({"self", "tool_context", "input_stream"})
"""Parameters that models do not see."""
_SECRET = re.compile(r"(?i)^[^=]*(?:key|token|secret|passw|credential|auth)|://[^/\s:@]*:[^/\s@]+@")
"""A parameter with the name of a secret, or an address with a password."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""An address in memory, which differs in every process."""


CLIENTS = {"Gemini": "model", "LiteLlm": "model", "LiteLLMModel": "model_id"}
"""The attribute with the model's name, by the client's class. These clients read their key from the
environment."""


def models(root: Any) -> list[str]:
    """The models that these agents call with keys of the environment: a text, or the model of a
    client without a key."""
    agent_models = (_read(agent, "model") for agent in tree(root))
    names = [model if isinstance(model, str) else _without_key(model) for model in agent_models]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _without_key(client: Any) -> Any:
    """The model of a client that CLIENTS knows; None if the client has a key of its own."""
    arguments = _read(client, "_additional_args")  # of LiteLlm
    has_key = _read(client, "api_key") or (isinstance(arguments, dict) and arguments.get("api_key"))
    return None if has_key else _read(client, CLIENTS.get(type(client).__name__, ""))


def tree(root: Any, *, with_tools: bool = True) -> list[Any]:
    """`root` and its sub-agents, each once; `with_tools`: its agent tools, too."""
    agents: list[Any] = []
    queue = [root]
    while queue and len(agents) < MOST_AGENTS:
        agent = queue.pop(0)
        if any(agent is agent_or_tool for agent_or_tool in agents):
            continue
        agents.append(agent)
        tools = _tools(agent) if with_tools else []
        tool_agents = [_read(tool, "agent") for tool in tools]  # of an AgentTool
        named = [agent for agent in tool_agents if isinstance(_read(agent, "name"), str)]
        queue[:0] = [*named, *_members(agent, "sub_agents")]
    return agents


def _tools(agent: Any) -> list[Any]:
    """The first MOST_TOOLS tools of an agent: functions, tools and toolsets."""
    return _members(agent, "tools")[:MOST_TOOLS]


def describe(agent: Any) -> Message:
    """The parts of one agent."""
    instructions = [_instruction(_read(agent, name)) for name in INSTRUCTIONS]
    config = _read(agent, "generate_content_config")
    settings = {
        name: _setting(_read(owner, name))
        for owner, names in ((config, SETTINGS), (agent, OPTIONS))
        for name in names
    }
    settings["output_schema"] = str(_read(_read(agent, "output_schema"), "__name__") or "")
    instruction = "\n\n".join(filter(None, instructions))[:INSTRUCTION]
    sub_agents = [str(_read(child, "name") or "") for child in _members(agent, "sub_agents")]
    return {
        "name": str(_read(agent, "name") or ""),
        "kind": type(agent).__name__,
        "model": _model(_read(agent, "model")),
        "description": _cut(_read(agent, "description"), DESCRIPTION),
        "instruction": instruction,
        "settings": present(**settings),
        "tools": dict(map(_describe_tool, _tools(agent))),
        "sub_agents": sub_agents,
    }


def _read(owner: Any, name: str) -> Any:
    """An attribute, or None if it is missing or raises."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def _members(agent: Any, name: str) -> list[Any]:
    """A list attribute of an agent; empty if it is missing or of another type."""
    members = _read(agent, name)
    return list(members) if isinstance(members, (list, tuple)) else []


def _cut(text: Any, limit: int) -> str:
    """A text of at most `limit` characters and dots; "" for other types."""
    if not isinstance(text, str):
        return ""
    return text if len(text) <= limit else f"{text[:limit]}..."


def _model(model: Any) -> str:
    """The name of a model, or of the model in its client."""
    if model is None or isinstance(model, str):
        return (model or "")[:SHORT]
    name = _read(model, "model")
    return name[:SHORT] if isinstance(name, str) else type(model).__name__


def _instruction(instruction: Any) -> str:
    """The text of an instruction, from a text or a content, or the name of the function that makes
    it."""
    if isinstance(instruction, str):
        return instruction
    if callable(instruction) and isinstance(_read(instruction, "__name__"), str):
        return f"(made by {instruction.__name__}())"
    parts = [_read(part, "text") for part in _members(instruction, "parts")]
    return "\n".join(part for part in parts if isinstance(part, str))


def _setting(setting: Any) -> str:
    """A setting as JSON, or "" if it is unset or has its default value."""
    if setting is None or setting is False or setting == "default":
        return ""
    try:
        return json.dumps(dump_model(setting), sort_keys=True)[:SHORT]
    except Exception:
        return ""


def _describe_tool(tool: Any) -> tuple[str, Message]:
    """The name of a tool, and its parts. The tools of a toolset may be on a server, which is not
    asked."""
    function = tool if inspect.isroutine(tool) else _read(tool, "func")
    name = _read(tool, "name") or _read(function, "__name__") or type(tool).__name__
    description = _read(tool, "description") or (
        inspect.getdoc(function) if function is not None else ""
    )
    try:
        parameters = _declared_parameters(tool) if function is None else _parameters(function)
    except Exception:
        parameters = {}
    parts = {"description": _cut(description, DESCRIPTION), "parameters": parameters}
    return str(name)[:SHORT], parts


def _parameters(function: Any) -> dict[str, str]:
    """`{"amount": "float = 0.0"}`: the parameters of a function, without memory addresses."""
    parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in HIDDEN_PARAMETERS:
            continue
        annotation = parameter.annotation
        default = parameter.default
        is_text = isinstance(annotation, str)
        description = annotation if is_text else inspect.formatannotation(annotation)
        if annotation is parameter.empty:
            description = ""
        if default is not parameter.empty:
            is_plain = default is None or isinstance(default, (bool, int, float, str))
            is_secret = isinstance(default, str) and _SECRET.search(f"{name}={default}")
            description += f" = {default!r}" if is_plain and not is_secret else " = ..."
        parameters[name] = _ADDRESS.sub("", description).strip()[:SHORT]
    return parameters


def _declared_parameters(tool: Any) -> dict[str, str]:
    """The parameters that a tool declares to models."""
    get_declaration = _read(tool, "_get_declaration")
    declaration = get_declaration() if callable(get_declaration) else None
    schema = dump_model(
        _read(declaration, "parameters_json_schema") or _read(declaration, "parameters")
    )
    if not isinstance(schema, dict):
        return {}
    required_names = schema.get("required") or ()
    parameters = {}
    for name, declared in (schema.get("properties") or {}).items():
        is_typed = isinstance(declared, dict) and isinstance(declared.get("type"), str)
        # some versions of google-adk write types as `STRING`, others as `string`
        parameter = {**declared, "type": declared["type"].lower()} if is_typed else declared
        text = _cut(json.dumps(parameter, sort_keys=True), SHORT)
        parameters[str(name)[:SHORT]] = text + ("" if name in required_names else " (optional)")
    return parameters
