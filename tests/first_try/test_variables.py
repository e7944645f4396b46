"""Repositories whose agents need a variable: what gets through unasked, and what is said where it
does not."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.gated_repository import Repository

from tests.integration import test_guarded as guarded

pytestmark = pytest.mark.integration

WORKFLOW = {"GITHUB_ACTIONS": "true", "CI": "true"}
ANSWER = "\n\ndef answer(text):\n    return 'answer 0'\n"
READS_URL = "import os\n\nURL = os.environ['DATABASE_URL']" + ANSWER
ASKS_GEMINI = "\n\ndef answer(text):\n    from google import genai\n\n    genai.Client()\n    return 'answer 0'\n"
LOGS_IN = "import google.auth\n\ncredentials, project = google.auth.default()" + ANSWER
LOADS = "import dotenv\n\ndotenv.load_dotenv()\n" + READS_URL
KEY = "the-key-of-gemini"
MARKS = str.maketrans("", "", "`\\")
"""What Markdown marks text with."""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with one case, on a machine where nothing is set; no evalgate.yml says anything
    of variables."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "GEMINI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # where nobody is logged in
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(
        "evalgate.yml", json.dumps({"agent": "python:desk:answer", "python": sys.executable})
    )
    made.write(".gitignore", "evalgate-report/\n__pycache__/\n.env\n")
    made.cases(0)
    return made


def judged(repository: Repository, **judge: str) -> None:
    """The judge is Gemini as well, as ADK has it."""
    rules = {"agent": "python:desk:answer", "python": sys.executable, "judge": judge}
    repository.write("evalgate.yml", json.dumps(rules))
    options = {"judge_model": "gemini-2.5-flash", "num_samples": 1}
    criterion = {"threshold": 1.0, "judge_model_options": options}
    repository.write(
        "test_config.json", json.dumps({"criteria": {"final_response_match_v2": criterion}})
    )


@pytest.fixture
def gemini() -> Iterator[guarded.Endpoint]:
    with guarded.listening() as server:
        yield server


SECRET = "`DATABASE_URL: ${{ secrets.DATABASE_URL }}` under the step's `env:`"


@pytest.mark.parametrize(
    ("agent", "environment", "said"),
    [
        # set here, not passed
        (
            READS_URL,
            {**WORKFLOW, "DATABASE_URL": "postgres://"},
            "but not passed to the agent; name it: `env: DATABASE_URL` under the step's `with:` (the agent",
        ),
        # nowhere set
        (
            READS_URL,
            WORKFLOW,
            f"DATABASE_URL is not set here; set {SECRET}, and name it: `env: DATABASE_URL` under the step's `with:`",
        ),
        (
            READS_URL,
            {},
            "DATABASE_URL is not set here; use `export DATABASE_URL=...`, or the agent's `.env`",
        ),
        (
            ASKS_GEMINI,
            {},
            "neither GOOGLE_API_KEY nor GEMINI_API_KEY is set here; use `export GOOGLE_API_KEY=...`, or the agent's",
        ),
        # needs no name, and empty, as in a fork's pull request
        (
            ASKS_GEMINI,
            {**WORKFLOW, "GOOGLE_API_KEY": ""},
            "GOOGLE_API_KEY is set here but empty, as secrets are in a fork's or Dependabot's pull request",
        ),
        # a login, while the agent is imported
        (
            LOGS_IN,
            {},
            "GOOGLE_APPLICATION_CREDENTIALS is not set here; run `gcloud auth application-default login` (the",
        ),
        (
            LOGS_IN,
            WORKFLOW,
            "is not set here; before the step use google-github-actions/auth, and name it: `env: GOOGLE_",
        ),
        (
            LOGS_IN,
            {**WORKFLOW, "GOOGLE_APPLICATION_CREDENTIALS": "/github/workspace/gha-creds.json"},
            "set here but not passed to the agent; name it: `env: GOOGLE_APPLICATION_CREDENTIALS`",
        ),
    ],
)
def test_why_an_agent_lacks_what_it_needs(
    stranger: Repository, agent: str, environment: dict[str, str], said: str
) -> None:
    stranger.write("desk.py", agent)
    code, told = stranger.call("run", environment=environment)
    assert (code, said in told) == (3, True), told
    comment = re.sub("</?code>", "", stranger.comment())  # as a heading that folds shows code
    assert said.translate(MARKS) in comment.translate(MARKS)


def test_what_is_named_and_empty(stranger: Repository) -> None:
    """As in a fork's pull request; the agent says in its own words what it misses."""
    check = (
        "\n\nif not os.environ['DATABASE_URL']:\n    raise ValueError('DATABASE_URL is required')"
    )
    stranger.write("desk.py", READS_URL + check)
    code, told = stranger.call(
        "run", "--env", "DATABASE_URL", environment={**WORKFLOW, "DATABASE_URL": ""}
    )
    assert code == 3, told
    assert (
        "DATABASE_URL is set here but empty, as secrets are in a fork's or Dependabot's pull request, or if they do not"
        in told
    )


@pytest.mark.parametrize(
    ("agent", "environment", "arguments"),
    [
        # at a terminal the agent has what the user has
        (READS_URL, {"DATABASE_URL": "postgres://"}, ()),
        # in a workflow what is named, several with commas
        (READS_URL, {**WORKFLOW, "DATABASE_URL": "postgres://"}, ("--env", "OTHER,DATABASE_URL")),
        # a model's key without a name
        (ASKS_GEMINI, {**WORKFLOW, "GOOGLE_API_KEY": KEY}, ()),
    ],
)
def test_what_needs_nothing_said(
    stranger: Repository, agent: str, environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    stranger.write("desk.py", agent)
    code, told = stranger.call("run", *arguments, environment=environment)
    assert code == 0, told


@pytest.mark.parametrize("place", [WORKFLOW, {}], ids=["workflow", "terminal"])
def test_one_key_of_the_step_serves_agent_and_judge(
    stranger: Repository, gemini: guarded.Endpoint, place: dict[str, str]
) -> None:
    stranger.write("desk.py", ASKS_GEMINI)
    judged(stranger, base_url=gemini.url)
    code, told = stranger.call("run", environment={**place, "GOOGLE_API_KEY": KEY})
    assert (code, gemini.keys) == (0, {KEY}), told
    assert "is a judge's key" not in told, "it goes without saying"


def test_a_judge_with_a_key_of_its_own_keeps_it(
    stranger: Repository, gemini: guarded.Endpoint
) -> None:
    stranger.write("desk.py", READS_URL.replace("DATABASE_URL", "JUDGE_KEY"))
    judged(stranger, base_url=gemini.url, api_key_env="JUDGE_KEY")
    code, told = stranger.call("run", environment={"JUDGE_KEY": KEY})
    assert code == 3, told
    assert "JUDGE_KEY is a judge's key, which an agent gets only if `env` names it in full" in told


@pytest.mark.parametrize("place", [WORKFLOW, {}], ids=["workflow", "terminal"])
def test_an_untracked_env_file_serves_agent_judge_and_base(
    stranger: Repository, gemini: guarded.Endpoint, place: dict[str, str]
) -> None:
    stranger.write("desk.py", LOADS)
    judged(stranger, base_url=gemini.url)
    stranger.commit("base")
    stranger.git("checkout", "-qb", "change")
    stranger.write("desk.py", f"{LOADS}\n# changed\n")
    stranger.commit("head")
    stranger.write(
        ".env", f"# keys\nexport DATABASE_URL='postgres://'\nGOOGLE_API_KEY={KEY} # mine\n"
    )
    code, told = stranger.call("validate", environment=place)
    assert code == 0, told
    code, told = stranger.call("run", "--base", "main", environment=place)
    assert (code, gemini.keys) == (0, {KEY}), told
    assert "the base's agent uses `.env` of this checkout, because git does not track it" in told
    assert (
        ".env: notice: judges use GOOGLE_API_KEY of `.env`, as the agent does [key-of-file]" in told
    )
    (case,) = stranger.results("base.json")["suites"][0]["cases"]
    assert case["verdict"] == "pass"
    assert KEY not in told + stranger.comment()


@pytest.mark.parametrize(
    ("text", "tracked", "place", "hint"),
    [
        ("GOOGLE_API_KEY=key\n", False, WORKFLOW, None),
        ("GOOGLE_API_KEY=key\n", True, {}, None),
        # what the commit brings along is the change's own word
        (
            "GOOGLE_API_KEY=key\n",
            True,
            WORKFLOW,
            "`.env` sets GOOGLE_API_KEY, but git tracks it, so it does not count in a workflow.",
        ),
        # nor does any file say whom to ask
        (
            "GOOGLE_API_KEY=key\nGOOGLE_GEMINI_BASE_URL=https://thief.example\n",
            False,
            {},
            "`.env` sets GOOGLE_GEMINI_BASE_URL, which never decides the judges' address, so the key beside it does not count",
        ),
    ],
)
def test_which_env_files_count_for_judges(
    stranger: Repository, text: str, tracked: bool, place: dict[str, str], hint: str | None
) -> None:
    stranger.write("desk.py", ANSWER)
    judged(stranger)
    stranger.write(".env", text)
    if tracked:
        stranger.write(".gitignore", "evalgate-report/\n")
    stranger.commit("all")
    code, told = stranger.call("validate", environment=place)
    assert (code, "no credentials; set GOOGLE_API_KEY or GEMINI_API_KEY" in told) == (
        2 if hint else 0,
        bool(hint),
    ), told
    assert hint is None or hint in told
