"""`evalgate run --tools ...` with real processes: record once, then gate without the backend; every
kind of agent."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command
from builders.nightly import BY_NIGHT

from tests.integration.agents.line_client import forked_adk

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples/agents"
CITIES = ("Oslo", "Rome", "Paris", "Lima", "Bern", "Cairo")

TOOL = '''
import json, os, urllib.request

def get_weather(city: str, unit: str = "C") -> dict:
    """The weather of a city, from the backend."""
    address = os.environ["WEATHER_URL"] + f"/?city={city}&unit={unit}"
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)
'''

ADK = """
import os
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from weather.tool import get_weather

class Model(BaseLlm):
    model: str = "by-rule"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            told = last.function_response.response
            part = types.Part(text=f"{told['degrees']} degrees in {told['city']}")
        else:
            args = {"city": last.text.split()[-1]}
            if os.environ.get("WEATHER_UNIT"):
                args["unit"] = os.environ["WEATHER_UNIT"]
            part = types.Part(function_call=types.FunctionCall(name="get_weather", args=args))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

def survive(tool, args, tool_context, error):
    return {"city": args["city"], "degrees": "unknown"}

root_agent = LlmAgent(
    name="weather", model=Model(), instruction="Tell.", tools=[get_weather], on_tool_error_callback=survive
)
"""

PYTHON = """
import os
from weather.tool import get_weather

def answer(text, tools):
    city = text.split()[-1]
    args = {"city": city} | ({"unit": os.environ["WEATHER_UNIT"]} if os.environ.get("WEATHER_UNIT") else {})
    try:
        told = tools.call("get_weather", args, get_weather)
    except OSError:
        told = {"city": city, "degrees": "unknown"}
    yield {"tool_call": {"name": "get_weather", "args": args}}
    yield {"tool_response": {"name": "get_weather", "response": told}}
    yield f"{told['degrees']} degrees in {told['city']}"
"""

COMMAND = """
import json, os, sys
from weather.tool import get_weather

ASKS = UNASKED = False

def say(**message):
    print(json.dumps(message), flush=True)

def tool(session, args):
    if not ASKS or os.environ.get("WEATHER_UNASKED"):
        return get_weather(**args)
    say(type="tool_call", session=session, call="c1", name="get_weather", args=args)
    told = json.loads(sys.stdin.readline())
    if told.get("run"):
        result = get_weather(**args)
        if told.get("report"):
            say(type="tool_result", session=session, call="c1", response=result)
        return result
    return told.get("response") or {"city": args["city"], "degrees": "unknown"}

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            ASKS = bool(message.get("tools"))
            say(type="ready", protocol=1, tools=not os.environ.get("WEATHER_DEAF"))
        case "start":
            say(type="started", session=session)
        case "turn":
            city = message["content"]["parts"][0]["text"].split()[-1]
            args = {"city": city} | ({"unit": os.environ["WEATHER_UNIT"]} if os.environ.get("WEATHER_UNIT") else {})
            told = tool(session, args)
            parts = [
                [{"function_call": {"name": "get_weather", "args": args}}],
                [{"function_response": {"name": "get_weather", "response": told}}],
                [{"text": f"{told['degrees']} degrees in {told['city']}"}],
            ]
            for part in parts:
                say(type="event", session=session, content={"role": "model", "parts": part}, final="text" in part[0])
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
"""


class Backend:
    """The weather service that the agents' tool calls; `asked`: what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
                backend.asked.append(query["city"])
                body = json.dumps(
                    {"city": query["city"], "degrees": len(query["city"]), "key": "k-12345678"}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Repository:
    """A repository with a weather agent of some kind, and a case for each city."""

    def __init__(
        self, root: Path, kind: str, backend: Backend, cities: tuple[str, ...] = CITIES
    ) -> None:
        self.root = root
        self.backend = backend
        package = root / "weather"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "tool.py").write_text(TOOL)
        (package / "agent.py").write_text(
            {"adk": ADK, "adk-old": ADK, "python": PYTHON, "command": COMMAND}[kind]
        )
        rule: dict[str, Any] = {
            "adk": {"driver": "adk", "path": "weather"},
            "python": {"driver": "python", "call": "weather.agent:answer"},
            "command": {"driver": "command", "command": [sys.executable, "-m", "weather.agent"]},
        }[kind.partition("-")[0]]
        if kind.startswith("adk"):
            rule["python"] = forked_adk("old" if kind == "adk-old" else "new")
        if kind == "python":
            rule["python"] = sys.executable
        self.rule = rule
        self.configure()
        (root / "test_config.json").write_text('{"criteria": {"response_match_score": 1.0}}')
        self.write_cases({city: f"{len(city)} degrees in {city}" for city in cities})

    def configure(self, **tools: Any) -> None:
        # JSON is YAML
        rules = {"agents": [self.rule], "env": ["WEATHER_*"], **({"tools": tools} if tools else {})}
        (self.root / "evalgate.yml").write_text(json.dumps(rules))

    def write_cases(self, answers: dict[str, str]) -> None:
        cases = [
            {
                "eval_id": f"in_{city}",
                "conversation": [
                    {
                        "user_content": {"role": "user", "parts": [{"text": f"weather in {city}"}]},
                        "final_response": {"role": "model", "parts": [{"text": answer}]},
                    }
                ],
            }
            for city, answer in answers.items()
        ]
        (self.root / "weather.evalset.json").write_text(
            json.dumps({"eval_set_id": "weather", "eval_cases": cases})
        )

    def run(self, *arguments: str, **environment: str) -> int:
        known = {
            "WEATHER_URL": self.backend.url,
            "WEATHER_API_KEY": "k-12345678",
            "PATH": "/usr/bin:/bin",
        }
        known |= {"HOME": str(self.root), "LANG": os.environ.get("LANG", "")}
        done = forked_command.run(
            ["run", *arguments], cwd=self.root, env={**known, **environment}, timeout=180
        )
        self.output = done.stdout + done.stderr
        return done.returncode

    def cassettes(self) -> dict[str, str]:
        return {
            path.name: path.read_text()
            for path in sorted((self.root / "tool-cassettes").rglob("*.json"))
        }

    def comment(self) -> str:
        return (self.root / "evalgate-report/comment.md").read_text()


@pytest.fixture
def backend() -> Iterator[Backend]:
    service = Backend()
    yield service
    service.stop()


ALL = pytest.mark.parametrize("kind", ["adk", "python", "command"])

RULES = """
tools:
  get_weather:
    - args: {city: Oslo}
      error: {type: TimeoutError, message: the backend is down}
    - where: {city: {regex: "^R"}}
      response: {city: Rome, degrees: 35}
      latency: {seconds: 1.2, jitter: 0.2}
"""
MOCKED = {"Oslo": "unknown degrees in Oslo", "Rome": "35 degrees in Rome"}
"""What the agents say by these rules."""


def _check_cassettes(repository: Repository, backend: Backend) -> dict[str, str]:
    assert sorted(backend.asked) == sorted(CITIES)
    recorded = repository.cassettes()
    assert list(recorded) == sorted(f"in_{city}.json" for city in CITIES)
    for city in CITIES:  # conversations ran at once, and each kept its own
        (call,) = json.loads(recorded[f"in_{city}.json"])["calls"]
        assert (call["tool"], call["args"]["city"]) == ("get_weather", city)
        assert call["response"] == {"city": city, "degrees": len(city), "key": "***"}
    return recorded


@ALL
def test_record_once_then_gate_without_the_backend(
    tmp_path: Path, kind: str, backend: Backend
) -> None:
    repository = Repository(tmp_path, kind, backend)
    assert repository.run("--tools", "record") == 0, repository.output
    recorded = _check_cassettes(repository, backend)
    if kind == "command":
        assert repository.run("--tools", "record") == 0, repository.output
        assert repository.cassettes() == recorded  # to the last byte

    backend.stop()
    if kind == "python":
        assert repository.run("--tools", "live") != 0
    repository.configure(mode="replay")
    assert repository.run() == 0, repository.output

    # a change of the agent: it asks for another unit
    assert repository.run(WEATHER_UNIT="F") == 3, repository.output
    _check_named(repository.comment())


def _check_named(comment: str) -> None:
    """The new call, what was recorded, and what is different."""
    assert "(tool_unmatched)" in comment
    assert "get_weather(city=&quot;Oslo&quot;, unit=&quot;F&quot;)" in comment
    assert "argument <code>unit</code> is new" in comment


def test_a_changed_argument_of_a_pull_request_is_named_beside_the_base(
    tmp_path: Path, backend: Backend
) -> None:
    """The base replays green from the cassettes of its commit; head's new calls have none."""
    repository = Repository(tmp_path, "python", backend, cities=("Oslo", "Rome"))
    assert repository.run("--tools", "record") == 0, repository.output
    backend.stop()
    repository.configure(mode="replay")
    (tmp_path / ".gitignore").write_text("evalgate-report/\n__pycache__/\n")
    git = (
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t.example",
        "-c",
        "commit.gpgsign=false",
    )
    agent = tmp_path / "weather/agent.py"
    for command in (
        ("init", "-qb", "main"),
        ("add", "-A"),
        ("commit", "-qm", "base"),
        ("checkout", "-qb", "change"),
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    agent.write_text(
        agent.read_text().replace('args = {"city": city}', 'args = {"city": city, "unit": "F"}')
    )
    subprocess.run([*git, "commit", "-qam", "Fahrenheit"], check=True, capture_output=True)

    assert repository.run("--base", "main") == 3, repository.output
    _check_named(repository.comment())
    (beside,) = json.loads((tmp_path / "evalgate-report/base.json").read_text())["suites"]
    assert {case["trials"][0]["outcome"]["kind"] for case in beside["cases"]} == {"transcript"}


@ALL
def test_mocked_errors_and_latencies(tmp_path: Path, kind: str, backend: Backend) -> None:
    repository = Repository(tmp_path, kind, backend)
    (tmp_path / "tools.yml").write_text(RULES)
    repository.configure(mode="mock", mocks="tools.yml")
    repository.write_cases({**MOCKED, "Lima": "4 degrees in Lima"})
    assert repository.run() == 3, repository.output  # for Lima has no rule
    assert backend.asked == []
    _check_mocked(tmp_path)
    assert "none of the 2 mock rules for <code>get_weather</code> matches" in repository.comment()


def _check_mocked(root: Path) -> None:
    results = json.loads((root / "evalgate-report/results.json").read_text())
    cases = {case["case_id"]: case["trials"][0] for case in results["suites"][0]["cases"]}
    for city in MOCKED:
        assert cases[f"in_{city}"]["grades"]["response_match_score"]["value"] == 1.0
    assert 1.2 <= _duration(results, "in_Rome") < 3.0
    assert _duration(results, "in_Oslo") < 1.2


@BY_NIGHT
def test_the_oldest_adk_records_replays_and_hears_rules(tmp_path: Path, backend: Backend) -> None:
    """It takes long to start: two runs show it all."""
    repository = Repository(tmp_path, "adk-old", backend)
    assert repository.run("--tools", "record") == 0, repository.output
    _check_cassettes(repository, backend)
    backend.stop()
    (tmp_path / "tools.yml").write_text(RULES)
    repository.configure(mode="replay", mocks="tools.yml")
    cassette = next((tmp_path / "tool-cassettes").rglob("in_Lima.json"))
    cassette.write_text(
        cassette.read_text().replace('"city": "Lima"', '"city": "Lima", "unit": "F"')
    )
    answers = {city: f"{len(city)} degrees in {city}" for city in CITIES}
    repository.write_cases({**answers, **MOCKED})
    assert repository.run() == 3, repository.output
    _check_mocked(tmp_path)
    results = json.loads((tmp_path / "evalgate-report/results.json").read_text())
    kinds = {
        case["case_id"]: case["trials"][0]["outcome"]["kind"]
        for case in results["suites"][0]["cases"]
    }
    assert kinds == {
        f"in_{city}": "tool_unmatched" if city == "Lima" else "transcript" for city in CITIES
    }


def _duration(results: dict[str, Any], case_id: str) -> float:
    """Seconds of the turn of a case."""
    (case,) = [case for case in results["suites"][0]["cases"] if case["case_id"] == case_id]
    return float(case["trials"][0]["outcome"]["invocations"][0]["duration"])


def test_a_resumed_run_takes_over_what_the_same_cassettes_gave(
    tmp_path: Path, backend: Backend
) -> None:
    repository = Repository(tmp_path, "python", backend, cities=("Oslo",))
    assert repository.run("--tools", "record") == 0, repository.output
    repository.configure(mode="replay")
    assert repository.run() == 0
    assert repository.run("--resume") == 0
    assert "1 run reused from earlier runs" in repository.output  # nothing ran again
    cassette = next((tmp_path / "tool-cassettes").rglob("*.json"))
    cassette.write_text(cassette.read_text().replace('"degrees": 4', '"degrees": 40'))
    assert repository.run("--resume") == 1  # another answer is another trial
    assert repository.run("--resume", "--tools", "live") == 0
    assert backend.asked == ["Oslo", "Oslo"]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        # a program that cannot ask is never run live by accident
        ({"WEATHER_DEAF": "1"}, "the agent runs tools without asking evalgate"),
        # nor is one believed that says it asks, and does not
        ({"WEATHER_UNASKED": "1"}, "without having asked for the call"),
    ],
)
def test_a_program_that_does_not_ask(
    tmp_path: Path, backend: Backend, environment: dict[str, str], words: str
) -> None:
    repository = Repository(tmp_path, "command", backend, cities=("Oslo",))
    assert repository.run("--tools", "record") == 0, repository.output
    assert repository.run("--tools", "replay", **environment) == 3
    assert words in repository.comment()
    assert "WEATHER_DEAF" not in environment or backend.asked == ["Oslo"]


def test_a_callable_without_tools_says_so(tmp_path: Path, backend: Backend) -> None:
    repository = Repository(tmp_path, "python", backend, cities=("Oslo",))
    (tmp_path / "weather/agent.py").write_text("def answer(text):\n    return text\n")
    assert repository.run("--tools", "record") == 3
    assert "the agent runs tools without asking evalgate" in repository.comment()


def test_an_endpoint_cannot_be_asked_and_nothing_runs(tmp_path: Path, backend: Backend) -> None:
    repository = Repository(tmp_path, "python", backend, cities=("Oslo",))
    repository.rule = {
        "driver": "http",
        "url": backend.url,
        "request": {"q": "{text}"},
        "response": {"text": "t"},
    }
    repository.configure(mode="record")
    assert repository.run() == 2
    assert "is not possible with the driver `http`" in repository.output
    assert backend.asked == []


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("node", "node agent.mjs"),
        ("shell", "sh agent.sh"),
    ],
)
def test_the_example_agents_record_and_replay(tmp_path: Path, folder: str, command: str) -> None:
    root = tmp_path / folder
    shutil.copytree(EXAMPLES / folder, root)
    (root / "evalgate.yml").write_text(
        json.dumps({"agents": [{"driver": "command", "command": command}]})
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return forked_command.run(["run", *arguments], cwd=root, timeout=60)

    assert run("--tools", "record").returncode == 0
    assert list((root / "tool-cassettes").rglob("*.json"))
    began = time.monotonic()
    assert run("--tools", "replay").returncode == 0
    assert time.monotonic() - began < 30
    for cassette in (root / "tool-cassettes").rglob("*.json"):  # the answers do come from there
        cassette.write_text(cassette.read_text().replace('"tool": "', '"tool": "no_longer_'))
    assert run("--tools", "replay").returncode == 3
    assert "tool_unmatched" in (root / "evalgate-report/comment.md").read_text()
