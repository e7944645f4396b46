"""Failures of an agent for want of an environment variable: which one, and why it has none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from evalgate.config.variables import AgentVariables
from evalgate.model import AgentFailure, FailureKind

KINDS = frozenset(
    {FailureKind.START, FailureKind.EXITED, FailureKind.RAISED, FailureKind.MODEL_ERROR, FailureKind.UNREACHABLE}
)
READ = 4_000
"""Characters at the end of what an agent left behind that are looked at."""

_GEMINI = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_NAME = r"[`'\"]?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)[`'\"]?"

LITELLM: Final = re.compile(r"AuthenticationError: ([A-Za-z]+)Exception - ")
LACKING: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    # os.environ["NAME"], as our worker tells it; in the traceback of a program; before and since Python 3.13
    (re.compile(r"KeyError: '(\w+)' \(not in os\.environ\)"), ()),
    (re.compile(r"(?:os\.py|<frozen os>)\", line \d+, in __getitem__\n(?:[^\n]*\n){0,3}KeyError: '(\w+)'"), ()),
    # os.getenv("NAME") without a default, in the traceback of an error about None
    (re.compile(r"os\.(?:getenv|environ\.get)\(['\"](\w+)['\"]\)[^\n]*\n(?:[^\n]*\n){0,12}[^\n]*(?:NoneType|input_value=None)"),
     ()),
    # google-genai, from 1.0 on and since 1.70; LiteLLM
    (re.compile(r"Missing key inputs argument|No API key was provided|Missing Gemini API key"), _GEMINI),
    # google-auth, which google-genai asks as well where it is told to use Vertex AI
    (re.compile(r"default credentials were not found|Could not automatically determine credentials"),
     ("GOOGLE_APPLICATION_CREDENTIALS",)),
    # openai and its client for Azure, also as LiteLLM and agent frameworks quote them
    (re.compile(r"AZURE_OPENAI_API_KEY"), ("AZURE_OPENAI_API_KEY",)),
    (re.compile(r"(?:api_key client option must be set|Missing credentials\.)[^\n]{0,200}OPENAI_API_KEY"),
     ("OPENAI_API_KEY",)),
    # anthropic; LiteLLM
    (re.compile(r"Could not resolve authentication method[^\n]{0,80}auth_token|Missing Anthropic API Key"),
     ("ANTHROPIC_API_KEY",)),
    # boto3, which LiteLLM and Strands ask for Bedrock
    (re.compile(r"Unable to locate credentials"), ("AWS_ACCESS_KEY_ID",)),
    # LiteLLM sends an empty key to other providers, which refuse it
    (LITELLM, ()),
    # the agent's own words: `DB_URL is not set`, `DB_URL environment variable ...`, `environment variable DB_URL`
    (re.compile(rf"{_NAME} (?:is |was |environment variable |env var )*"
                r"(?:not set|must be set|required|missing|unset|undefined|not found)"), ()),
    (re.compile(rf"(?i:environment variable|env var|missing|set)s?:? {_NAME}"), ()),
)  # fmt: skip
"""What an error says where a variable lacks, and the variables of which one would do; a group is the name itself, or
that of the provider."""


def explained(failure: AgentFailure, variables: AgentVariables) -> AgentFailure:
    """The failure with the reason before its message where it smells of a variable that the agent has no value of."""
    for text in _said(failure) if failure.kind in KINDS else ():
        for pattern, names in LACKING:
            found = pattern.search(text)
            if found is None:
                continue
            is_provider = pattern is LITELLM
            lacking = names or (f"{found[1].upper()}_API_KEY" if is_provider else found[1],)
            if why := variables.why_lacking(lacking):
                return dataclasses.replace(failure, message=f"{why} ({failure.message})")
            break  # it is there, so that the failure is another one
    return failure


def _said(failure: AgentFailure) -> Iterator[str]:
    """The message; what it was caused by; of an agent that did not start, or ended, its last words."""
    yield failure.message
    end = failure.detail[-READ:]
    if failure.kind in (FailureKind.START, FailureKind.EXITED):
        yield end
    else:
        yield "\n".join(line for line in end.splitlines() if line.startswith("caused by "))
