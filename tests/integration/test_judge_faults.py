"""The fault table of judges: real clients against local servers, each fault with its kind, verdict
and next step.

`llmock` speaks both APIs and is not ours; it also says whether our retries behaved. What it cannot
say (a blocked prompt, a body that is no JSON, a cut connection, Google's error details) comes from
a server that sends bytes."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import socket
import struct
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from builders.judging import HeldClock, request, requests, seen

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.judges import JUDGES, rate_limit
from evalgate.judges.base import (
    REFUSED,
    Asker,
    JudgeFailed,
    JudgeFailure,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
    SampledRequest,
    Vote,
    VoteResult,
)
from evalgate.judges.clients import Clients
from evalgate.judges.panel import JudgeBudget, UsageLedger, VotingPanel
from evalgate.judges.rate_limit import Clock
from evalgate.model import Reason

pytestmark = pytest.mark.integration

KEY = "AIzaSyD-very-secret-0001"
MODELS = {"gemini": "gemini-2.5-flash", "openai": "openai/gpt-4.1"}


class BriefClock(HeldClock):
    """Its time is its own; its sleeps last as long as they should, but no longer than a moment:
    llmock looks whether a client waits."""

    def sleep(self, seconds: float) -> bool:
        threading.Event().wait(min(seconds, 0.12))
        return super().sleep(seconds)


def panel(
    client: str,
    base_url: str,
    *,
    clock: Clock | None = None,
    timeout_s: float = 2.0,
    ledger: UsageLedger | None = None,
) -> VotingPanel:
    names = {"gemini": "GOOGLE_API_KEY", "openai": "OPENAI_API_KEY"}
    version = "/v1beta" if client == "gemini" else ""
    defaults = JudgeRule(base_url=base_url + version, timeout=timeout_s)
    roster = Clients(
        defaults=defaults,
        environment={names[client]: KEY},
        limiters=rate_limit.limiters_for(defaults, clock or HeldClock()),
    )
    return VotingPanel(roster, budget=JudgeBudget(BudgetRule()), ledger=ledger or UsageLedger())


def label_in(reply: JudgeReply) -> dict[str, Vote]:
    return {"": Vote(passed={"valid": True, "invalid": False}.get(reply.text), label=reply.text)}


def ballot(client: str, *, num_samples: int = 5, **fields: Any) -> SampledRequest:
    samples = requests(model=MODELS[client], count=num_samples)
    return SampledRequest(requests=samples, parse=label_in, **fields)


def vote(held: VotingPanel, client: str, **fields: Any) -> VoteResult:
    try:
        return held.vote(ballot(client, **fields))
    finally:
        held.close()


# --- llmock ---------------------------------------------------------------------------------------


def reason_of(kind: str) -> Reason:
    """The reason of a verdict whose only sample failed."""
    return Reason.CREDENTIALS_MISSING if kind in REFUSED else Reason.JUDGE_UNAVAILABLE


@pytest.mark.parametrize("client", list(MODELS))
def test_a_storm_of_rate_limits_then_recovery(client: str, llmock: Any) -> None:
    """Cases of one sample each, since llmock takes equal requests for repeats of one call."""
    llmock.rate_limit(times=12, retry_after=0.2).reply("valid", times=None)
    ledger = UsageLedger()
    held = panel(client, llmock.base_url(client), ledger=ledger, clock=Clock())
    ballots = [
        SampledRequest(
            requests=requests(f"case {number}", model=MODELS[client], count=1), parse=label_in
        )
        for number in range(8)
    ]
    results = held.vote_all(ballots)
    held.close()
    assert [seen(result.items[""]).passed for result in results] == [True] * 8
    [account] = ledger.uses()
    assert (account.calls, account.retries, account.failures) == (8, 12, {})
    assert account.prompt_tokens > 0
    llmock.assert_resilient(strict=True)


def script(llmock: Any, fault: str) -> None:
    from llmock.scenarios import Delay, Reply

    match fault:
        case "slow":
            llmock.add(Delay(3.0, times=None))
        case "filtered":
            llmock.add(Reply(text="valid", finish_reason="content_filter", times=None))
        case "cut":
            llmock.add(Reply(text="val", finish_reason="length", times=None))
        case "silent":
            llmock.add(Reply(text="", times=None))
        case status:
            wait = 0.1 if status in ("429", "503") else None  # without, llmock says 1 s
            llmock.fail(int(status), times=None, message=f"it said {KEY}", retry_after=wait)


@pytest.mark.parametrize("client", list(MODELS))
@pytest.mark.parametrize(
    ("fault", "kind", "step"),
    [
        ("401", "unauthorized", "check the credentials of the endpoint"),
        ("403", "forbidden", "check that the key's project may use this model"),
        ("404", "model_missing", "check the model's name"),
        ("400", "bad_request", "check judge_model_config"),
        ("429", "rate_limited", "run again later, with fewer calls at once"),
        ("500", "server_error", "run again later"),
        ("503", "overloaded", "with fewer calls at once"),
        ("slow", "timeout", "raise `timeout` under `judge:`"),
        ("filtered", "blocked", "relax safety_settings"),
        ("cut", "truncated", "raise or remove max_output_tokens"),
        ("silent", "empty", "run again"),
    ],
)
def test_faults_that_last(client: str, fault: str, kind: str, step: str, llmock: Any) -> None:
    script(llmock, fault)
    held = panel(client, llmock.base_url(client), clock=BriefClock(), timeout_s=0.5)
    result = vote(held, client, num_samples=1)
    item, failure = seen(result.items[""]), result.samples[0].failure
    assert (item.passed, item.undecided) == (None, reason_of(kind))  # neither red nor green
    assert failure is not None
    assert (failure.kind, KEY in item.message) == (kind, False)
    assert step in item.message
    assert MODELS[client].removeprefix("openai/") in item.message
    llmock.assert_resilient()


@pytest.mark.parametrize("client", list(MODELS))
def test_one_fault_among_good_replies_changes_nothing(client: str, llmock: Any) -> None:
    llmock.fail(403, times=None, model="never").reply("valid", times=2)
    script_one_cut(llmock)
    llmock.reply("valid", times=None)
    result = vote(panel(client, llmock.base_url(client), clock=BriefClock()), client)
    assert seen(result.items[""]).passed is True
    assert len(result.samples) == 4
    assert [sample.failure.kind.value for sample in result.samples if sample.failure] == [
        "truncated"
    ]


@pytest.mark.parametrize("client", list(MODELS))
@pytest.mark.parametrize(
    "said", ["ung\u00fcltig", "\u6709\u6548", "{'verdict': 'val", "I think that it depends."]
)
def test_a_reply_without_a_label_is_no_verdict(client: str, said: str, llmock: Any) -> None:
    """Another language, broken JSON, evasion: read, paid for, and neither red nor green."""
    llmock.reply(said, times=None)
    ledger = UsageLedger()
    result = vote(panel(client, llmock.base_url(client), clock=BriefClock(), ledger=ledger), client)
    item = seen(result.items[""])
    assert (item.passed, item.undecided) == (None, Reason.JUDGE_UNREADABLE)
    votes = [sample.votes.get("") for sample in result.samples]
    assert [vote for vote in votes if vote is not None and vote.passed is not None] == []
    assert len(votes) == 5
    assert [sample.text for sample in result.samples] == [said] * 5
    assert ledger.uses()[0].calls == 5


def script_one_cut(llmock: Any) -> None:
    from llmock.scenarios import Reply

    llmock.add(Reply(text="val", finish_reason="length"))


@pytest.mark.parametrize("client", list(MODELS))
def test_a_wrong_key_is_told_after_one_wave(client: str, llmock: Any) -> None:
    llmock.fail(401, times=None)
    held = panel(client, llmock.base_url(client), clock=BriefClock())
    results = held.vote_all([ballot(client) for _ in range(20)])
    held.close()
    assert all(seen(result.items[""]).undecided is Reason.CREDENTIALS_MISSING for result in results)
    assert len(llmock.requests) <= 32  # those that were under way together, of 60


@pytest.mark.parametrize("client", list(MODELS))
def test_what_is_sent(client: str, llmock: Any) -> None:
    """The config as ADK writes it reaches the endpoint, the schema too, and nothing is said of the
    key."""
    llmock.reply('{"verdict": "valid"}', times=None)
    held = panel(client, llmock.base_url(client), clock=BriefClock())
    asked = JudgeRequest(
        model=MODELS[client],
        prompt="the prompt",
        system="the system",
        asker=Asker(criterion="c", version="1"),
        config={"temperature": 0.25, "maxOutputTokens": 99, "stop_sequences": ["END"]},
        schema={"type": "object", "properties": {"verdict": {"type": "string"}}},
    )
    assert held.ask(asked).text == '{"verdict": "valid"}'
    held.close()
    body = llmock.last_request.body
    sent = json.loads(body) if isinstance(body, bytes | str) else body
    if client == "gemini":
        assert sent["generationConfig"]["temperature"] == 0.25
        assert sent["generationConfig"]["maxOutputTokens"] == 99
        assert sent["generationConfig"]["stopSequences"] == ["END"]
        assert sent["generationConfig"]["responseMimeType"] == "application/json"
        assert sent["systemInstruction"]["parts"][0]["text"] == "the system"
        assert sent["contents"][0]["parts"][0]["text"] == "the prompt"
    else:
        assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.25, 99, ["END"])
        assert [message["content"] for message in sent["messages"]] == ["the system", "the prompt"]
        assert sent["response_format"]["json_schema"]["schema"] == asked.schema


# --- bytes ----------------------------------------------------------------------------------------


class Bytes:
    """What the server sends, whatever it is asked: a status, headers and a body; None cuts the
    connection."""

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, str], bytes] | None = (200, {}, b"")
        self.requests = 0
        self.url = ""


@pytest.fixture(scope="module")
def server() -> Iterator[Bytes]:
    says = Bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            says.requests += 1
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if says.answer is None:
                # close with a reset, in the middle of an answer
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()
                return
            status, headers, body = says.answer
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

        def finish(self) -> None:
            with contextlib.suppress(OSError):
                super().finish()

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    says.url = f"http://127.0.0.1:{listening.server_port}"
    yield says
    listening.shutdown()
    listening.server_close()


def google_error(
    code: int, status: str, *details: dict[str, Any]
) -> tuple[int, dict[str, str], bytes]:
    error = {
        "code": code,
        "message": f"{status} for {KEY}",
        "status": status,
        "details": list(details),
    }
    return code, {}, json.dumps({"error": error}).encode()


def rpc(name: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"type.googleapis.com/google.rpc.{name}", **fields}


def body(**fields: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, json.dumps(fields).encode()


def daily(name: str) -> dict[str, Any]:
    return rpc("QuotaFailure", violations=[{"quotaId": name}])


WRONG_KEY = google_error(400, "INVALID_ARGUMENT", rpc("ErrorInfo", reason="API_KEY_INVALID"))
PER_DAY = google_error(
    429, "RESOURCE_EXHAUSTED", daily("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
)
PER_MINUTE = google_error(
    429, "RESOURCE_EXHAUSTED", daily("RequestsPerMinute"), rpc("RetryInfo", retryDelay="1.5s")
)
PAGE = (
    502,
    {"content-type": "text/html"},
    b"<html><style>p{}</style><b>Error 502</b> come back later</html>",
)
HUGE = (200, {}, b" " * 9_000_000)
PACKED = (200, {"content-encoding": "gzip"}, gzip.compress(b" " * 9_000_000))
OPENAI_QUOTA = (
    429,
    {},
    json.dumps({"error": {"message": "no credit", "code": "insufficient_quota"}}).encode(),
)


@pytest.mark.parametrize(
    ("client", "answer", "kind", "said"),
    [
        ("gemini", body(candidates=[]), "empty", "no candidate"),
        (
            "gemini",
            body(promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
            "blocked",
            "prompt: PROHIBITED_CONTENT",
        ),
        ("gemini", body(candidates=[{"finishReason": "SAFETY"}]), "blocked", "reply: SAFETY"),
        (
            "gemini",
            body(candidates=[{"finishReason": "MAX_TOKENS"}]),
            "truncated",
            "max_output_tokens",
        ),
        # a thinking model that only thought
        (
            "gemini",
            body(
                candidates=[
                    {
                        "content": {"parts": [{"text": "hm", "thought": True}]},
                        "finishReason": "STOP",
                    }
                ]
            ),
            "empty",
            "max_output_tokens",
        ),
        ("gemini", (200, {}, b'{"candidates": [{"cont'), "malformed", "base URL"),
        ("gemini", (200, {}, b"<html>a proxy's page</html>"), "malformed", "base URL"),
        ("gemini", body(candidates="what?"), "empty", "run again"),  # the client reads past it
        ("gemini", None, "connection", "check the base URL, the network and the proxy"),
        ("gemini", WRONG_KEY, "unauthorized", "the credentials were refused"),
        ("gemini", google_error(400, "FAILED_PRECONDITION"), "forbidden", "its API and billing"),
        ("gemini", PER_DAY, "quota_spent", "run again when it is renewed"),
        ("gemini", PER_MINUTE, "rate_limited", "tried 6 times"),
        ("gemini", PAGE, "server_error", "Error 502 come back later"),
        ("gemini", HUGE, "malformed", "larger than 8,000,000 bytes"),
        ("gemini", PACKED, "malformed", "larger than 8,000,000 bytes"),
        ("openai", HUGE, "malformed", "larger than 8,000,000 bytes"),
        ("openai", PACKED, "malformed", "larger than 8,000,000 bytes"),
        ("openai", body(choices=[]), "empty", "no choice"),
        ("openai", body(choices=[{"message": {"refusal": "I will not"}}]), "blocked", "I will not"),
        ("openai", body(hello="world"), "malformed", "base URL"),
        ("openai", body(choices=[{"message": "text"}]), "malformed", "base URL"),
        ("openai", (200, {}, b'{"choices": [{"mess'), "malformed", "base URL"),
        ("openai", (200, {}, b"[]"), "malformed", "base URL"),
        ("openai", None, "connection", "check the base URL, the network and the proxy"),
        ("openai", OPENAI_QUOTA, "quota_spent", "no credit"),
        ("openai", PAGE, "server_error", "run again later"),
        ("openai", (402, {}, b"{}"), "quota_spent", "raise it"),
    ],
)
def test_bytes(client: str, answer: Any, kind: str, said: str, server: Bytes) -> None:
    server.answer = answer
    result = vote(panel(client, server.url), client, num_samples=1)
    item, failure = seen(result.items[""]), result.samples[0].failure
    assert failure is not None
    assert (failure.kind.value, item.undecided) == (kind, reason_of(kind))
    assert said in item.message
    assert KEY not in item.message


def test_googles_wait_is_waited(server: Bytes) -> None:
    server.answer, clock = PER_MINUTE, HeldClock()
    vote(panel("gemini", server.url, clock=clock), "gemini", num_samples=1)
    assert min(wait for wait in clock.slept) >= 1.5


@pytest.mark.parametrize("client", list(MODELS))
def test_a_final_failure_is_asked_once(client: str, server: Bytes) -> None:
    """The client's own retries are off, or there would be more requests than we know of."""
    server.answer, server.requests = (403, {}, b"{}"), 0
    vote(panel(client, server.url), client, num_samples=1)
    assert server.requests == 1
    server.answer, server.requests = (503, {}, b"{}"), 0
    vote(panel(client, server.url), client, num_samples=1)
    assert server.requests == 6


@pytest.mark.parametrize("client", list(MODELS))
def test_nobody_listens(client: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    result = vote(panel(client, url), client, num_samples=1)
    assert result.samples[0].failure is not None
    assert result.samples[0].failure.kind == "connection"


@pytest.mark.parametrize("client", list(MODELS))
def test_no_key_in_the_chain_of_exceptions(client: str, server: Bytes) -> None:
    server.answer = google_error(403, "PERMISSION_DENIED")
    judge = JUDGES[client].open(
        JudgeSetting(
            model="m",
            base_url=server.url + ("/v1beta" if client == "gemini" else ""),
            api_key=KEY,
        )
    )
    with pytest.raises(JudgeFailed) as raised:
        judge.ask(request())
    judge.close()
    assert (raised.value.__context__, raised.value.__cause__) == (None, None)
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert isinstance(raised.value.failure, JudgeFailure)


def test_thoughts_are_apart_from_the_answer(server: Bytes) -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "val"}, {"text": "id"}]
    usage = {
        "promptTokenCount": 7,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 14,
    }
    server.answer = body(
        candidates=[{"content": {"parts": parts}, "finishReason": "STOP"}],
        usageMetadata=usage,
        modelVersion="gemini-2.5-flash-002",
    )
    held = panel("gemini", server.url)
    reply = held.ask(request())
    held.close()
    assert (reply.text, [part.text for part in reply.parts]) == ("valid", ["hm", "val", "id"])
    assert reply.usage is not None
    assert (
        reply.usage.prompt_tokens,
        reply.usage.candidates_tokens,
        reply.usage.thoughts_tokens,
    ) == (7, 2, 5)
    assert reply.model_version == "gemini-2.5-flash-002"


def test_vertex_by_a_key(server: Bytes) -> None:
    """Vertex in its express mode, which takes a key: its quota is a 429 without details."""
    server.answer = google_error(429, "RESOURCE_EXHAUSTED")
    environment = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_API_KEY": KEY,
        "GOOGLE_VERTEX_BASE_URL": server.url + "/v1beta1",
    }
    roster = Clients(
        defaults=JudgeRule(timeout=2),
        environment=environment,
        limiters=rate_limit.limiters_for(JudgeRule(timeout=2), HeldClock()),
    )
    held = VotingPanel(roster, budget=JudgeBudget(BudgetRule()), ledger=UsageLedger())
    result = vote(held, "gemini", num_samples=1)
    assert result.samples[0].failure is not None
    assert result.samples[0].failure.kind == "rate_limited"
    assert "raise the quota" in seen(result.items[""]).message


@pytest.mark.parametrize(
    ("content", "text", "thoughts"),
    [
        ({"content": "valid"}, "valid", ""),
        ({"content": "<think>hm</think>\nvalid"}, "valid", "hm"),  # a local server's way
        ({"content": "valid", "reasoning_content": "hm"}, "valid", "hm"),  # a gateway's way
    ],
)
def test_thoughts_of_compatible_endpoints(
    content: Any, text: str, thoughts: str, server: Bytes
) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 3}}
    server.answer = body(
        choices=[{"message": content, "finish_reason": "stop"}],
        usage={"prompt_tokens": 5, "completion_tokens": 4, **details},
    )
    held = panel("openai", server.url)
    reply = held.ask(request(model=MODELS["openai"]))
    held.close()
    assert (reply.text, "".join(part.text for part in reply.parts if part.thought)) == (
        text,
        thoughts,
    )
    assert reply.usage is not None
    assert (reply.usage.candidates_tokens, reply.usage.thoughts_tokens) == (1, 3)
