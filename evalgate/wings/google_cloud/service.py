"""Google Cloud's evaluation service: requests and replies, and its client.

The service is one more judge. Its questions are bodies of `:evaluateInstances`, and are cached,
paced and paid for like those of other judges. Its own client library needs half a gigabyte; the
call is one request with a token from google-auth."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from evalgate.criteria import judged
from evalgate.criteria.judged import Inquiry, JudgedTurn
from evalgate.judges import base, prompting
from evalgate.judges.base import (
    Asker,
    Judge,
    JudgeDriver,
    JudgeFailure,
    JudgeFailureKind,
    JudgeReply,
    JudgeRequest,
    JudgeSetting,
    SampledRequest,
    Vote,
    VoteResult,
)
from evalgate.model import (
    Finding,
    Grade,
    Invocation,
    Reason,
    Text,
    not_evaluated,
    turns,
)
from evalgate.model.deviations import OURS
from evalgate.model.trial import MOST
from evalgate.system.http import Exchange, ExchangeFailed, Fault, GoogleToken, NoToken
from evalgate.values import Json, JsonObject, elements, member
from . import datasets

MODEL = "vertex_evaluation/"
"""The beginning of the name by which settings and caches know a metric of the service."""
VERSION = "1"
"""Of the requests; scores of different versions are not compared."""
NOTHING = not_evaluated(Reason.NOTHING_RECORDED, "nothing_to_judge")
"""The grade if nothing was judged."""


# --- questions ------------------------------------------------------------------------------------


def ask_metric(metric: str, instance: Json, parameters: Json | None = None) -> Json:
    """The request body for a predefined metric."""
    spec: JsonObject = {"metricSpecName": metric}
    if parameters:
        spec["metricSpecParameters"] = parameters
    return {"instance": instance, "metrics": [{"predefinedMetricSpec": spec}]}


def one_turn(invocation: Invocation, reference: Invocation | None) -> Json:
    """One turn in the service's format; as in ADK, with thoughts among the texts."""
    texts = {
        "prompt": prompting.text_of(invocation.user_content, with_thoughts=True),
        "response": prompting.answer_of(invocation, with_thoughts=True),
    }
    if reference is not None:
        texts["reference"] = prompting.answer_of(reference, with_thoughts=True)
    return {name: {"text": text} for name, text in texts.items()}


def conversation(invocations: Sequence[Invocation]) -> Json:
    """A whole conversation in the service's format: agents, and events by turn. Only tools that are
    objects are included."""
    agents: JsonObject = {}
    for agent in (agent for invocation in invocations for agent in invocation.agents):
        tools = [tool for tool in prompting.tools_of_agent(agent) if isinstance(tool, dict)]
        agents.setdefault(
            agent.name, {"agentId": agent.name, "instruction": agent.instructions, "tools": tools}
        )
    turns = [
        {
            "turnIndex": index,
            "turnId": invocation.invocation_id,
            "events": datasets.events_json(invocation, answers="agent"),
        }
        for index, invocation in enumerate(invocations)
    ]
    return {"agentData": {"agents": agents, "turns": turns}}


def ask_service(ask: Inquiry, body: Json, metric: str) -> SampledRequest:
    """The body as a request to the service. One sample, because the service samples by itself."""
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, default=str)
    request = JudgeRequest(
        model=MODEL + metric,
        prompt=text,
        asker=Asker(criterion=ask.criterion, version=VERSION),
        repeat=ask.repeat,
    )
    return SampledRequest(
        requests=(request,),
        parse=lambda reply: {} if parse(reply.text)[0] is None else {"": Vote(passed=True)},
    )


def parse(text: str, *, turn: int | None = None) -> tuple[float | None, tuple[Finding, ...]]:
    """The score of a reply, with its explanation and rubric verdicts as findings. The score is None
    if it is missing or not a finite number."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None, ()
    results = elements(raw, "metricResults")
    result = results[0] if results else member(raw, "coherenceResult")
    number = member(result, "score")
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    score = float(number) if is_number and abs(number) <= MOST else None
    explanation = member(result, "explanation") or member(member(result, "error"), "message")
    findings = [_rubric(verdict, turn) for verdict in elements(result, "rubricVerdicts")]
    if explanation:
        findings.append(Finding(text=str(explanation), turn=turn, score=score))
    return score, tuple(findings)


def _rubric(verdict: Any, turn: int | None) -> Finding:
    """A rubric's verdict as a finding with 1.0 or 0.0."""
    content = member(member(verdict, "evaluatedRubric"), "content")
    subject = member(member(content, "property"), "description")
    is_met = bool(member(verdict, "verdict"))  # the service omits the field if it is false
    return Finding(
        text=str(member(verdict, "reasoning") or ""),
        turn=turn,
        label="yes" if is_met else "no",
        score=float(is_met),
        subject=str(subject or ""),
    )


# --- grades ---------------------------------------------------------------------------------------


def grade_turns(ask: Inquiry, bodies: Sequence[Json], metric: str) -> Grade:
    """The mean over turns; unknown if any turn is unknown. ADK skips turns without a score, and
    stops if a call raises."""
    results = ask.panel.vote_all([ask_service(ask, body, metric) for body in bodies])
    judged_turns = [turn_of(result, number) for number, result in enumerate(results, start=1)]
    has_failed = any(sample.failure for result in results for sample in result.samples)
    deviations = OURS if has_failed else ask.deviations
    mean = turns.mean if deviations.float_dust_judged else turns.running_mean
    return judged.conclude(judged_turns, nothing=NOTHING, deviations=deviations, mean=mean)


def grade_conversation(
    ask: Inquiry, body: Json, metric: str, actual: Sequence[Invocation]
) -> Grade:
    """The score of a conversation, at its last turn."""
    result = ask.panel.vote(ask_service(ask, body, metric))
    return judged.conclude_conversation(turn_of(result, None), actual, nothing=NOTHING)


def turn_of(result: VoteResult, turn: int | None) -> JudgedTurn:
    """A reply of the service as the judgment of a turn; `turn` None: of the conversation."""
    if any(sample.failure for sample in result.samples) or not result.samples:
        return JudgedTurn(lack=judged.lack_of(result))
    score, findings = parse(result.samples[0].text, turn=turn)
    if score is not None:
        return JudgedTurn(scores=(score,), findings=findings)
    reason = next((finding.text for finding in findings if finding.text), "")
    return JudgedTurn(
        findings=findings, lack=not_evaluated(Reason.JUDGE_UNREADABLE, "service_silent", reason)
    )


# --- the client -----------------------------------------------------------------------------------

_FAULTS = {Fault.TIMEOUT: JudgeFailureKind.TIMEOUT, Fault.UNREACHABLE: JudgeFailureKind.CONNECTION}
"""Faults of an exchange as kinds of a judge's failures; any other one is a malformed reply."""
_VERSION_IN_URL = re.compile(r"/v\d+\w*/?$")
"""The end of a configured address, which the API's version replaces."""


def missing(setting: JudgeSetting) -> str:
    """See JudgeDriver."""
    if _project(setting.environment) or setting.api_key:
        return ""
    return (
        f"Google Cloud's evaluation service (`{setting.model}`): no project; set GOOGLE_CLOUD_PROJECT and "
        "GOOGLE_CLOUD_LOCATION, and Google Cloud credentials; or use recorded replies (`replay`), or a judge model "
        '(`"judge": "llm"` in the criterion)'
    )


class VertexEvaluation(Judge):
    """An opened client. It looks for credentials at the first question."""

    def __init__(self, setting: JudgeSetting) -> None:
        super().__init__(setting)
        self._token = GoogleToken(setting.environment)

    def _ask(self, request: JudgeRequest) -> JudgeReply | JudgeFailure:
        """One request; an error of any kind is a failure with its kind, never an exception."""
        setting = self._setting
        headers: Mapping[str, str] = {"x-goog-api-key": setting.api_key}
        if _project(setting.environment):
            try:
                headers = self._token.headers()
            except NoToken as problem:
                return setting.failure(JudgeFailureKind.UNAUTHORIZED, str(problem))
        exchange = Exchange(
            environment=setting.environment, headers=headers, most_bytes=base.MOST_BYTES
        )
        url = _url(setting)
        body = json.loads(request.prompt)
        try:
            answer = exchange.request("POST", url, body=body, timeout_s=setting.timeout_s)
        except ExchangeFailed as error:
            kind = _FAULTS.get(error.fault, JudgeFailureKind.MALFORMED)
            return setting.failure(kind, str(error))
        finally:
            exchange.close()
        if 200 <= answer.status < 300:
            try:
                answer.json()
            except ValueError:
                return setting.failure(JudgeFailureKind.MALFORMED, answer.excerpt())
            return JudgeReply(parts=(Text(text=answer.body.decode("utf-8", "replace")),))
        try:
            message = str(answer.json()["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = answer.excerpt()
        kind = base.kind_of_status(answer.status)
        wait_s = base.wait_of(answer.headers)
        return setting.failure(kind, f"{answer.status} {message}", retry_after_s=wait_s)


def _project(environment: Mapping[str, str]) -> str:
    """The project of Google Cloud; "" without one, so an API key is needed."""
    return environment.get("GOOGLE_CLOUD_PROJECT", "").strip()


def _url(setting: JudgeSetting) -> str:
    """The address of the service: of the project's location, or the address for an API key."""
    location = setting.environment.get("GOOGLE_CLOUD_LOCATION", "").strip() or "us-central1"
    project = _project(setting.environment)
    regional = bool(project) and location != "global"
    base_url = _VERSION_IN_URL.sub("", setting.base_url).rstrip("/")
    base = base_url or f"https://{f'{location}-' if regional else ''}aiplatform.googleapis.com"
    parent = (
        f"projects/{quote(project, safe='')}/locations/{quote(location, safe='')}/"
        if project
        else ""
    )
    return f"{base}/v1beta1/{parent}:evaluateInstances"


DRIVER = JudgeDriver(name="vertex_evaluation", missing=missing, open=VertexEvaluation)
