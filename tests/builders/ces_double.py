"""The REST surface of Customer Engagement Suite, as far as evaluations need it: a local server that
remembers.

Bodies are read by google-cloud-ces, strictly; enums are written as numbers for clients that ask for
it. It is stricter than Google documents: an update without a mask, or with one of output-only
fields, is refused, and so is what refers to resources that are not there. Pages have 3 resources,
one request in 10 is turned away with 429, and now and then three in a row with 503."""

from __future__ import annotations

import contextlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from google.cloud import ces_v1beta as ces
from google.protobuf import field_mask_pb2, json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

APP = "projects/p/locations/us/apps/desk"
STATUSES = {3: 400, 5: 404, 6: 409, 8: 429, 9: 400, 10: 409, 12: 501, 13: 500, 14: 503, 16: 401}
NAMES = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 8: "RESOURCE_EXHAUSTED",
         9: "FAILED_PRECONDITION", 10: "ABORTED", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE",
         16: "UNAUTHENTICATED"}  # fmt: skip
PAGE = 3
TURNED_AWAY = 10
BURST = (37, 3)
"""How often requests are turned away with 503, and how many in a row."""
OUTPUT_ONLY = {
    "createTime",
    "updateTime",
    "etag",
    "name",
    "evaluationRuns",
    "aggregatedMetrics",
    "invalid",
}
REFERENCES = {"tool", "toolset", "targetAgent", "evaluations", "evaluationExpectations"}
KINDS: dict[str, Any] = {
    "apps": ces.App,
    "evaluations": ces.Evaluation,
    "evaluationDatasets": ces.EvaluationDataset,
    "evaluationExpectations": ces.EvaluationExpectation,
    "evaluationRuns": ces.EvaluationRun,
    "results": ces.EvaluationResult,
    "versions": ces.AppVersion,
    "deployments": ces.Deployment,
    "tools": ces.Tool,
    "toolsets": ces.Toolset,
    "agents": ces.Agent,
    "conversations": ces.Conversation,
}
TYPE = "type.googleapis.com/google.cloud.ces.v1beta."


class Refusal(Exception):  # noqa: N818 - an answer
    def __init__(self, code: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class CesDouble:
    """`resources`: messages by name; `contents`: the files of imported apps. `answer`: what an app
    says to a session's inputs, as SessionOutputs. `outcomes`: of evaluations by display name, also
    with `@` and the id of a version; PASS where none is said, a state where it is not over.
    `words`: what an agent says in a turn of an evaluation; "": what is expected; None: results have
    no conversation. `polls`: how often
    an operation is not done yet. `before`: called with each request before it is answered, and may
    refuse. `turned_away`: requests that were, which `asked` lacks; none where not `is_busy`, and
    never one of a session."""

    url: str = ""
    token: str = ""
    resources: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, dict[str, bytes]] = field(default_factory=dict)
    operations: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    turned_away: list[Asked] = field(default_factory=list)
    is_busy: bool = True
    requests: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    error: str = "RUNTIME_FAILURE"
    words: Callable[[str, int], str] | None = lambda title, turn: ""
    keeps_conversations: bool = True
    polls: int = 1
    answer: Callable[[str, Asked], list[dict[str, Any]]] = lambda app, asked: [
        {"text": "yes", "turnCompleted": True}
    ]
    before: Callable[[Asked], None] = lambda asked: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    count: int = 0

    def put(self, name: str, content: dict[str, Any]) -> Any:
        """Store a resource, whatever was there."""
        message = parsed(KINDS[name.split("/")[-2]], content)
        message.name = name
        self._touch(message)
        self.resources[name] = message
        return message

    def change(self, name: str, **values: Any) -> None:
        """What somebody else changed in the console."""
        content = json_format.MessageToDict(self.resources[name])
        self.put(name, {**content, **values})

    def put_referenced(self, *messages: Any) -> None:
        """Store, empty, what the messages and the resources refer to and what is not there."""
        for message in (*messages, *list(self.resources.values())):
            for name in references(message):
                if name not in self.resources:
                    self.put(name, {"displayName": name.rpartition("/")[2]})

    def named(self, collection: str) -> list[str]:
        return [name for name in self.resources if name.split("/")[-2] == collection]

    def asked_for(self, method: str) -> list[Asked]:
        return [each for each in self.asked if each.method == method]

    # --- the surface ------------------------------------------------------------------------------

    def reply(self, asked: Asked) -> Any:
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(16, "Request had invalid authentication credentials.")
        self._turn_away(asked)
        self.asked.append(asked)
        self.before(asked)
        path = unquote(asked.path).removeprefix("/v1beta/")
        name, _, verb = path.partition(":")
        with self.lock:
            if "/operations/" in name:
                return {} if verb == "cancel" else self._operation(name)
            if verb:
                return self._verb(name, verb, asked)
            below = name.split("/")[4:]
            is_collection = len(below) % 2 == 1
            if is_collection:
                return (
                    self._create(name, asked) if asked.method == "POST" else self._list(name, asked)
                )
            found = self.resources.get(name)
            if found is None:
                raise Refusal(5, f"{name} not found")
            if asked.method == "PATCH":
                return self._update(found, asked)
            if asked.method == "DELETE":
                return self._delete(found, asked)
            return found

    def _turn_away(self, asked: Asked) -> None:
        with self.lock:
            if not self.is_busy or asked.path.endswith(":runSession"):
                return
            self.requests += 1
            number = self.requests
            if number > BURST[0] and number % BURST[0] < BURST[1]:
                self.turned_away.append(asked)
                raise Refusal(14, "The service is currently unavailable.")
            if number % TURNED_AWAY == 0:
                self.turned_away.append(asked)
                raise Refusal(8, "Quota exceeded.", **{"retry-after": "0"})

    def _insist_referred(self, message: Any) -> None:
        missing = sorted(set(references(message)) - self.resources.keys())
        if missing:
            raise Refusal(3, f"{missing[0]} is not there")

    def _create(self, collection: str, asked: Asked) -> Any:
        parent, _, kind = collection.rpartition("/")
        message = parsed(KINDS[kind], asked.body)
        if parent.count("/") > 3 and parent not in self.resources:
            raise Refusal(5, f"{parent} not found")
        singular = {"versions": "appVersionId"}.get(kind, f"{kind[:-1]}Id")
        self.count += 1
        name = f"{collection}/{asked.query.get(singular) or f'made-{self.count:04}'}"
        if name in self.resources or (
            message.display_name and self._titled(collection, message.display_name)
        ):
            raise Refusal(6, f"{name} or its display name {message.display_name!r} already exists")
        if not message.display_name and kind != "versions":
            raise Refusal(3, "display_name is required")
        self._insist_referred(message)
        message.name = name
        self._touch(message)
        self.resources[name] = message
        return message

    def _list(self, collection: str, asked: Asked) -> Any:
        kind = collection.rpartition("/")[2]
        pattern = (
            re.escape(collection).replace("/evaluations/\\-/", "/evaluations/[^/]+/") + "/[^/]+"
        )
        found = sorted(name for name in self.resources if re.fullmatch(pattern, name))
        start = int(asked.query.get("pageToken") or 0)
        size = min(int(asked.query.get("pageSize") or PAGE), PAGE)
        key = {"versions": "appVersions", "results": "evaluationResults"}.get(kind, kind)
        page: dict[str, Any] = {key: [self.resources[name] for name in found[start : start + size]]}
        return {
            **page,
            **({"nextPageToken": str(start + size)} if start + size < len(found) else {}),
        }

    def _update(self, stored: Any, asked: Asked) -> Any:
        given = parsed(KINDS[stored.name.split("/")[-2]], asked.body)
        if "updateMask" not in asked.query:
            raise Refusal(3, "update_mask is required")
        if given.etag and given.etag != stored.etag:
            raise Refusal(10, "the etag is stale")
        mask = field_mask_pb2.FieldMask()
        try:
            mask.FromJsonString(asked.query["updateMask"])
        except ValueError as error:
            raise Refusal(3, f"invalid update_mask: {error}") from error
        if OUTPUT_ONLY & set(asked.query["updateMask"].split(",")):
            raise Refusal(3, "update_mask names what is output only")
        made = type(stored)()
        made.CopyFrom(stored)
        for path in mask.paths:
            if not field_mask_pb2.FieldMask(paths=[path]).IsValidForDescriptor(made.DESCRIPTOR):
                raise Refusal(3, f"invalid field path {path}")
            replace(made, given, path.split("."))
        self._insist_referred(made)
        self._touch(made)
        self.resources[stored.name] = made
        return made

    def _delete(self, stored: Any, asked: Asked) -> Any:
        if asked.query.get("etag") and asked.query["etag"] != stored.etag:
            raise Refusal(10, "the etag is stale")
        datasets = [each for name, each in self.resources.items() if "/evaluationDatasets/" in name]
        users = [each for each in datasets if stored.name in each.evaluations]
        if users and asked.query.get("force") != "true":
            raise Refusal(9, f"{stored.name} is used by {users[0].name}")
        for user in users:
            user.evaluations.remove(stored.name)
        for name in [
            each
            for each in self.resources
            if each == stored.name or each.startswith(f"{stored.name}/")
        ]:
            del self.resources[name]
        return self._started(stored.name, {}) if "/evaluationRuns/" in stored.name else {}

    def _verb(self, name: str, verb: str, asked: Asked) -> Any:
        if verb == "runEvaluation":
            return self._run(name, asked.body)
        if verb == "runSession":
            app = name.partition("/sessions/")[0]
            if app not in self.resources:
                raise Refusal(5, f"{app} not found")
            parsed(ces.RunSessionRequest, asked.body)
            return {
                "outputs": [
                    as_json(parsed(ces.SessionOutput, each)) for each in self.answer(app, asked)
                ]
            }
        if verb == "importApp":
            return self._import(name, asked.body)
        raise Refusal(12, f"{verb} is not here")

    def _run(self, app: str, body: Any) -> Any:
        request = parsed(ces.RunEvaluationRequest, {**body, "app": app})
        names = list(request.evaluations) or list(
            self.resources[request.evaluation_dataset].evaluations
        )
        for name in (*names, *filter(None, [request.app_version])):
            if name not in self.resources:
                raise Refusal(5, f"{name} not found")
        self.count += 1
        run = f"{app}/evaluationRuns/run-{self.count:04}"
        results, passed = [], 0
        for name in names:
            evaluation = self.resources[name]
            title = evaluation.display_name
            version = request.app_version.rpartition("/")[2]
            outcome = self.outcomes.get(f"{title}@{version}") or self.outcomes.get(title, "PASS")
            is_over = outcome in ("PASS", "FAIL", "SKIPPED")
            for _ in range(request.run_count or (5 if evaluation.HasField("scenario") else 1)):
                self.count += 1
                results.append(f"{name}/results/of-{self.count:04}")
                content: dict[str, Any] = {
                    "displayName": f"{title} result",
                    "evaluationRun": run,
                    "executionState": "COMPLETED" if is_over else outcome,
                }
                if is_over:
                    content |= {"evaluationStatus": outcome}
                    content |= self._talk(app, evaluation, outcome, request)
                elif outcome == "ERROR":
                    content["errorInfo"] = {"errorType": self.error, "errorMessage": "it broke"}
                self.put(results[-1], content)
                passed += outcome == "PASS"
        progress = {
            "totalCount": len(results),
            "completedCount": len(results),
            "passedCount": passed,
        }
        content = {"displayName": request.display_name or "run", "state": "COMPLETED", "progress": progress,
                   "evaluations": names, "evaluationResults": results}  # fmt: skip
        self.put(run, content)
        return self._started(app, {"@type": f"{TYPE}RunEvaluationResponse", "evaluationRun": run})

    def _talk(self, app: str, evaluation: Any, outcome: str, request: Any) -> dict[str, Any]:
        """The conversations of a run, stored, and its result: what an agent says that passes is
        what is expected. STABLE: each turn in a conversation of its own, behind those before it."""
        raw = json_format.MessageToDict(evaluation)
        if self.words is None:
            return {"goldenResult": {}}
        if "scenario" in raw:
            user = {"role": "user", "chunks": [{"text": raw["scenario"]["task"]}]}
            said = {"role": "desk", "chunks": [{"text": self.words(evaluation.display_name, 1)}]}
            name = self._conversation(app, [{"messages": [user, said]}])
            goal = {"score": int(outcome == "PASS"), "label": "User Task Satisfied"}
            return {"scenarioResult": {"conversation": name, "userGoalSatisfactionResult": goal}}
        turns: list[Any] = []
        replays: list[Any] = []
        for number, turn in enumerate(raw["golden"]["turns"], start=1):
            expected = [step["expectation"] for step in turn["steps"] if "expectation" in step]
            inputs = [step["userInput"] for step in turn["steps"] if "userInput" in step]
            texts = [{"text": each["text"]} for each in inputs if "text" in each]
            says = [each["agentResponse"]["chunks"] for each in expected if "agentResponse" in each]
            other = self.words(evaluation.display_name, number)
            answers = [[{"text": other}]] if other else says
            messages = [{"role": "user", "chunks": texts}]
            turns.append(
                {"messages": messages + [{"role": "desk", "chunks": each} for each in answers]}
            )
            found = [{"expectation": each, "outcome": outcome} for each in expected]
            replays.append({"expectationOutcome": found})
            if request.golden_run_method != ces.GoldenRunMethod.NAIVE:
                replays[-1]["conversation"] = self._conversation(app, turns)
        whole = self._conversation(app, turns)
        replays = [{"conversation": whole, **each} for each in replays]
        return {"goldenResult": {"turnReplayResults": replays}}

    def _conversation(self, app: str, turns: list[Any]) -> str:
        self.count += 1
        name = f"{app}/conversations/of-{self.count:04}"
        if self.keeps_conversations:
            self.put(name, {"turns": turns})
        return name

    def _import(self, name: str, body: Any) -> Any:
        request = parsed(ces.ImportAppRequest, {**body, "parent": name.rpartition("/")[0]})
        with zipfile.ZipFile(io.BytesIO(request.app_content)) as archive:
            files = {each: archive.read(each) for each in archive.namelist()}
        app = f"{request.parent}/apps/{request.app_id or 'imported'}"
        if app in self.resources:
            raise Refusal(6, f"{app} already exists")
        self.contents[app] = files
        self.put(app, {"displayName": request.display_name})
        return self._started(app, {"@type": f"{TYPE}ImportAppResponse", "name": app})

    def _started(self, name: str, response: dict[str, Any]) -> Any:
        self.count += 1
        operation = f"{'/'.join(name.split('/')[:4])}/operations/op-{self.count:04}"
        self.operations[operation] = [
            self.polls,
            response or {"@type": "type.googleapis.com/google.protobuf.Empty"},
        ]
        return {"name": operation, "done": False}

    def _operation(self, name: str) -> Any:
        if name not in self.operations:
            raise Refusal(5, f"{name} not found")
        left, response = self.operations[name]
        self.operations[name][0] = left - 1
        return (
            {"name": name, "done": False}
            if left > 0
            else {"name": name, "done": True, "response": response}
        )

    def _titled(self, collection: str, title: str) -> bool:
        return any(
            each.display_name == title and name.rpartition("/")[0] == collection
            for name, each in self.resources.items()
        )

    def _touch(self, message: Any) -> None:
        self.count += 1
        if hasattr(message, "etag"):
            message.etag = f"etag-{self.count:04}"
        if hasattr(message, "update_time"):
            message.update_time.FromSeconds(1_800_000_000 + self.count)


def parsed(kind: Any, content: Any) -> Any:
    """Strictly. Raises Refusal."""
    try:
        return json_format.ParseDict(content, kind.pb(kind()))
    except (json_format.ParseError, TypeError) as error:
        raise Refusal(3, f"Invalid JSON payload: {error}") from error


def references(content: Any, key: str = "") -> Iterator[str]:
    """What an evaluation or a dataset names: tools, toolsets, agents, expectations, evaluations."""
    if isinstance(content, Message):
        content = json_format.MessageToDict(content)
    if isinstance(content, dict):
        for name, each in content.items():
            yield from references(each, name)
    elif isinstance(content, list):
        for each in content:
            yield from references(each, key)
    elif isinstance(content, str) and key in REFERENCES:
        yield content


def replace(stored: Any, given: Any, path: list[str]) -> None:
    """What a mask's path names becomes what is given there, or nothing."""
    descriptor = stored.DESCRIPTOR.fields_by_name[path[0]]
    if len(path) > 1:
        if given.HasField(path[0]) or stored.HasField(path[0]):
            replace(getattr(stored, path[0]), getattr(given, path[0]), path[1:])
        return
    stored.ClearField(path[0])
    if descriptor.is_repeated:
        getattr(stored, path[0]).MergeFrom(getattr(given, path[0]))
    elif descriptor.type == FieldDescriptor.TYPE_MESSAGE:
        if given.HasField(path[0]):
            getattr(stored, path[0]).CopyFrom(getattr(given, path[0]))
    elif not descriptor.has_presence or given.HasField(path[0]):
        setattr(stored, path[0], getattr(given, path[0]))


def as_json(value: Any, *, numbers: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: as_json(each, numbers=numbers) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each, numbers=numbers) for each in value]
    is_message = hasattr(value, "DESCRIPTOR")
    return json_format.MessageToDict(value, use_integers_for_enums=numbers) if is_message else value


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    double: CesDouble

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        query = {
            key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_token = parts.path == "/token"
        body = json.loads(content) if content and not is_token else {}
        asked = Asked(self.command, parts.path, query, headers, body)
        more: dict[str, str] = {}
        try:
            answer: Any = {
                "access_token": self.double.token,
                "expires_in": 3600,
                "token_type": "Bearer",
            }
            if not is_token:
                answer = as_json(
                    self.double.reply(asked), numbers="enum-encoding=int" in parts.query
                )
            status = 200
        except Refusal as refusal:
            status, more = STATUSES[refusal.code], refusal.headers
            answer = {
                "error": {"code": status, "status": NAMES[refusal.code], "message": str(refusal)}
            }
        raw = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # whoever asked may have been killed
            self.send_response(status)
            lengths = {"content-type": "application/json", "content-length": str(len(raw))}
            for name, value in {**more, **lengths}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base class's names


@contextlib.contextmanager
def running() -> Iterator[CesDouble]:
    """A double with one empty app, on a free port."""
    double = CesDouble()
    double.put(APP, {"displayName": "Library desk"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"double": double}))
    double.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
