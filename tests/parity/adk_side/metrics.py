"""Custom metrics that look at all they are shown, as users write them."""

import json

from google.adk.evaluation.eval_case import IntermediateData, get_all_tool_calls, get_all_tool_responses
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult
from google.adk.evaluation.eval_metrics import EvalStatus


def everything(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    threshold = eval_metric.criterion.threshold
    expected = expected_invocations or [None] * len(actual_invocations)
    turns = [
        PerInvocationResult(actual_invocation=actual, expected_invocation=wanted, score=_seen(actual) + 0.5 * _seen(wanted))
        for actual, wanted in zip(actual_invocations, expected)
    ]
    score = sum(turn.score for turn in turns) / max(len(turns), 1) + getattr(eval_metric.criterion, "bonus", 0)
    status = EvalStatus.PASSED if score >= threshold else EvalStatus.FAILED
    return EvaluationResult(overall_score=score, overall_eval_status=status, per_invocation_results=turns)


async def everything_later(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
    return everything(eval_metric, actual_invocations, expected_invocations, conversation_scenario)


def silent(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
    return EvaluationResult()


def broken(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
    return 1 / 0


def _seen(invocation):
    """A number in which every difference shows."""
    if invocation is None:
        return 0
    steps = invocation.intermediate_data
    texts = [part.text or "" for part in (invocation.final_response and invocation.final_response.parts) or ()]
    thoughts = [part for part in (invocation.final_response and invocation.final_response.parts) or () if part.thought]
    calls = [[call.id, call.name, call.args] for call in get_all_tool_calls(steps)]
    answers = [[answer.id, answer.name, answer.response] for answer in get_all_tool_responses(steps)]
    seen = [
        invocation.invocation_id,
        [part.text for part in invocation.user_content.parts or ()],
        texts,
        len(thoughts),
        calls,
        answers,
        steps is None,
        isinstance(steps, IntermediateData),
        len(getattr(steps, "intermediate_responses", ())),
        [_counts(event.usage_metadata) for event in getattr(steps, "invocation_events", ())],
        invocation.duration,
        invocation.model_duration if invocation.duration is not None else None,
    ]
    return sum(json.dumps(seen, sort_keys=True).encode()) % 10007


def _counts(usage):
    """Token counts; the details by modality are not kept by evalgate
    (docs/criteria/custom_metric.md)."""
    return usage and {key: value for key, value in usage.model_dump().items() if key.endswith("_count")}
