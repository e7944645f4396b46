"""Custom metrics, good and bad."""

from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def exact_answer(eval_metric, actual_invocations, expected_invocations, conversation_scenario=None):
    assert eval_metric.threshold is None
    wanted = eval_metric.criterion.threshold
    scores = [
        float(actual.final_response.parts[0].text == expected.final_response.parts[0].text)
        for actual, expected in zip(actual_invocations, expected_invocations)
    ]
    score = sum(scores) / len(scores)
    return EvaluationResult(
        overall_score=score,
        overall_eval_status=EvalStatus.PASSED if score >= wanted else EvalStatus.FAILED,
        per_invocation_results=[
            PerInvocationResult(
                actual_invocation=actual, score=score, eval_status=EvalStatus.PASSED
            )
            for actual, score in zip(actual_invocations, scores)
        ],
    )


async def exact_answer_async(*args):
    return exact_answer(*args)


def three_arguments(eval_metric, actual, expected):
    return exact_answer(eval_metric, actual, expected)


def raising(eval_metric, actual, expected, scenario):
    raise RuntimeError("the metric broke")


def exhausted(eval_metric, actual, expected, scenario):
    return next(iter(()))


def leaving(eval_metric, actual, expected, scenario):
    raise SystemExit(3)


def nothing(eval_metric, actual, expected, scenario):
    return None


def a_number(eval_metric, actual, expected, scenario):
    return 0.5


def not_a_number(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_score=float("nan"), overall_eval_status=EvalStatus.PASSED)


def passed_without_score(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_score=None, overall_eval_status=EvalStatus.PASSED)


def score_alone(eval_metric, actual, expected, scenario):
    return EvaluationResult(overall_score=0.25)


def undecided(eval_metric, actual, expected, scenario):
    return EvaluationResult()
