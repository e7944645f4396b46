"""Criteria of CES evaluations: the share of an evaluation's checks that are met, by the method that
decides them.

The evaluation and its app say which checks count, with which thresholds (outcomes.py); a threshold
of 1.0 here requires all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from posixpath import basename

from evalgate.criteria import judged, rubrics
from evalgate.criteria.base import CriterionSpec, NoOptions, Verdicts as Words
from evalgate.criteria.judged import Inquiry, JudgedOptions
from evalgate.judges import prompting
from evalgate.judges.prompting import Pieces, Question
from evalgate.model import (
    Finding,
    Grade,
    Invocation,
    Need,
    NotEvaluated,
    Reason,
    Rubric,
    Score,
    TrialView,
    not_evaluated,
)
from evalgate.values import Sentence
from . import outcomes
from .outcomes import (
    DEFAULT_SIMILARITY,
    EXPECTATIONS,
    GOAL,
    GOALS,
    HALLUCINATION,
    NAMED,
    RUBRICS,
    SIMILARITY,
    UNKNOWN,
    Check,
    Judge,
    JudgeQuestion,
    Plan,
    QuestionKind,
    Verdict,
)
from .shapes import EvaluationResult, GoldenResult, Outcome, ScenarioResult


def plan_of(evidence: TrialView) -> Plan:
    """The evaluation of a CES case for which `unready_reason` gives no reason."""
    assert evidence.case.ces is not None
    return Plan.model_validate(evidence.case.ces)


def result_of(plan: Plan, evidence: TrialView, judge: Judge) -> GoldenResult | ScenarioResult:
    """The outcomes of a trial, from the judges' verdicts."""
    return outcomes.result_of(
        plan,
        evidence.actual,
        judge,
        final_state=evidence.final_state,
        fed_tools=[frozenset(setup.tools) for setup in evidence.case.setups],
    )


def unready_reason(evidence: TrialView) -> NotEvaluated | None:
    """The reason why a trial cannot be scored, if any."""
    if evidence.case.ces is None:
        return not_evaluated(Reason.NOT_APPLICABLE, "ces_no_evaluation")
    return judged.unready_reason(evidence)


# --- verdicts of judges ---------------------------------------------------------------------------


def stored_verdicts(grades: Mapping[str, Grade]) -> Judge:
    """A judge that reads its verdicts back from a trial's grades."""
    return _judge_of(
        {
            name: [
                finding
                for finding in grade.findings
                if name in (NAMED, RUBRICS) or finding.opinions or finding.label in _SCORES
            ]
            for name, grade in grades.items()
        }
    )


def _judge_of(findings: Mapping[str, Iterable[Finding]]) -> Judge:
    """A judge that reads its verdicts from the findings of criteria: each question has one, in
    order."""
    unread = {name: iter(of_criterion) for name, of_criterion in findings.items()}

    def read(question: JudgeQuestion) -> Verdict:
        finding = next(unread.get(_CRITERIA[question.kind], iter(())), None)
        if finding is None:
            return outcomes.NO_VERDICT
        score = None
        if finding.score is not None:
            has_labels = question.kind in _QUESTIONS
            score = _SCORES.get(finding.label) if has_labels else int(finding.score)
        return Verdict(score=score, explanation=str(finding.text))

    return read


# --- checks without a judge -----------------------------------------------------------------------


def grade_expectations(evidence: TrialView) -> Grade:
    """The share of met expectations, among those that need no judge: calls, responses, transfers,
    variables, literal answers. By turn, the share of expected tools that were called, and all
    unexpected actions."""
    return unready_reason(evidence) or _grade_checks(evidence, EXPECTATIONS)


def _grade_checks(
    evidence: TrialView,
    criterion: str,
    judge_findings: Sequence[Finding] = (),
    lack: NotEvaluated | None = None,
) -> Grade:
    """The share of met checks of a criterion; skipped ones are shown and do not count.

    `judge_findings`: one for each question to a judge; `lack`: why a verdict is missing."""
    plan = plan_of(evidence)
    result = result_of(plan, evidence, _judge_of({criterion: judge_findings}))
    checks = outcomes.checks(plan, result)
    criterion_checks = [check for check in checks if check.criterion == criterion]
    asked = {(finding.turn, finding.text) for finding in judge_findings}
    # first each judge's finding, one per question; then the results that needed no judge
    findings = (
        *judge_findings,
        *(
            finding
            for finding in map(_finding, criterion_checks)
            if (finding.turn, finding.text) not in asked
        ),
    )
    by_turn = tuple(
        _share(check for check in criterion_checks if check.turn == number)
        for number in range(1, len(evidence.actual) + 1)
    )
    kinds = [check.outcome for check in criterion_checks]
    if UNKNOWN in kinds and Outcome.FAIL not in kinds:
        unknown = criterion_checks[kinds.index(UNKNOWN)]
        lack = lack or not_evaluated(Reason.NOTHING_RECORDED, "ces_unknown", unknown)
        return replace(lack, turns=by_turn, findings=findings)
    passed, failed = map(kinds.count, (Outcome.PASS, Outcome.FAIL))
    if passed or failed:
        return Score(value=passed / (passed + failed), turns=by_turn, findings=findings)
    if all(check.outcome is Outcome.SKIPPED for check in checks):
        return not_evaluated(
            Reason.SKIPPED, "ces_skipped", len(checks), turns=by_turn, findings=findings
        )
    finding = Finding(text=Sentence("ces_nothing_checked", criterion == EXPECTATIONS))
    return Score(value=1.0, turns=by_turn, findings=(*findings, finding))


def _share(checks: Iterable[Check]) -> float | None:
    """The share of met checks, among those that count; None if none counts or one is unknown."""
    check_outcomes = [check.outcome for check in checks if check.outcome is not Outcome.SKIPPED]
    if not check_outcomes or UNKNOWN in check_outcomes:
        return None
    return check_outcomes.count(Outcome.PASS) / len(check_outcomes)


def _finding(check: Check) -> Finding:
    is_decided = check.outcome in (Outcome.PASS, Outcome.FAIL)
    return Finding(
        text=check.explanation,
        turn=check.turn,
        label="UNKNOWN" if check.outcome is UNKNOWN else check.outcome.name,
        score=float(check.outcome is Outcome.PASS) if is_decided else None,
        subject=check.subject,
    )


def grade_platform(evidence: TrialView) -> Grade:
    """The platform's outcome, with its explanation of each expectation."""
    if evidence.case.ces is None:
        return not_evaluated(Reason.NOT_APPLICABLE, "ces_no_evaluation")
    if evidence.platform is None:
        return not_evaluated(Reason.NOT_APPLICABLE, "ces_not_run")
    result = EvaluationResult.model_validate(evidence.platform)
    parts = result.golden_result or result.scenario_result or GoldenResult()
    findings = tuple(map(_finding, outcomes.checks(plan_of(evidence), parts)))
    status = result.evaluation_status
    if status in (Outcome.PASS, Outcome.FAIL):
        return Score(value=float(status is Outcome.PASS), findings=findings)
    if status is Outcome.SKIPPED:
        return not_evaluated(Reason.SKIPPED, "ces_platform_skipped", findings=findings)
    return not_evaluated(Reason.NOTHING_RECORDED, "ces_no_outcome", findings=findings)


# --- checks by a judge ----------------------------------------------------------------------------


def grade_judged(evidence: TrialView, *, name: str, ask: Inquiry) -> Grade:
    """The share of the questions for a judge that pass. Each is a separate request with its own
    threshold. The share is unknown if one verdict is, unless another check failed."""
    questions = [
        question
        for question in outcomes.questions(plan_of(evidence), evidence.actual)
        if _CRITERIA[question.kind] == name
    ]
    results = ask.panel.vote_all(
        [judged.sampled(ask, ask_verdict(question, evidence.actual)) for question in questions]
    )
    findings = []
    for question, result in zip(questions, results, strict=True):
        turn = question.turn + 1 if question.turn >= 0 else None
        subject = question.argument or question.expected[:200] or question.kind.value
        findings.append(judged.finding_of(result, turn=turn, subject=subject))
    lack = next(filter(None, map(judged.lack_of, results)), None)
    return _grade_checks(evidence, name, findings, lack)


VERSION = "1"
_ANSWERS = {
    "fully_consistent": 4,
    "mostly_consistent": 3,
    "partially_consistent": 2,
    "largely_inconsistent": 1,
    "contradictory": 0,
}
_YES = {"yes": 1, "no": 0}
_CLAIMS = {"justified": 1, "not_justified": 0, "no_claim": -1}
_GOAL_WORDS = {"satisfied": 1, "not_satisfied": 0, "unspecified": -1}
_QUESTIONS = {
    QuestionKind.ANSWER: (
        SIMILARITY,
        _ANSWERS,
        "How consistent is the text in agent_answer with the text in expected_answer?",
        """\
You compare what an AI agent said in one turn with the answer that its test expects, by meaning. Form, length, order
and politeness are free; names, values, dates, decisions and questions are not.

- fully_consistent: all that the expected answer says is said, and nothing contradicts it.
- mostly_consistent: the same in everything that matters; a detail is missing or another is added.
- partially_consistent: part of what matters is missing, and nothing is wrong.
- largely_inconsistent: most of what matters is missing, or a detail that matters is another.
- contradictory: it says the opposite, something else, or nothing of it.""",
    ),
    QuestionKind.SAID: (
        SIMILARITY,
        _YES,
        "Does the agent say what is in expected_answer, somewhere in agent_answers?",
        """\
You look through all that an AI agent said in a conversation for something that its test expects it to say, by meaning.
Form, length and order are free; names, values, dates and decisions are not.

- yes: somewhere the agent says it.
- no: it does not, or only in part, or it says something else later.""",
    ),
    QuestionKind.ARGUMENT: (
        SIMILARITY,
        _YES,
        "Do agent_argument and expected_argument mean the same?",
        """\
You compare an argument of a tool call that an AI agent made with the one that its test expects, by meaning.

- yes: both would make the tool do the same: other words, another spelling, another form of the same date or number.
- no: they would not.""",
    ),
    QuestionKind.HALLUCINATION: (
        HALLUCINATION,
        _CLAIMS,
        "Is what the agent said in the last turn borne out?",
        """\
You check whether what an AI agent said in one turn is borne out by what it had: instructions, the conversation, session
variables, tools and what they answered. Use no knowledge of your own, except what is trivial.

- justified: every claim about facts is borne out by these.
- not_justified: at least one claim about facts is not, or is contradicted.
- no_claim: the agent claims no facts: a greeting, a question, a plan, a refusal.""",
    ),
    QuestionKind.GOAL: (
        GOAL,
        _GOAL_WORDS,
        "Did the user get what user_task asks for?",
        """\
You read a conversation of a user with an AI agent and decide whether the user got what the user wanted. You judge what
came of it, not how.

- satisfied: the user's task is done, as the task says it.
- not_satisfied: it is not, or only in part, or the agent refused it.
- unspecified: the task is too vague to tell.""",
    ),
}
"""Of each kind of question: its criterion, the scores of a verdict's words, the task, the rules."""
_CRITERIA = {
    QuestionKind.NAMED: NAMED,
    QuestionKind.RUBRIC: RUBRICS,
    **{kind: criterion for kind, (criterion, *_) in _QUESTIONS.items()},
}
_SCORES = {word: score for _, scores, *_ in _QUESTIONS.values() for word, score in scores.items()}

_REPLY = """\
Reply with one JSON object and nothing else: first the reasons, in one to three sentences, then the verdict, then the
code.
{{"rationale": "...", "verdict": "{first}", "code": "..."}}
The verdict is one of these words: {listed}."""


def ask_verdict(question: JudgeQuestion, actual: Sequence[Invocation]) -> Question:
    """The question to a judge."""
    _, scores, task, rules = _QUESTIONS[question.kind]
    labels = {word: score in question.passes for word, score in scores.items()}
    return prompting.build_question(
        rules=rules,
        reply=_REPLY.format(first=next(iter(labels)), listed=", ".join(labels)),
        pieces=_pieces(question, actual),
        task=task,
        version=VERSION,
        labels=labels,
    )


def _pieces(question: JudgeQuestion, actual: Sequence[Invocation]) -> Pieces:
    match question.kind:
        case QuestionKind.ANSWER:
            request = prompting.text_of(actual[question.turn].user_content)
            return {
                "user_request": request,
                "expected_answer": question.expected,
                "agent_answer": question.actual,
            }
        case QuestionKind.SAID:
            return {"expected_answer": question.expected, "agent_answers": question.actual}
        case QuestionKind.ARGUMENT:
            return {
                "argument_name": question.argument,
                "expected_argument": question.expected,
                "agent_argument": question.actual,
            }
        case QuestionKind.HALLUCINATION:
            history = actual[: question.turn + 1]
            variables = prompting.json_piece(dict(history[-1].state or {}))
            return {**rubrics.conversation_pieces(history), "session_variables": variables}
        case _:  # GOAL, the last one with rules
            return {"user_task": question.expected, **rubrics.conversation_pieces(actual)}


# --- properties of the whole conversation ---------------------------------------------------------


def grade_listed(evidence: TrialView, *, name: str, ask: Inquiry) -> Grade:
    """The share of the properties that the conversation has, all in one request. A goal counts as
    reached only after the goals before it."""
    plan = plan_of(evidence)
    if name == NAMED:
        texts = []
        for identifier in map(basename, plan.conversation_expectations):
            if not plan.prompts.get(identifier):
                return not_evaluated(
                    Reason.RUBRICS_MISSING, "ces_expectation_missing", repr(identifier)
                )
            texts.append(plan.prompts[identifier])
    elif name == GOALS:
        texts = list(plan.goals)
    else:
        texts = list(plan.evaluation.scenario.rubrics if plan.evaluation.scenario else ())
    conversation_rubrics = [
        Rubric(rubric_id=str(number), text=text) for number, text in enumerate(texts, start=1)
    ]
    grade = rubrics.grade_conversation(
        evidence.actual, conversation_rubrics, rubric_type=name, ask=ask
    )
    return _in_order(grade) if name == GOALS else grade


def _in_order(grade: Grade) -> Grade:
    """The share of goals reached before the first goal that was not."""
    if not isinstance(grade, Score):
        return grade
    reached = list(takewhile(lambda finding: finding.score == 1.0, grade.findings))
    share = len(reached) / max(len(grade.findings), 1)
    return replace(grade, value=share, turns=(*grade.turns[:-1], share))


# --- the rows -------------------------------------------------------------------------------------


def _spec(name: str, summary: str, rule: Callable[..., Grade], verdicts: Words) -> CriterionSpec:
    """The criterion that grades by `rule`, which asks a judge."""
    named_rule = partial(rule, name=name)
    return CriterionSpec(
        name=name,
        summary=summary,
        options=JudgedOptions,
        build=partial(judged.with_judge, rule=named_rule, unready=unready_reason),
        needs=frozenset({Need.JUDGE}),
        is_beyond_adk=True,
        verdicts=verdicts,
    )


_PROPERTIES = Words(
    labels=rubrics.LABELS, prompt_version=rubrics.VERSION, unit="rubric", is_of_conversation=True
)


SPECS = (
    CriterionSpec(
        name=outcomes.PLATFORM,
        summary="whether the platform passed a CES evaluation that it ran (`evalgate ces run`)",
        options=NoOptions,
        build=lambda _options, _use, _services: grade_platform,
        is_beyond_adk=True,
    ),
    CriterionSpec(
        name=EXPECTATIONS,
        summary="share of a CES evaluation's expectations met, of those that need no judge",
        options=NoOptions,
        build=lambda _options, _use, _services: grade_expectations,
        is_beyond_adk=True,
    ),
    _spec(
        SIMILARITY,
        "share of a CES evaluation's expected answers and arguments met by meaning, as rated by a judge",
        grade_judged,
        Words(
            labels={word: score >= DEFAULT_SIMILARITY for word, score in _ANSWERS.items()},
            prompt_version=VERSION,
        ),
    ),
    _spec(
        HALLUCINATION,
        "share of turns with tool calls whose claims are justified (CES), as rated by a judge",
        grade_judged,
        Words(labels={word: score != 0 for word, score in _CLAIMS.items()}, prompt_version=VERSION),
    ),
    _spec(
        NAMED,
        "share of a CES evaluation's evaluation expectations met, as rated by a judge",
        grade_listed,
        _PROPERTIES,
    ),
    _spec(
        GOAL,
        "whether a CES scenario's user got what the scenario says, as rated by a judge",
        grade_judged,
        Words(
            labels={word: score == 1 for word, score in _GOAL_WORDS.items()},
            prompt_version=VERSION,
            is_of_conversation=True,
        ),
    ),
    _spec(
        GOALS,
        "share of a simulation's goals reached in order, as rated by a judge",
        grade_listed,
        _PROPERTIES,
    ),
    _spec(
        RUBRICS,
        "share of a CES scenario's rubrics met, as rated by a judge; informational",
        grade_listed,
        _PROPERTIES,
    ),
)
