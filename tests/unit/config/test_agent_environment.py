"""What an agent may see."""

from __future__ import annotations

import pytest

from evalgate.config import load

ENVIRON = {
    "PATH": "/bin",
    "LC_ALL": "C.UTF-8",
    "HTTPS_PROXY": "http://proxy",
    "GOOGLE_API_KEY": "key",
    "GOOGLE_CLOUD_PROJECT": "p",
    "AWS_SECRET_ACCESS_KEY": "s",
    "GITHUB_TOKEN": "t",
    "GITHUB_OUTPUT": "/out",
    "INPUT_ENV": "x",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t",
    "RUNNER_TEMP": "/tmp",
    "PIP_INDEX_URL": "https://user:pass@index",
    "UV_INDEX_OURS_PASSWORD": "p",
    "UV_DEFAULT_INDEX": "https://index.invalid/simple",
    "PIP_CERT": "/etc/certificates.pem",
    "NETRC": "/home/netrc",
}
BASE = {"PATH", "LC_ALL", "HTTPS_PROXY"}


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        ([], BASE),
        (["GOOGLE_API_KEY"], BASE | {"GOOGLE_API_KEY"}),
        (["GOOGLE_*"], BASE | {"GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"}),
        # even `*` does not hand over what is the workflow's
        # nor what is the installer's
        (["*"], BASE | {"GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "AWS_SECRET_ACCESS_KEY", "NETRC"}),
        (["google_api_key"], BASE),  # names are case-sensitive
    ],
)
def test_only_what_is_named(names: list[str], seen: set[str]) -> None:
    assert set(load.agent_environment(ENVIRON, names)) == seen


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
    agent = load.agent_environment(ENVIRON, names)
    own = {"UV_DEFAULT_INDEX", "PIP_CERT"}
    assert load.installer_environment(ENVIRON, agent, names).keys() == agent.keys() | own | credentials
    assert not agent.keys() & {"UV_DEFAULT_INDEX", "PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_OURS_PASSWORD"}
    assert set(load.withheld(ENVIRON, names)) == {"PIP_INDEX_URL", "UV_INDEX_OURS_PASSWORD", "NETRC"} - credentials


@pytest.mark.parametrize(
    ("names", "passes"),
    [
        (["*"], False),
        (["GOOGLE_API_KE?"], False),
        (["GOOGLE_*", "GOOGLE_API_KEY"], True),  # whoever names it in full means it
    ],
)
def test_a_judges_key_is_passed_to_an_agent_only_by_its_name(names: list[str], *, passes: bool) -> None:
    keys = {"GOOGLE_API_KEY"}
    seen = load.agent_environment(ENVIRON, names, judge_keys=keys)
    assert ("GOOGLE_API_KEY" in seen) is passes
    assert ("AWS_SECRET_ACCESS_KEY" in seen) is ("*" in names), "other keys are not a judge's"
    why = load.why_absent("GOOGLE_API_KEY", ENVIRON, names, judge_keys=keys)
    assert ("only where the setting `env` names it in full" in why) is not passes


@pytest.mark.parametrize(
    ("name", "names", "words"),
    [
        # the forgotten half: named, and not handed over
        ("CHAT_KEY", ["CHAT_KEY"], "`env` names CHAT_KEY, but it is not set here"),
        ("CHAT_KEY", ["CHAT_*"], "with `CHAT_KEY: ${{ secrets.CHAT_KEY }}` under the step's `env:`"),
        ("TZ", [], "TZ is not set here"),  # needs no name
        # the other half: handed over, and not named
        (
            "GOOGLE_API_KEY",
            [],
            "`env` does not name GOOGLE_API_KEY; agents get only what it lists (`env: GOOGLE_API_KEY`)",
        ),
        ("CHAT_KEY", ["CHAT"], "does not name CHAT_KEY, and it is not set here either;"),
        ("GITHUB_TOKEN", ["*"], "never passed to an agent"),
        ("UV_INDEX_OURS_PASSWORD", ["UV_*"], "reaches only the installer"),
    ],
)
def test_why_an_agent_does_not_see_a_variable(name: str, names: list[str], words: str) -> None:
    assert words in load.why_absent(name, ENVIRON, names)
