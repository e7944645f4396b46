"""What `evalgate doctor` and `evalgate init` say of real small repositories, word for word.

`make golden` rewrites the files in doctor/; the diff is to be read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, repositories

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent / "doctor"
SECRET = "s3cret-that-nobody-may-read"
GATE_FILE = "agents: [{driver: python, call: 'desk:answer'}]\n"
ANSWER = "def answer(message):\n    return 'On its way.'\n"
CONFIG = '{"criteria": {"response_match_score": 0.8}}'
INIT = ("init", "--action", "acme/evalgate/gate@v1")


def evalset(name: str, *cases: str) -> str:
    listed = []
    for case in cases:
        turn: dict[str, Any] = {
            "user_content": {"role": "user", "parts": [{"text": f"Where is parcel {case}?"}]},
            "final_response": {"role": "model", "parts": [{"text": "On its way."}]},
        }
        listed.append({"eval_id": case, "conversation": [turn]})
    return json.dumps({"eval_set_id": name, "eval_cases": listed})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A repository, the commands in it, and the variables that are set."""

    files: Mapping[str, str]
    commands: tuple[tuple[str, ...], ...] = (("doctor",),)
    variables: Mapping[str, str] = field(default_factory=dict)
    code: int = 0
    is_git: bool = True


SOUND = {"evals/a.evalset.json": evalset("a", "one", "two"), "evals/test_config.json": CONFIG, "desk.py": ANSWER,
         "evalgate.yml": GATE_FILE}  # fmt: skip
ADK = "from google.adk.agents import Agent\nroot_agent = Agent(name='bot', model='gemini-2.5-flash')\n"
READING = "import os\nURL = os.environ['DESK_URL']\n"
WORKFLOW = """\
on: pull_request
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - uses: OWNER/evalgate@v1
        with: {env: DESK_URL}
"""

CASES = {
    # from nothing to a workflow that doctor has no objection to
    "sound": Case(files=SOUND, commands=(INIT, ("doctor",), INIT)),
    # a variable that the import needs
    "variables": Case(files={**SOUND, "desk.py": READING + ANSWER}, code=3),
    # the same where it is set: values are never shown
    "variables_set": Case(
        files={**SOUND, "desk.py": READING + ANSWER, "evalgate.yml": f"{GATE_FILE}env: DESK_*\n"},
        variables={"DESK_URL": f"https://{SECRET}"},
    ),
    "module_missing": Case(files={**SOUND, "desk.py": "import yaml_of_nobody.deep\n" + ANSWER}, code=3),
    # one broken file, one that nobody can read the agent of, two suites of one agent; another stays
    # as it is
    "monorepo": Case(
        files={
            **SOUND,
            "evals/b.evalset.json": evalset("b", "three"),
            "evals/broken.evalset.json": '{"eval_set_id": "x", "eval_cases": [',
            "other/c.evalset.json": evalset("c", "four"),
            "east/bot/agent.py": ADK,
            "west/bot/agent.py": ADK,
            "evalgate.yml": "agents: [{driver: python, call: 'desk:answer', suites: [evals/**]}]\n",
        },
        code=2,
    ),
    "workflow": Case(
        files={**SOUND, ".github/workflows/gate.yml": WORKFLOW},
        commands=(("doctor",), INIT),
    ),
    # an agent that is not there, and a workflow that sets no key of the judge
    "agent_missing": Case(
        files={
            **SOUND,
            "evals/test_config.json": '{"criteria": {"final_response_match_v2": 0.8}}',
            "evalgate.yml": "agents: [{driver: adk, path: dsk}]\n",
            ".github/workflows/gate.yml": WORKFLOW,
        },
        variables={"GOOGLE_API_KEY": SECRET},
        code=2,
    ),
    # a judge without a key; no git
    "judge": Case(
        files={**SOUND, "evals/test_config.json": '{"criteria": {"final_response_match_v2": 0.8}}'},
        code=2,
        is_git=False,
    ),
    # criteria of two suites that are wrong; a report folder that cannot be
    "shared": Case(
        files={
            **SOUND,
            "evals/b.evalset.json": evalset("b", "three"),
            "evals/test_config.json": '{"criteria": {"response_mach_score": 0.8}}',
            "evalgate.yml": f"{GATE_FILE}output: desk.py/report\nrusn: 2\n",
        },
        code=2,
    ),
    # an agent behind a URL, where nobody listens: its base cannot be rerun either
    "endpoint": Case(
        files={
            **SOUND,
            "evalgate.yml": "agents: [{driver: http, url: 'http://127.0.0.1:9/chat', response: {text: reply}, "
            "request: {message: '{text}'}}]\njudge: {base_url: 'http://127.0.0.1:9/v1', api_key_env: DESK_KEY}\n",
            "evals/test_config.json": '{"criteria": {"final_response_match_v2": 0.8}}',
            ".github/workflows/gate.yml": WORKFLOW,
        },
        variables={"DESK_KEY": SECRET},
        code=3,
    ),
    "nothing": Case(files={"desk.py": ANSWER}, commands=(INIT, ("doctor",)), code=4),
    # agents that somebody has to choose from; a framework's agent; what an example says, and what a
    # secret is
    "init_choices": Case(
        files={
            "evals/a.evalset.json": evalset("a", "one"),
            "evals/test_config.json": CONFIG,
            "east/bot/agent.py": "import os\n" + ADK + "os.environ['DESK_TOKEN'], os.environ['DESK_REGION']\n"
            "os.environ['GITHUB_PERSONAL_ACCESS_TOKEN']\n",
            "west/bot/agent.py": ADK,
            ".env.example": "DESK_TOKEN=x\nDESK_REGION=eu-west1\n",
        },
        commands=(("init",), ("init", "--force")),
    ),
    # no agent for either file: one rule, told once
    "init_no_agent": Case(
        files={
            "evals/a.evalset.json": evalset("a", "one"),
            "evals/b.evalset.json": evalset("b", "two"),
            "evals/test_config.json": CONFIG,
        },
        commands=(INIT, ("doctor",)),
        code=2,
    ),
    "init_framework": Case(
        files={
            "evals/a.evalset.json": evalset("a", "one"),
            "evals/test_config.json": CONFIG,
            "src/desk/bot.py": "from pydantic_ai import Agent\ndesk = Agent('openai:gpt-4o')\n",
        },
        commands=(INIT,),
    ),
    # Vertex AI, as the local .env has it: doctor has no objection to the workflow
    "init_vertex_env": Case(
        files={
            "evals/a.evalset.json": evalset("a", "one"),
            "evals/test_config.json": CONFIG,
            "bot.py": "MODEL = 'gemini-2.5-flash'\nAGENT = dict(model=MODEL)\n" + ANSWER,
            "evalgate.yml": GATE_FILE.replace("desk", "bot"),
            ".env": "GOOGLE_GENAI_USE_VERTEXAI=TRUE\nGOOGLE_CLOUD_PROJECT=my-project\nGOOGLE_CLOUD_LOCATION=global\n",
        },
        commands=(INIT, ("doctor",)),
    ),
    # Vertex AI, below the repository's top
    "init_vertex": Case(
        files={
            "services/desk/evals/a.evalset.json": evalset("a", "one"),
            "services/desk/evals/test_config.json": CONFIG,
            "services/desk/bot/agent.py": ADK,
            "services/desk/.env.example": "GOOGLE_GENAI_USE_VERTEXAI=1\nGOOGLE_CLOUD_LOCATION=europe-west1\n",
        },
        commands=((*INIT, "--root", "services/desk"),),
    ),
}  # fmt: skip


def said(root: Path, case: Case) -> tuple[str, int]:
    """All that the commands say, then the files that they wrote; the last exit code but that of
    `init`."""
    repository = root / "repository"
    repositories.made(repository)
    repositories.commit(repository, case.files)
    if not case.is_git:
        (repository / ".git").rename(root / "git")
    same = {
        name: value for name, value in os.environ.items() if forked_command.READ_ONCE.match(name)
    }
    environment = {**same, **repositories.ENVIRON, "HOME": str(root), **case.variables}
    text, code = "", 0
    for command in case.commands:
        python = ("--python", sys.executable) if command[0] == "doctor" else ()
        done = forked_command.run([*command, *python], cwd=repository, env=environment, timeout=120)
        text += f"$ evalgate {' '.join(command)}\n{done.stdout}{done.stderr}exit code {done.returncode}\n\n"
        code = done.returncode or code
    for path in sorted(
        path for path in repository.rglob("*.yml") if path.relative_to(repository).as_posix()
    ):
        name = path.relative_to(repository).as_posix()
        if name not in case.files:
            text += f"--- {name}\n{path.read_text(encoding='utf-8')}\n"
    return plain(text, root), code


def plain(text: str, root: Path) -> str:
    """Without what differs from one machine or commit to another."""
    text = text.replace(str(root), "/home/ada").replace(sys.executable, "/usr/bin/python3")
    text = re.sub(r"Python \d+\.\d+\.\d+", "Python 3.x", text)
    text = re.sub(r"\d+(\.\d+)? [MGT]i?B", "N GB", text)
    # whatever room the machine has that runs the tests
    text = re.sub(
        r"warn( +disk +)only N GB free for environments \[disk-space\](\n +fix: .*)?",
        r"ok  \1N GB free for environments",
        text,
    )
    text = re.sub(r"(?<=  base         )[0-9a-f]{7}\b", "1234567", text)
    return re.sub(r"\(not possible here: [^)]*\)+|\(possible here: --isolate\)", "(...)", text)


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str, tmp_path: Path, update_golden: bool) -> None:
    case = CASES[name]
    text, code = said(tmp_path, case)
    golden = HERE / f"{name}.txt"
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert code == case.code
    assert SECRET not in text


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(CASES)
