"""What an agent may see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalgate.config import variables as config_variables
from evalgate.config.context import Context, Opening
from evalgate.config.settings import Settings
from evalgate.config.variables import OF_MODELS, AgentVariables
from evalgate.judges import clients, models

ENVIRON = {
    "GITHUB_ACTIONS": "true",
    "PATH": "/bin",
    "LC_ALL": "C.UTF-8",
    "HTTPS_PROXY": "http://proxy",
    "GOOGLE_API_KEY": "key",
    "GOOGLE_CLOUD_PROJECT": "p",
    "GOOGLE_APPLICATION_CREDENTIALS": "/gcp.json",
    "DESK_KEY": "d",
    "AWS_SECRET_ACCESS_KEY": "s",
    "GITHUB_TOKEN": "t",
    "GITHUB_OUTPUT": "/out",
    "INPUT_ENV": "x",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t",
    "RUNNER_TEMP": "/tmp",
    "CI_JOB_TOKEN": "t",
    "PIP_INDEX_URL": "https://user:pass@index",
    "UV_INDEX_OURS_PASSWORD": "p",
    "UV_DEFAULT_INDEX": "https://index.invalid/simple",
    "PIP_CERT": "/etc/certificates.pem",
    "NETRC": "/home/netrc",
    "PYTHONPATH": "/home/ours",
}
MODELS = {"GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"}
BASE = {"PATH", "LC_ALL", "HTTPS_PROXY"} | MODELS
OTHERS = {"GOOGLE_APPLICATION_CREDENTIALS", "DESK_KEY", "AWS_SECRET_ACCESS_KEY", "NETRC"}


def variables(*names: str, **more: Any) -> AgentVariables:
    return AgentVariables(**{"environ": ENVIRON, "names": names, **more})


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        ([], BASE),  # a cloud's credentials are not among what needs no name
        (["DESK_KEY"], BASE | {"DESK_KEY"}),
        (["GOOGLE_*"], BASE | {"GOOGLE_APPLICATION_CREDENTIALS"}),
        # even `*` does not hand over what is the workflow's
        # nor what is the installer's
        (["*"], BASE | OTHERS | {"PYTHONPATH"}),
        (["desk_key"], BASE),  # names are case-sensitive
    ],
)
def test_only_what_is_named(names: list[str], seen: set[str]) -> None:
    assert set(variables(*names).environment()) == seen


def test_at_home_nothing_belongs_to_a_job() -> None:
    """What a person exported reaches the agent: GitHub's MCP server reads GITHUB_TOKEN."""
    environ = {"GITHUB_TOKEN": "t", "INPUT_FILE": "x", "EVALGATE_STORE_KEY": "k", "UV_INDEX": "u"}
    for env, seen in (((), {"GITHUB_TOKEN", "INPUT_FILE"}), (("GITHUB_TOKEN",), {"GITHUB_TOKEN"})):
        context = Context(environ=environ, cache=Path("/cache"))
        assert AgentVariables.of(Settings(env=env), context).environment().keys() == seen
    in_a_job = Context(environ={**environ, "CI": "1"}, cache=Path("/c"))
    named = AgentVariables.of(Settings(env=("GITHUB_TOKEN",)), in_a_job)
    assert named.environment().keys() == {"CI"}


def test_at_a_terminal_an_agent_has_the_users_variables() -> None:
    """Never a job's, nor what says where evalgate itself runs."""
    assert set(variables(everything=True).environment()) == BASE | OTHERS
    assert "UV_INDEX_OURS_PASSWORD" in variables(everything=True).installer_environment()


@pytest.mark.parametrize(
    ("environ", "env", "isolate", "everything"),
    [
        ({}, (), False, True),
        ({}, ("DESK_KEY",), False, False),  # who names some means no others
        ({}, (), True, False),  # what is kept apart has nothing of the user's
        ({"GITHUB_ACTIONS": "true"}, (), False, False),
        ({"GITHUB_EVENT_NAME": "pull_request"}, (), False, False),
        ({"CI": "true"}, (), False, False),  # other systems have secrets, too
        ({"CI": ""}, (), False, True),
    ],
)
def test_where_an_agent_has_everything(
    environ: dict[str, str], env: tuple[str, ...], *, isolate: bool, everything: bool
) -> None:
    context = Context(environ=environ, cache=Path("/cache"), opening=Opening(isolate=isolate))
    assert AgentVariables.of(Settings(env=env), context).everything is everything


def test_every_provider_of_judges_is_one_of_agents() -> None:
    asked = {name for each in models.ENDPOINTS.values() for name in (each.key, each.url)} - {""}
    assert asked | set(clients.GOOGLE_KEYS) <= OF_MODELS


@pytest.mark.parametrize(
    ("names", "credentials"),
    [
        ([], set()),  # credentials are for those that the workflow names
        (["PIP_INDEX_URL"], {"PIP_INDEX_URL"}),
        (["UV_INDEX_*", "NETRC"], {"UV_INDEX_OURS_PASSWORD", "NETRC"}),
    ],
)
def test_installers_see_their_settings_and_the_credentials_that_are_named(
    names: list[str], credentials: set[str]
) -> None:
    given = variables(*names)
    agent = given.environment()
    own = {"UV_DEFAULT_INDEX", "PIP_CERT"}
    assert given.installer_environment().keys() == agent.keys() | own | credentials
    assert not agent.keys() & {
        "UV_DEFAULT_INDEX",
        "PIP_CERT",
        "PIP_INDEX_URL",
        "UV_INDEX_OURS_PASSWORD",
    }
    assert (
        set(given.withheld()) == {"PIP_INDEX_URL", "UV_INDEX_OURS_PASSWORD", "NETRC"} - credentials
    )


@pytest.mark.parametrize(
    ("name", "more", "passes"),
    [
        # the provider's own variable serves agent and judge, so that one key in the step is enough
        ("GOOGLE_API_KEY", {}, True),
        ("GOOGLE_API_KEY", {"everything": True}, True),
        # other variables that hold it need their names
        ("DESK_KEY", {"names": ["DESK_*"]}, False),
        ("DESK_KEY", {"names": ["DESK_KEY"]}, True),
        # a key that the judge is given as its own: whoever names it in full means it
        ("GOOGLE_API_KEY", {"own_key": True}, False),
        ("DESK_KEY", {"own_key": True, "everything": True}, False),
        ("DESK_KEY", {"own_key": True, "names": ["*", "DESK_KE?"]}, False),
        ("DESK_KEY", {"own_key": True, "names": ["*", "DESK_KEY"]}, True),
    ],
)
def test_when_an_agent_gets_a_judges_key(name: str, more: dict[str, Any], *, passes: bool) -> None:
    given = variables(**{"judge_keys": {name}, **more})
    assert (name in given.environment()) is passes
    assert "PATH" in given.environment(), "other variables are not a judge's"
    assert (f"{name} is a judge's key" in given.why_absent(name)) is not passes
    assert (given.why_absent(name) == "") is passes


@pytest.mark.parametrize(
    ("name", "names", "words"),
    [
        # the forgotten half: named, and not handed over
        (
            "CHAT_KEY",
            ["CHAT_KEY"],
            "CHAT_KEY is not set here; set `CHAT_KEY: ${{ secrets.CHAT_KEY }}` under the step's",
        ),
        ("TZ", [], "TZ is not set here; set"),  # needs no name
        # the other half: handed over, and not named
        (
            "DESK_KEY",
            [],
            "DESK_KEY is set here but not passed to the agent; name it: `env: DESK_KEY` under the step's `with:`",
        ),
        # both
        ("CHAT_KEY", ["CHAT"], "under the step's `env:`, and name it: `env: CHAT_KEY`"),
        (
            "EMPTY",
            ["EMPTY"],
            "EMPTY is set here but empty, as secrets are in a fork's or Dependabot's pull request, or if they do",
        ),
        ("EMPTY", [], "do not exist, and name it: `env: EMPTY`"),
        ("GITHUB_TOKEN", ["*"], "never passed to an agent"),
        ("UV_INDEX_OURS_PASSWORD", ["UV_*"], "reaches only the installer"),
    ],
)
def test_why_an_agent_does_not_see_a_variable(name: str, names: list[str], words: str) -> None:
    assert words in variables(*names, environ={**ENVIRON, "EMPTY": ""}).why_absent(name)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["GEMINI_API_KEY", "GOOGLE_API_KEY"], ""),  # one is enough
        (["CHAT_KEY", "DESK_KEY"], "DESK_KEY is set here but not passed"),
        (["CHAT_KEY", "EMPTY"], "EMPTY is set here but empty"),
        (["GH_TOKEN"], "GH_TOKEN belongs to the workflow and is never passed"),  # set or not
        # people's own, from a secret of a name that GitHub takes
        (
            ["GITHUB_PERSONAL_ACCESS_TOKEN"],
            "GITHUB_PERSONAL_ACCESS_TOKEN is not set here; set `GITHUB_PERSONAL_ACCESS_TOKEN: ${{ secrets.GH_PERS",
        ),
        (["CHAT_KEY", "OTHER_KEY"], "neither CHAT_KEY nor OTHER_KEY is set here; set `CHAT_KEY: "),
    ],
)
def test_why_an_agent_has_none_of_several(names: list[str], words: str) -> None:
    why = variables(environ={**ENVIRON, "EMPTY": ""}).why_lacking(names)
    assert why.startswith(words)
    assert bool(why) is bool(words)


@pytest.mark.parametrize("name", [*config_variables.CI_VARIABLES])
def test_whatever_says_that_a_ci_runs_this_makes_it_no_terminal(name: str) -> None:
    assert config_variables.is_terminal({})
    assert config_variables.is_terminal({name: ""})
    assert not config_variables.is_terminal({name: "1"})
