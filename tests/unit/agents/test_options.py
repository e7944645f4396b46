"""What users may write for the drivers command and http, and what is refused with which words."""

from typing import Any

import pytest
from pydantic import ValidationError

from evalgate.agents.base import AgentFailed, AgentSetting
from evalgate.agents.command import CommandOptions
from evalgate.config.variables import AgentVariables
from evalgate.system.python_env import InstallSetup
from evalgate.wings import http
from evalgate.wings.http import HttpOptions


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("node agent.mjs", ("node", "agent.mjs")),
        # a shell only where one is named
        ("sh -c 'echo \"$HOME\" | cat'", ("sh", "-c", 'echo "$HOME" | cat')),
        (["my agent", "--x", ""], ("my agent", "--x", "")),  # a list is taken as it is
    ],
)
def test_a_command_is_split_into_words(written: Any, command: tuple[str, ...]) -> None:
    assert CommandOptions.model_validate({"command": written}).command == command


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": "node 'agent"}, "the command cannot be parsed: no closing quotation"),
        ({"command": ""}, "the command is empty"),
        ({"command": []}, "the command is empty"),
        ({"command": [" "]}, "the command is empty"),
        ({}, "command"),
        ({"command": "a", "shell": True}, "shell"),
        ({"command": "a", "env": {"A": 1}}, "env.A"),
    ],
)
def test_a_command_that_cannot_run_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        CommandOptions.model_validate(options)
    assert words in str(error.value)


MAPPED = {"url": "http://x/", "request": {"q": "{text}"}, "response": {"text": "a"}}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"url": "http://localhost:8000"}, "adk"),
        ({"url": "https://x/", "app_name": "a", "flavour": "adk"}, "adk"),
        (MAPPED, "mapped"),
        ({"url": "http://x/?q={text}", "method": "GET", "response": {"text": "@"}}, "mapped"),
        ({**MAPPED, "request": {"messages": "{messages}", "note": "{my own braces}"}}, "mapped"),
    ],
)
def test_the_flavour_is_told_by_the_options(options: dict[str, Any], kind: str) -> None:
    assert HttpOptions.model_validate(options).kind == kind


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "localhost:8000"}, "must begin with http:// or https://"),
        ({"url": "http://"}, "must begin with http:// or https://"),
        ({"url": "file:///etc/passwd"}, "must begin with http:// or https://"),
        ({"url": "http://x/", "flavour": "mapped"}, "needs `response`"),
        ({"url": "http://x/", "request": {}}, "need `flavour: mapped`"),
        ({**MAPPED, "flavour": "adk"}, "need `flavour: mapped`"),
        ({**MAPPED, "request": {"q": "hello"}}, "`request` or `url` must contain the user's text"),
        ({**MAPPED, "request": {"q": "{text}", "s": "{sesion_id}"}}, "did you mean {session_id}?"),
        ({**MAPPED, "response": {"text": "a["}}, "is not a JMESPath expression"),
        ({**MAPPED, "response": {"text": "a", "usage": "u"}}, "usage"),
        ({**MAPPED, "method": "PATCH"}, "method"),
    ],
)
def test_an_endpoint_that_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        HttpOptions.model_validate(options)
    assert words in str(error.value)


def test_a_header_without_its_variable_says_why() -> None:
    options = HttpOptions(url="http://x/", headers={"Authorization": "Bearer ${CHAT_KEY}"})
    setting = AgentSetting(
        root="/",
        world=InstallSetup(environment={"OTHER": "x"}, cache="/nowhere"),
        variables=AgentVariables(environ={"CHAT_KEY": ""}),
    )
    with pytest.raises(
        AgentFailed,
        match=r"the header Authorization refers to \$\{CHAT_KEY\}: CHAT_KEY is set here but empty",
    ):
        http.HttpDriver().open(options, setting)
