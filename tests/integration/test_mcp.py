"""`evalgate mcp` as clients meet it: the SDK's own over stdio and HTTP, and many writers at
once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import jsonschema
import mcp
import pytest
from builders import node
from builders.nightly import BY_NIGHT
from mcp.client.stdio import StdioServerParameters

from evalgate.wings.assistant import operations, server
from evalgate.wings.assistant.operations import Operations
from evalgate.wings.assistant.resources import ServerResources
from evalgate.wings.assistant.tools import RELAXATIONS, tools
from evalgate.wings.ces.edit import Refused

pytestmark = pytest.mark.integration

DATA = Path(__file__).parents[1] / "data/ces"
APP = "projects/local/locations/local/apps/library-desk"
RENEW = f"{APP}/evaluations/renew-loan-happy-path"
FILE = "evaluations/golden_library_renewal.json"
LEVEL = "semanticSimilaritySuccessThreshold"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "repository"
    shutil.copytree(DATA, place / "evaluations")
    return place


@contextlib.asynccontextmanager
async def over_stdio(root: Path, *options: str) -> AsyncIterator[mcp.Client]:
    environ = {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")}
    args = ["-m", "evalgate", "mcp", "--root", str(root), *options]
    parameters = StdioServerParameters(command=sys.executable, args=args, env=environ)
    async with mcp.Client(parameters) as client:
        yield client


@pytest.mark.parametrize(
    "asked",
    [
        "/etc/passwd",
        "../taken.evalset.json",  # it is one, and could be run
        "../taken.evalset.json:renewal",
        "--output=elsewhere",  # a name, no option
        "\ud800.evalset.json",
    ],
)
def test_nothing_outside_of_the_repository_is_run(root: Path, asked: str) -> None:
    case = {
        "eval_id": "renewal",
        "conversation": [{"user_content": {"role": "user", "parts": [{"text": "SECRET"}]}}],
    }
    (root.parent / "taken.evalset.json").write_text(
        json.dumps({"eval_set_id": "taken", "eval_cases": [case]})
    )
    operation = Operations(ServerResources(root)).start([asked])
    assert operation.over.wait(60)
    told = operation.json()
    assert (told["metadata"]["state"], "response" in told) == ("ERROR", False)
    assert "SECRET" not in told["error"]["message"]
    assert "root:" not in told["error"]["message"]
    assert not list(root.parent.rglob("results.json"))


def test_list_get_preview_update_over_stdio(root: Path) -> None:
    """An assistant's whole way; what it gets is what the schemas say."""

    async def talk() -> None:
        async with over_stdio(root) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert listed.keys() == tools(ServerResources(root)).keys()
            update = listed["update_evaluation"]
            assert update.description is not None
            assert update.description.startswith(
                "Updates the specified evaluation. Always pass an update mask."
            )
            assert update.annotations is not None
            hints = update.annotations
            assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint) == (
                False, False, False, False,
            )  # fmt: skip
            found = (await client.call_tool("list_evaluations", {})).structured_content
            names = [each["name"] for each in found["evaluations"]]
            assert RENEW in names
            one = (await client.call_tool("get_evaluation", {"name": RENEW})).structured_content
            turns = one["golden"]["turns"]
            turns[2]["turnLevelMetricsThresholdsOverride"][LEVEL] = 1
            body = {"name": RENEW, "etag": one["etag"], "golden": {"turns": turns}}
            given = {"evaluation": body, "updateMask": "golden.turns"}
            jsonschema.validate(given, update.input_schema)
            before = (root / FILE).read_text()
            preview = (
                await client.call_tool("preview_update_evaluation", given)
            ).structured_content
            assert preview["relaxations"] == [
                f"golden.turns[2].turnLevelMetricsThresholdsOverride.{LEVEL}: it is replaced by another"
            ]
            assert f'-          "{LEVEL}": 2,\n+          "{LEVEL}": 1,\n' in preview["diff"]
            assert (root / FILE).read_text() == before
            done = await client.call_tool("update_evaluation", given)
            assert not done.is_error
            jsonschema.validate(done.structured_content, update.output_schema)
            assert done.meta is not None
            assert done.meta[RELAXATIONS] == preview["relaxations"]
            assert f"This may relax: {preview['relaxations'][0]}" in [
                each.text for each in done.content
            ]
            assert (root / FILE).read_text() == before.replace(f'"{LEVEL}": 2', f'"{LEVEL}": 1')
            stale = await client.call_tool("update_evaluation", given)
            assert stale.is_error
            assert stale.structured_content["error"]["status"] == "ABORTED"

    anyio.run(talk)


ERRORS = [  # tool, arguments, status, field
    ("get_evaluation", {}, "INVALID_ARGUMENT", "name"),
    ("get_evaluation", {"nam": "x"}, "INVALID_ARGUMENT", "nam"),
    ("get_evaluation", {"name": 3}, "INVALID_ARGUMENT", "name"),
    ("get_evaluation", {"name": "x"}, "NOT_FOUND", None),
    ("list_evaluations", {"evaluationFilter": "x"}, "INVALID_ARGUMENT", "evaluationFilter"),
    ("list_evaluations", {"orderBy": "name"}, "INVALID_ARGUMENT", "orderBy"),
    ("list_evaluations", {"pageToken": "x"}, "INVALID_ARGUMENT", "pageToken"),
    # a digit, and no number
    ("list_evaluations", {"pageToken": "\u00b2"}, "INVALID_ARGUMENT", "pageToken"),
    ("list_evaluations", {"pageToken": "9" * 5000}, "INVALID_ARGUMENT", "pageToken"),
    ("update_evaluation", {"evaluation": {"name": RENEW}, "updateMask": "golden.x"}, "INVALID_ARGUMENT", "updateMask"),
    ("update_evaluation", {"evaluation": {"name": RENEW, "tags": 1}}, "INVALID_ARGUMENT", "evaluation.tags"),
    ("run_evaluation", {}, "INVALID_ARGUMENT", "evaluations"),
    ("run_evaluation", {"evaluations": ["x"]}, "NOT_FOUND", None),
    ("run_evaluation", {"evalCases": [1]}, "INVALID_ARGUMENT", "evalCases"),
    ("run_evaluation", {"evalCases": ["a.evalset.json"], "runCount": 0}, "INVALID_ARGUMENT", "runCount"),
    ("get_operation", {"name": "operations/x"}, "NOT_FOUND", None),
    ("export_app", {}, "UNIMPLEMENTED", None),
]  # fmt: skip


def test_errors_are_those_of_google_rpc(root: Path) -> None:
    async def talk() -> None:
        async with mcp.Client(server.server_of(ServerResources(root))) as client:
            for name, given, status, where in ERRORS:
                told = await client.call_tool(name, given)
                assert told.is_error, name
                error = told.structured_content["error"]
                assert error["status"] == status
                assert told.content[0].text.startswith(f"{status}: ")
                fields = [
                    each["field"]
                    for detail in error.get("details", ())
                    for each in detail["fieldViolations"]
                ]
                assert where is None or where in fields

    anyio.run(talk)


def test_no_relaxing_and_read_only_as_options(root: Path) -> None:
    async def talk(option: str, body: dict[str, Any], mask: str) -> Any:
        async with over_stdio(root, option) as client:
            return await client.call_tool(
                "update_evaluation", {"evaluation": body, "updateMask": mask}
            )

    before = (root / FILE).read_text()
    for option, body, mask in (
        ("--no-relaxing", {"name": RENEW}, "golden.evaluationExpectations"),
        ("--read-only", {"name": RENEW, "description": "x"}, "description"),
    ):
        told = anyio.run(talk, option, body, mask)
        assert told.is_error
        assert told.structured_content["error"]["status"] == "PERMISSION_DENIED"
        assert option in told.structured_content["error"]["message"]
        assert (root / FILE).read_text() == before

    async def run() -> Any:
        async with over_stdio(root, "--read-only") as client:
            return await client.call_tool("run_evaluation", {"evaluations": [RENEW]})

    # it would cost money
    assert anyio.run(run).structured_content["error"]["status"] == "PERMISSION_DENIED"


def test_a_run_is_cancelled(agent: Path) -> None:
    """The operation says so, and the next run begins."""
    (agent / "desk.py").write_text(
        "import time\n\ndef answer(text):\n    time.sleep(2)\n    return text\n"
    )

    async def talk() -> None:
        async with over_stdio(agent) as client:

            async def call(tool: str, **given: Any) -> Any:
                return (await client.call_tool(tool, given)).structured_content

            first = await call("run_evaluation", evalCases=[CASES], runCount=20)
            second = await call("run_evaluation", evalCases=[f"{CASES}:bye"])
            await call("cancel_operation", name=first["name"])
            with anyio.fail_after(120):
                while not (first := await call("get_operation", name=first["name"]))["done"]:
                    await anyio.sleep(0.2)
                assert first["error"]["status"] == "CANCELLED"
                assert first["metadata"]["progress"]["completedCount"] < 40
                while not (second := await call("get_operation", name=second["name"]))["done"]:
                    await anyio.sleep(0.2)
            assert second["response"]["verdict"] == "fail"

    anyio.run(talk)


def test_what_a_list_of_tools_and_a_loop_cost(root: Path) -> None:
    """An assistant pays for every character of it."""

    async def talk() -> None:
        async with mcp.Client(server.server_of(ServerResources(root))) as client:
            tools = (await client.list_tools()).tools
            listing = json.dumps([tool.model_dump(mode="json", by_alias=True) for tool in tools])
            assert len(listing) <= 40_000
            update = next(tool for tool in tools if tool.name == "update_evaluation")
            definitions = update.input_schema["$defs"]
            expectation = definitions["GoldenExpectation"]["properties"]
            assert expectation["toolCall"]["description"].startswith("Check that a specific tool")
            properties = [
                field
                for definition in definitions.values()
                for field in definition.get("properties", {}).values()
            ]
            assert sum("description" in field for field in properties) >= len(properties) * 0.9
            pages = (await client.call_tool("list_evaluations", {})).structured_content
            for evaluation in pages["evaluations"]:
                assert len(json.dumps(evaluation)) <= 4_096
            whole = (
                await client.call_tool("list_evaluations", {"view": "FULL"})
            ).structured_content
            assert "turns" in json.dumps(whole)

    anyio.run(talk)


def test_runs_that_wait_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_WAITING", 2)
    monkeypatch.setattr(Operations, "_work", lambda self: None)  # none begins
    made = Operations(ServerResources(root))
    first, _ = made.start([CASES]), made.start([CASES])
    with pytest.raises(Refused, match="2 runs are waiting"):
        made.start([CASES])
    first.over.set()
    made.start([CASES])
    assert made.get(first.name) is first


# --- running --------------------------------------------------------------------------------------

DESK = """
def answer(text):
    return {"hello": "Good morning", "bye": "What?"}[text]
"""
SET = {
    "eval_set_id": "greetings",
    "eval_cases": [
        {
            "eval_id": name,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": name}]},
                    "final_response": {"role": "model", "parts": [{"text": "Good morning"}]},
                }
            ],
        }
        for name in ("hello", "bye")
    ],
}
CASES = "greet.evalset.json"


@pytest.fixture
def agent(root: Path) -> Path:
    """An agent that greets, and does not take its leave."""
    (root / "desk.py").write_text(DESK)
    (root / CASES).write_text(json.dumps(SET, indent=2) + "\n")
    (root / "test_config.json").write_text(json.dumps({"criteria": {"response_match_score": 0.9}}))
    (root / "evalgate.yml").write_text("agents: [{driver: python, call: 'desk:answer'}]\n")
    return root


def test_a_case_from_the_list_to_the_result(agent: Path) -> None:
    """List, run, get, preview, update, run again: an assistant that changes what a case expects is
    told so."""

    async def talk() -> None:
        async with over_stdio(agent) as client:

            async def call(tool: str, **given: Any) -> Any:
                done = await client.call_tool(tool, given)
                assert not done.is_error, done.content
                return done

            (found,) = (await call("list_eval_sets")).structured_content["evalSets"]
            assert found == {"file": CASES, "evalSetId": "greetings", "evalIds": ["hello", "bye"]}
            one = (await call("get_eval_case", file=CASES, evalId="bye")).structured_content

            told: list[tuple[float, float | None]] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                told.append((done, total))

            given: dict[str, Any] = {"evalCases": [CASES], "wait": True}
            ran = await client.call_tool("run_evaluation", given, progress_callback=progress)
            operation = ran.structured_content
            assert operation["done"], operation
            outcomes = {each["evalId"]: each["outcome"] for each in operation["response"]["cases"]}
            assert outcomes == {"hello": "pass", "bye": "fail"}
            assert operation["response"]["verdict"] == "fail"
            assert told
            assert operation["metadata"]["progress"]["completedCount"] >= 2

            one["evalCase"]["conversation"][0]["final_response"]["parts"][0]["text"] = "What?"
            given = {
                "file": CASES,
                "evalId": "bye",
                "etag": one["etag"],
                "updateMask": "conversation",
            }
            given["evalCase"] = {"conversation": one["evalCase"]["conversation"]}
            preview = (await call("preview_update_eval_case", **given)).structured_content
            assert preview["relaxations"] == [
                "conversation[0].final_response.parts[0].text: it is replaced by another"
            ]
            done = await call("update_eval_case", **given)
            assert done.meta[RELAXATIONS] == preview["relaxations"]
            started = (await call("run_evaluation", evalCases=[f"{CASES}:bye"])).structured_content
            assert not started["done"]
            while not started["done"]:
                await anyio.sleep(0.2)
                started = (await call("get_operation", name=started["name"])).structured_content
            assert [each["outcome"] for each in started["response"]["cases"]] == ["pass"]
            lost = (
                await call("run_evaluation", evalCases=["nowhere.evalset.json"], wait=True)
            ).structured_content
            assert lost["error"]["status"] == "NOT_FOUND"

    anyio.run(talk)


INSPECTOR = ("@modelcontextprotocol/inspector-cli", "0.16.8")


@BY_NIGHT
def test_the_inspector_lists_gets_previews_updates_and_runs(agent: Path) -> None:
    """A client of another make, over stdio."""
    program = node.package(*INSPECTOR) / "build/index.js"
    environ = {**os.environ, "XDG_CACHE_HOME": str(agent.parent / "cache")}
    server_command = [sys.executable, "-m", "evalgate", "mcp", "--root", str(agent)]

    def call(tool: str, **given: Any) -> Any:
        args = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in given.items()
        ]
        said = [each for arg in args for each in ("--tool-arg", arg)]
        command = [
            node.program(),
            str(program),
            *server_command,
            "--method",
            "tools/call",
            "--tool-name",
            tool,
            *said,
        ]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["structuredContent"]

    names = [each["name"] for each in call("list_evaluations")["evaluations"]]
    assert RENEW in names
    one = call("get_evaluation", name=RENEW)
    change = {
        "evaluation": {"name": RENEW, "etag": one["etag"], "tags": ["P1"]},
        "updateMask": "tags",
    }
    preview = call("preview_update_evaluation", **change)
    assert (len(preview["relaxations"]), '"P1"' in preview["diff"]) == (2, True)
    assert call("update_evaluation", **change)["tags"] == ["P1"]
    operation = call("run_evaluation", evalCases=[f"{CASES}:hello"], wait=True)
    assert [each["outcome"] for each in operation["response"]["cases"]] == ["pass"]


# --- an assistant's loop --------------------------------------------------------------------------

DESK_OF_TWENTY = """
def answer(text):
    return "Your book is due on Friday." if "due" in text else "Good morning"
"""


def answering(title: str, question: str, expected: str) -> dict[str, Any]:
    """A golden of one turn, whose answer is compared word by word."""
    response = {"agentResponse": {"chunks": [{"text": expected}]}, "comparisonType": "EQUALS"}
    steps = [{"userInput": {"text": question}}, {"expectation": response}]
    return {"displayName": title, "tags": ["loans"], "golden": {"turns": [{"steps": steps}]}}


@pytest.fixture
def desk(root: Path) -> Path:
    """Twenty evaluations without names of an agent, one of which expects what it does not say."""
    shutil.rmtree(root / "evaluations")
    for number in range(20):
        expected = "Your book is due today." if number == 7 else "Good morning"
        question = "When is it due?" if number == 7 else "Hello"
        title = f"Question {number}"
        folder = root / f"evaluations/Question_{number}"
        folder.mkdir(parents=True)
        content = json.dumps(answering(title, question, expected), indent=2)
        (folder / f"Question_{number}.json").write_text(content)
    (root / "desk.py").write_text(DESK_OF_TWENTY)
    (root / "evalgate.yml").write_text("agents: [{driver: python, call: 'desk:answer'}]\n")
    return root


class Assistant:
    """A client that counts what a model would read and write: about three characters a token."""

    def __init__(self, client: mcp.Client) -> None:
        self._client = client
        self.tokens = 0

    def _read(self, text: str) -> None:
        self.tokens += len(text) // 3

    async def begin(self) -> None:
        """Read the tools, as each session does once."""
        for tool in (await self._client.list_tools()).tools:
            about = {"name": tool.name, "description": tool.description, "in": tool.input_schema}
            self._read(json.dumps(about))

    async def call(self, tool: str, **arguments: Any) -> tuple[Any, bool]:
        """Call a tool: what it gives, and whether it refused."""
        self._read(json.dumps(arguments))
        done = await self._client.call_tool(tool, arguments)
        for block in done.content:
            self._read(block.text)
        return done.structured_content, bool(done.is_error)


def test_an_assistant_finds_a_failure_and_proposes_a_change(desk: Path) -> None:
    """Run, list what fails, read, propose, let a person accept, run, result: in 20,000 tokens."""

    async def talk() -> None:
        async with over_stdio(desk, "--no-relaxing") as client:
            assistant = Assistant(client)
            await assistant.begin()
            operation, _ = await assistant.call("run_evaluation", tags=["loans"], wait=True)
            assert operation["response"]["verdict"] == "fail"
            listed, _ = await assistant.call("list_evaluations", failing=True)
            (failing,) = listed["evaluations"]
            assert failing["displayName"] == "Question 7"
            assert failing["lastCompletedResult"]["evaluationStatus"] == "FAIL"
            (version,) = failing["aggregatedMetrics"]["metricsByAppVersion"]
            assert version["failCount"] == 1
            evaluation, _ = await assistant.call("get_evaluation", name=failing["name"])
            (turn,) = evaluation["lastCompletedResult"]["goldenResult"]["turnReplayResults"]
            assert "due on Friday" in json.dumps(turn)
            golden = evaluation["golden"]
            response = golden["turns"][0]["steps"][1]["expectation"]["agentResponse"]
            response["chunks"][0]["text"] = "Your book is due on Friday."
            # what it read is what it writes, results and all
            refusal, is_error = await assistant.call("update_evaluation", evaluation=evaluation)
            assert is_error
            assert "`evalgate ces accept Question_7`" in refusal["error"]["message"]
            accept = [sys.executable, "-m", "evalgate", "ces", "accept", "Question_7"]
            subprocess.run(accept, cwd=desk, check=True, capture_output=True)
            again, _ = await assistant.call(
                "run_evaluation", evaluations=[failing["name"]], wait=True
            )
            assert again["response"]["verdict"] == "pass"
            (outcome,) = again["response"]["evaluationResults"]
            result, _ = await assistant.call("get_evaluation_result", name=outcome["name"])
            assert result["evaluationStatus"] == outcome["evaluationStatus"] == "PASS"
            assert again["metadata"]["evaluations"] == [failing["name"]]
            assert result["evaluationRun"] == again["response"]["evaluationRun"]
            assert assistant.tokens <= 20_000

    anyio.run(talk)


# --- HTTP -----------------------------------------------------------------------------------------


@pytest.fixture
def http(root: Path) -> Iterator[tuple[str, str]]:
    """The address and the token of a server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    args = [sys.executable, "-m", "evalgate", "mcp", "--root", str(root), "--http", str(port)]
    environ = {**os.environ, "XDG_DATA_HOME": str(root.parent / "data")}
    with subprocess.Popen(args, stderr=subprocess.PIPE, text=True, env=environ) as child:
        assert child.stderr is not None
        address = child.stderr.readline().strip()
        path = child.stderr.readline().strip().rpartition(" ")[2]
        token = Path(path).read_text()
        for _ in range(200):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1),
            ):
                break
            time.sleep(0.05)
        yield address, token
        child.terminate()
        child.wait(timeout=20)
        child.stderr.close()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def test_http_is_for_this_machine_and_the_token(http: tuple[str, str], root: Path) -> None:
    address, token = http
    (path,) = (root.parent / "data").rglob("*.token")
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.kept_token(path) == token  # the next start has the same
    assert address.startswith("http://127.0.0.1:")
    good = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    cases: list[tuple[dict[str, str], int]] = [
        (good, 200),
        ({**good, "authorization": "Bearer x"}, 401),
        ({**good, "authorization": ""}, 401),
        ({**good, "host": "evil.example"}, 403),  # DNS rebinding
        ({**good, "origin": "http://evil.example"}, 403),  # a page in a browser
        ({**good, "origin": address.removesuffix("/mcp")}, 200),
    ]
    for headers, status in cases:
        assert (
            httpx.post(address, json=INITIALIZE, headers=headers, timeout=10).status_code == status
        ), headers


# --- many writers ---------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.read import Kind
from evalgate.wings.assistant.resources import ServerResources
root, me, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
resources, done, aborted = ServerResources(root), 0, 0
while done < 100:
    found = resources.get(Kind.EVALUATION, name)
    body = {"name": name, "etag": found["etag"], "tags": [*found["tags"], f"{me}{done}"]}
    try:
        resources.update(Kind.EVALUATION, body, mask="tags")
        done += 1
    except Refused as refused:
        assert refused.code == "ABORTED", refused
        aborted += 1
print(aborted)
"""


def test_no_update_of_two_hundred_is_lost(root: Path) -> None:
    """Two processes append to one list: whoever is late is told so and reads again."""
    shutil.rmtree(root / "evaluations")
    (root / "evaluations").mkdir()
    shutil.copy(DATA / "scenario_lost_card.json", root / "evaluations")
    name = f"{APP}/evaluations/lost-card-scenario"
    outputs: dict[str, str] = {}

    def write(me: str) -> None:
        args = [sys.executable, "-c", WRITER, str(root), me, name]
        outputs[me] = subprocess.run(
            args, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    threads = [threading.Thread(target=write, args=(me,)) for me in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs.keys() == {"a", "b"}
    tags = json.loads((root / "evaluations/scenario_lost_card.json").read_text())["tags"]
    assert sorted(tags) == sorted(
        ["P1", "cards", *(f"{me}{number}" for me in "ab" for number in range(100))]
    )
    assert sum(int(aborted) for aborted in outputs.values()) > 0  # they met
    assert [path.name for path in (root / "evaluations").iterdir()] == ["scenario_lost_card.json"]
