"""The first commands in a stranger's repository: `evalgate init`, `evalgate doctor`."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from builders import forked_command, repositories

from evalgate.config import load, variables
from evalgate.errors import ConfigError
from evalgate.gate import prepare
from evalgate.wings.author import starter
from tests.golden.test_doctor import CASES, SOUND, evalset

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
CONFIG = '{"criteria": {"response_match_score": 0.8}}'
PLAIN = "from google.adk.agents import Agent\nroot_agent = Agent(name='bot', model='my-own')\n"
GEMINI = PLAIN.replace("my-own", "gemini-2.5-flash")
ON_VERTEX = f"{GEMINI}import os\nos.environ.update(GOOGLE_GENAI_USE_VERTEXAI='True', GOOGLE_CLOUD_PROJECT='p')\n"
TEAM = """\
from google.adk.agents import Agent
from google.adk.models.base_llm import BaseLlm

class Desk(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        yield None

models = "openai/gpt-4o", "groq/llama-3", Desk(model="gemini-2.5-pro")
subs = [Agent(name=f"sub{at}", model=model) for at, model in enumerate(models)]
root_agent = Agent(name="bot", model="my-own", sub_agents=subs)
"""


def call(repository: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and all that it said, in an environment without keys."""
    same = {
        name: value for name, value in os.environ.items() if forked_command.READ_ONCE.match(name)
    }
    environment = {**same, **repositories.ENVIRON, "HOME": str(repository.parent), **variables}
    done = forked_command.run(arguments, cwd=repository, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def stranger(folder: Path, files: Mapping[str, str]) -> Path:
    repository = repositories.made(folder / "repository")
    repositories.commit(repository, files)
    return repository


@pytest.fixture
def adk() -> str:
    python = Path(os.environ.get("EVALGATE_TEST_ADK", ROOT / ".venv-adk")) / "bin" / "python"
    if not python.is_file():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    return str(python)


@pytest.mark.parametrize(
    ("source", "code", "lines"),
    [
        # all is there but a key
        (
            GEMINI,
            3,
            [
                "  error  model        gemini-2.5-flash cannot be asked: neither GOOGLE_API_KEY nor GEMINI_API_KEY is ",
                "[model-key-missing]\n         fix: use `export GOOGLE_API_KEY=...`, or the agent's `.env`\n",
                "  ok     start        loaded, and a conversation was opened\n",
            ],
        ),
        # keys of sub-agents, from the `.env` and from nowhere; a client of the agent's own
        (
            TEAM,
            3,
            [
                "  ok     model        openai/gpt-4o: OPENAI_API_KEY is set\n",
                "  error  model        groq/llama-3 cannot be asked: GROQ_API_KEY is not set here",
                "1 suite: 1 error, 0 warnings\n",
            ],
        ),
        # Vertex AI, as the source itself sets it
        (
            f"{ON_VERTEX}os.environ['GOOGLE_CLOUD_LOCATION'] = 'global'\n",
            0,
            [
                "  ok     model        gemini-2.5-flash through Vertex AI: project and location are set\n",
                "  warn   credentials  no credentials of Google Cloud were found",
            ],
        ),
        # the same without a location
        (
            ON_VERTEX,
            3,
            [
                "gemini-2.5-flash through Vertex AI cannot be asked: GOOGLE_CLOUD_LOCATION is not set here"
            ],
        ),
        # credentials of the cloud at import, as agent-starter-pack's templates have it
        (
            f"import google.auth\n_, project = google.auth.default()\n{PLAIN}",
            3,
            [
                "  error  start        app/agent.py:2: ",
                "the agent 'app' cannot be loaded: DefaultCredentialsError: ",
                "[agent-start]\n         fix: gcloud auth application-default login\n",
            ],
        ),
        # the cause of the cause: a module of its own that lacks a package
        (
            f"from . import tools\n{PLAIN}",
            3,
            [
                "  error  start        app/tools.py:2: the agent 'app' cannot be loaded: there is no module named ",
                "         fix: If 'dotenv_of_nobody' is a package, add it to the agent's requirements",
            ],
        ),
    ],
)
def test_an_adk_agent(tmp_path: Path, adk: str, source: str, code: int, lines: list[str]) -> None:
    files = {
        "app/__init__.py": "",
        "app/agent.py": source,
        "app/.env": "OPENAI_API_KEY=k\n",
        "app/tools.py": "import os\nimport dotenv_of_nobody\n",
        "tests/eval/evalsets/basic.evalset.json": evalset("basic", "one"),
        "tests/eval/eval_config.json": CONFIG,
        "evalgate.yml": "env: NO_GCE_CHECK\n",
    }
    repository = stranger(tmp_path, files)
    ended, said = call(repository, "doctor", "--python", adk, NO_GCE_CHECK="true")
    assert ended == code, said
    for line in lines:
        assert line in said
    assert "criteria     response_match_score, from tests/eval/eval_config.json\n" in said


def test_what_a_called_agent_needs_lies_beside_its_module(tmp_path: Path) -> None:
    files = {name: text for name, text in SOUND.items() if name != "desk.py"}
    files["evalgate.yml"] = "agents: [{driver: python, call: 'shop.desk:answer'}]\n"
    repository = stranger(
        tmp_path, {**files, "shop/desk.py": SOUND["desk.py"], "shop/requirements.txt": "# none\n"}
    )
    code, said = call(repository, "doctor", UV_OFFLINE="1", UV_NO_INDEX="1")
    assert code == 0, said
    assert re.search(r"  ok     environment  Python \S+, from shop/requirements\.txt\n", said), said


@pytest.mark.parametrize(
    ("source", "signs_in", "project"),
    [
        ("import google.auth\n_, project = google.auth.default()\n", True, ""),
        ("from google import auth\ndef login():\n    return auth.default()\n", True, ""),
        ("import json\njson.JSONEncoder().default(1)\n", False, ""),
        # the step that signs in sets the project; without it nobody does
        (
            "import os\nimport google.auth\ngoogle.auth.default()\np = lambda: os.environ['GOOGLE_CLOUD_PROJECT']\n",
            True,
            "",
        ),
        (
            "import os\np = lambda: os.environ['GOOGLE_CLOUD_PROJECT']\n",
            False,
            "${{ secrets.GOOGLE_CLOUD_PROJECT }}",
        ),
    ],
)
def test_the_workflow_of_an_agent_that_logs_in_to_google_cloud(
    tmp_path: Path, source: str, signs_in: bool, project: str
) -> None:
    repository = stranger(tmp_path, {**SOUND, "desk.py": source + SOUND["desk.py"]})
    code, said = call(repository, "init", "--action", "acme/evalgate/gate@v1")
    assert (code, "gh variable set GCP_WORKLOAD_IDENTITY_PROVIDER" in said) == (0, signs_in), said
    steps = yaml.safe_load((repository / starter.WORKFLOW).read_text(encoding="utf-8"))["jobs"][
        "gate"
    ]["steps"]
    assert any("google-github-actions/auth@" in step["uses"] for step in steps) is signs_in
    gate = steps[-1]
    assert gate.get("with", {}).get("env") == (
        "GOOGLE_APPLICATION_CREDENTIALS" if signs_in else None
    )
    assert gate.get("env", {}).get("GOOGLE_CLOUD_PROJECT", "") == project
    _, said = call(repository, "doctor")
    assert "[workflow-variable]" not in said


def test_a_shallow_checkout_without_its_remote(tmp_path: Path) -> None:
    origin = stranger(tmp_path, SOUND)
    repositories.git(origin, "checkout", "--quiet", "-b", "change")
    repositories.commit(origin, {"desk.py": SOUND["desk.py"] + "\n"})
    repositories.git(origin, "checkout", "--quiet", "main")
    clone = repositories.cloned(origin, tmp_path / "clone", "--depth", "1", "--branch", "change")
    assert "  ok     base         " in call(clone, "doctor", "--python", sys.executable)[1]
    origin.rename(tmp_path / "gone")
    code, said = call(clone, "doctor", "--python", sys.executable)
    assert code == 0, said
    assert "  warn   base         " in said
    assert (
        "fix: git fetch --unshallow   # in a workflow `fetch-depth: 0` at actions/checkout\n"
        in said
    )


def test_files_are_written_only_where_they_may(tmp_path: Path) -> None:
    repository = stranger(tmp_path, SOUND)
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / ".github").mkdir()
    (repository / ".github" / "workflows").symlink_to(outside)
    code, said = call(repository, "init")
    assert (code, list(outside.iterdir())) == (3, []), said
    assert "leads out of the repository by a symbolic link" in said
    (repository / ".github" / "workflows").unlink()
    place = repository / starter.WORKFLOW
    place.parent.mkdir(parents=True)
    place.write_text("name: mine\n", encoding="utf-8")
    code, said = call(repository, "init")
    assert (code, place.read_text(encoding="utf-8")) == (2, "name: mine\n"), said
    assert "-name: mine\n+name: evalgate\n" in said
    code, said = call(repository, "init", "--force")
    assert code == 0, said
    assert f"wrote {starter.WORKFLOW}; the former file is {starter.WORKFLOW}.orig\n" in said
    assert place.with_name("evalgate.yml.orig").read_text(encoding="utf-8") == "name: mine\n"
    assert yaml.safe_load(place.read_text(encoding="utf-8"))["name"] == "evalgate"


TWO = {
    "evals/a.evalset.json": SOUND["evals/a.evalset.json"],
    "evals/test_config.json": CONFIG,
    "east/bot/agent.py": PLAIN,
    "west/bot/agent.py": PLAIN,
}
AGENTS = """\
# Which agent each evaluation file runs: https://github.com/OWNER/evalgate/blob/v1/docs/agents
agents:
  - suites: ["evals/a.evalset.json"]
    driver: adk
    path: east/bot
    # or driver: adk, path: west/bot
"""


@pytest.mark.parametrize(
    ("name", "text", "written", "former"),
    [
        # what says nothing of agents gets them, and keeps all that its author wrote
        (
            "evalgate.yml",
            "# ours\nruns: 3\nenv: DESK_URL\n",
            f"# ours\nruns: 3\nenv: DESK_URL\n\n{AGENTS}",
            None,
        ),
        ("evalgate.yaml", "runs: 3", f"runs: 3\n\n{AGENTS}", None),
        ("evalgate.yml", "# nothing yet\n", f"# nothing yet\n\n{AGENTS}", None),
        # where they cannot be added, what stood there is kept beside
        ("evalgate.yml", "{runs: 3}\n", AGENTS, "{runs: 3}\n"),
        ("evalgate.yaml", "runs: 3\nagents: []\n", AGENTS, "runs: 3\nagents: []\n"),
    ],
)
def test_init_beside_an_evalgate_yml(
    tmp_path: Path, name: str, text: str, written: str, former: str | None
) -> None:
    repository = stranger(tmp_path, {**TWO, name: text})
    place, kept = repository / name, repository / f"{name}.orig"
    code, said = call(repository, "init")
    assert (code, place.read_text(encoding="utf-8"), kept.exists()) == (2, text, False), said
    assert f"{name} exists and is left as it is; --force would make this change:\n" in said
    code, said = call(repository, "init", "--force")
    assert (code, place.read_text(encoding="utf-8")) == (0, written), said
    assert (kept.read_text(encoding="utf-8") if kept.exists() else None) == former
    assert (
        f"wrote {name}; the former file is {name}.orig\n" if former else f"wrote {name}\n"
    ) in said
    assert len([*repository.glob("evalgate.y*ml")]) == 1
    code, said = call(repository, "validate")
    assert code == 0, said


@pytest.mark.parametrize("root", [".", "services/my desk"])
def test_the_last_step_of_init_can_be_pasted(tmp_path: Path, root: str) -> None:
    """Also in a folder of the repository, where the workflow lies above."""
    repository = stranger(tmp_path, {f"{root}/{name}": text for name, text in TWO.items()})
    folder = repository / root
    code, said = call(folder, "init")
    assert code == 0, said
    command = next(line.partition(". ")[2] for line in said.splitlines() if "git add " in line)
    subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=repositories.WRITER,
        check=True,
        capture_output=True,
    )
    shown = repositories.git(repository, "show", "--name-only", "--format=%s", "HEAD").splitlines()
    file = "evalgate.yml" if root == "." else f"{root}/evalgate.yml"
    assert shown == ["Gate pull requests with evalgate", "", ".github/workflows/evalgate.yml", file]
    assert repositories.git(repository, "status", "--porcelain") == ""


def test_what_is_written_pleases_the_linters(tmp_path: Path) -> None:
    """The workflow of every golden file, by the linters that our own examples pass."""
    flows = tmp_path / ".github" / "workflows"
    flows.mkdir(parents=True)
    for name in CASES:
        text = (ROOT / "tests/golden/doctor" / f"{name}.txt").read_text(encoding="utf-8")
        _, found, rest = text.partition("--- .github/workflows/evalgate.yml\nname")
        if found:
            (flows / f"{name}.yml").write_text(
                f"name{rest.partition('--- ')[0]}".replace("acme/", "OWNER/"), encoding="utf-8"
            )
    odd = starter.render_workflow(
        {"A": '"1:2 # x"'}, judge_variables={"B": variables.secret("B")}, root="my folder: x/1"
    )
    (flows / "odd.yml").write_text(odd, encoding="utf-8")
    gate = yaml.safe_load(odd)["jobs"]["gate"]["steps"][-1]
    assert gate["with"]["root"] == "my folder: x/1"
    written = sorted(map(str, flows.iterdir()))
    assert len(written) >= 4
    for command in (
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows"),
        ("actionlint",),
        ("zizmor", "--offline", "--no-progress", f"--config={ROOT / '.github/zizmor.yml'}"),
    ):
        program = Path(sys.executable).with_name(command[0])
        if not program.exists():
            pytest.skip(f"{command[0]} is not installed: make check installs it")
        done = subprocess.run(
            [program, *command[1:], *written],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


DATASET = '{"eval_cases": [{"eval_case_id": "a", "prompt": {"parts": [{"text": "hi"}]}}]}'
METRIC = "metrics_to_run: [m]\ncustom_metrics:\n- name: m\n  custom_function: |\n    def evaluate(instance): return 1\n"
OF_AGENTS_CLI = {
    "app/agent.py": PLAIN,
    "tests/eval/datasets/basic-dataset.json": DATASET,
    "tests/eval/eval_config.yaml": METRIC,
}


@pytest.mark.parametrize(
    ("files", "found", "refusals"),
    [
        ({}, "1 suite with 1 case", []),
        # metrics that cannot be read, a dataset of a shape of its own, a set without cases
        (
            {"tests/eval/eval_config.yaml": METRIC.replace("  c", "     c")},
            "0 suites",
            ["yaml-syntax"],
        ),
        (
            {"tests/eval/datasets/basic-dataset.json": '{"eval_cases": [{"resume": "x"}]}'},
            "0 suites",
            ["no-conversation"],
        ),
        (
            {"app/x.evalset.json": '{"eval_set_id": "x", "eval_cases": []}'},
            "1 suite with 1 case",
            [],
        ),
        # an agent to choose: the first one runs
        ({"bot/agent.py": PLAIN}, "1 suite with 1 case", []),
        # no agent: the written rule has none yet
        ({"app/agent.py": ""}, "0 suites", ["agent-missing"]),
        # a judge without a key: the next steps name it
        (
            {"tests/eval/eval_config.yaml": "custom_metrics: [{name: m, prompt_template: x}]"},
            "1 suite with 1 case",
            [],
        ),
    ],
)
def test_init_finds_what_a_run_takes(
    tmp_path: Path, files: dict[str, str], found: str, refusals: list[str]
) -> None:
    repository = stranger(tmp_path, {**OF_AGENTS_CLI, **files})
    code, said = call(repository, "init")
    assert code == 0, said
    assert f"found {found}" in said
    assert re.findall(r"error: .*\[([a-z-]+)\]", said) == refusals
    settings = load.load_settings({"root": str(repository)})
    project = prepare.prepare(settings, environ={"GOOGLE_API_KEY": "k"})
    taken = 0
    with contextlib.suppress(ConfigError):
        taken = sum(
            not suite.problem for suite in prepare.require_sound(project, strict=False).suites
        )
    assert found.startswith(str(taken))
