"""Outcomes of an evaluation by turn and expectation, in the form of EvaluationResult.

This module is pure: the judge's verdicts are arguments, and `questions` lists the questions for the
judge. An undecided expectation has no outcome (OUTCOME_UNSPECIFIED); a result with one has no
status and counts as an error, never as a pass."""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from posixpath import basename
from typing import Any, TypeAlias

from pydantic import Field

from evalgate.model import (
    FailureKind,
    Invocation,
    Text,
    ToolCall as ActualCall,
    ToolResponse as ActualResponse,
    json_match,
)
from evalgate.system import patterns
from evalgate.values import Json, JsonObject, Sentence, Wording, frozen_dataclass
from . import compare, read, shapes
from .cxas import TRANSFER
from .shapes import (
    AgentTransfer,
    Chunk,
    ComparisonType,
    ErrorType,
    Evaluation,
    EvaluationExpectationResult,
    EvaluationMetricsConfig,
    EvaluationMetricsThresholds,
    ExtraToolCallBehavior,
    GoldenEvaluationMetricsThresholds,
    GoldenExpectation,
    GoldenExpectationOutcome,
    GoldenResult,
    GoldenTurn,
    HallucinationMetricBehavior,
    HallucinationResult,
    Message,
    ObservedToolCall,
    Outcome,
    OverallToolInvocationResult,
    Proto,
    Scenario,
    ScenarioExpectation,
    ScenarioExpectationOutcome,
    ScenarioResult,
    ScenarioRubricOutcome,
    SemanticSimilarityResult,
    ToolCall,
    ToolInvocationResult,
    ToolResponse,
    TurnReplayResult,
    UserGoalBehavior,
    UserGoalSatisfactionResult,
)

EXPECTATIONS = "ces_expectations"
SIMILARITY = "ces_semantic_similarity"
HALLUCINATION = "ces_hallucination"
NAMED = "ces_evaluation_expectations"
GOAL = "ces_user_goal"
GOALS = "ces_goals"
RUBRICS = "ces_rubrics"
PLATFORM = "ces_platform"
"""The platform's own outcome of evaluations that it runs."""
CRITERIA = (EXPECTATIONS, SIMILARITY, HALLUCINATION, NAMED, GOAL, GOALS, RUBRICS)
"""The criteria in the order of the reports, without the platform's."""

SIMILARITY_LABELS = {
    0: "Completely Inconsistent / Contradictory",
    1: "Largely Inconsistent (Major Omissions)",
    2: "Partially Consistent (Minor Omissions)",
    3: "Mostly Consistent",
    4: "Fully Consistent",
}
HALLUCINATION_LABELS = {1: "Justified", 0: "Not Justified", -1: "No Claim To Assess"}
GOAL_LABELS = {1: "User Task Satisfied", 0: "User Task Not Satisfied", -1: "User Task Unspecified"}

ERRORS = {
    FailureKind.RATE_LIMITED: ErrorType.QUOTA_EXHAUSTED,
    FailureKind.SIMULATOR: ErrorType.USER_SIMULATION_FAILURE,
}
"""The errors of failures; all other failures are runtime failures."""
UNEXPECTED_RESPONSE = "UNEXPECTED RESPONSE"
UNEXPECTED_CALL = "UNEXPECTED TOOL CALL"
UNEXPECTED_TRANSFER = "UNEXPECTED AGENT TRANSFER"
UNEXPECTED = (UNEXPECTED_RESPONSE, UNEXPECTED_CALL, UNEXPECTED_TRANSFER)
UNKNOWN = Outcome.OUTCOME_UNSPECIFIED
BY_MEANING = ComparisonType.COMPARISON_TYPE_UNSPECIFIED
LITERAL = (ComparisonType.EQUALS, ComparisonType.CONTAINS)
YES = frozenset({1})
NO_CLAIM_OR_YES = frozenset({1, -1})
DEFAULT_SIMILARITY = 3


def outcome_of(*, passed: bool | None) -> Outcome:
    """PASS or FAIL; `passed` None: unknown."""
    return UNKNOWN if passed is None else Outcome.PASS if passed else Outcome.FAIL


def _merged(base: Json, override: Json) -> JsonObject:
    """Merge two objects; if both have a value, the second one counts."""
    shared_fields = {
        key: _merged(base[key], override[key])
        for key in base
        if isinstance(base[key], dict) and key in override
    }
    return {**base, **override, **shared_fields}


def expectations_of(turn: GoldenTurn | None) -> dict[int, GoldenExpectation]:
    """The expectations of a turn, by the number of their step."""
    steps = enumerate(turn.steps if turn else ())
    return {number: step.expectation for number, step in steps if step.expectation is not None}


# --- the settings that apply ----------------------------------------------------------------------


class Plan(Proto):
    """An evaluation with the app's thresholds and switches, in the form of `Case.ces`. `prompts`:
    the texts of expectations by the last part of their name. `goals`: the ordered goals of a
    simulation for `cxas`."""

    evaluation: Evaluation
    thresholds: EvaluationMetricsThresholds = EvaluationMetricsThresholds()
    config: EvaluationMetricsConfig = EvaluationMetricsConfig()
    prompts: dict[str, str] = Field(default_factory=dict)
    goals: tuple[str, ...] = ()

    @property
    def app(self) -> str:
        """The app that it belongs to."""
        head, mark, _ = self.evaluation.name.partition("/evaluations/")
        return head if mark else shapes.LOCAL_APP

    @property
    def name(self) -> str:
        """The name of its evaluation; without one, a name from its title."""
        file_name = read.file_name(self.evaluation.display_name)
        return self.evaluation.name or f"{self.app}/evaluations/{file_name}"

    @property
    def turns(self) -> tuple[GoldenTurn, ...]:
        """The turns of a golden; empty for a scenario."""
        return self.evaluation.golden.turns if self.evaluation.golden else ()

    @property
    def conversation_expectations(self) -> tuple[str, ...]:
        """The names of the expectations that a judge checks in the whole conversation."""
        inputs = self.evaluation.golden or self.evaluation.scenario
        return inputs.evaluation_expectations if inputs else ()

    @functools.cached_property
    def effective_thresholds(self) -> EvaluationMetricsThresholds:
        """The app's thresholds with those of the evaluation over them."""
        override = self.evaluation.evaluation_metrics_threshold_override
        if override is None:
            return self.thresholds
        merged_thresholds = _merged(self.thresholds.json(), override.json())
        return EvaluationMetricsThresholds.model_validate(merged_thresholds)

    @property
    def _golden_thresholds(self) -> GoldenEvaluationMetricsThresholds:
        thresholds = self.effective_thresholds.golden_evaluation_metrics_thresholds
        return thresholds or GoldenEvaluationMetricsThresholds()

    def _threshold(self, field: str, override: Proto | None, default: float) -> float:
        """A threshold: that of a turn's or an expectation's override, the evaluation, the app, or
        the default."""
        golden = self._golden_thresholds
        levels = (
            override,
            golden.turn_level_metrics_thresholds,
            golden.expectation_level_metrics_thresholds,
        )
        thresholds = (getattr(level, field, None) for level in levels)
        return next((threshold for threshold in thresholds if threshold is not None), default)

    def similarity(self, turn: GoldenTurn) -> int:
        """The lowest similarity that passes."""
        override = turn.turn_level_metrics_thresholds_override
        field = "semantic_similarity_success_threshold"
        return int(self._threshold(field, override, DEFAULT_SIMILARITY))

    def invocation(self, turn: GoldenTurn) -> float:
        """The share of a turn's expected tools that the agent has to call."""
        override = turn.turn_level_metrics_thresholds_override
        return self._threshold("overall_tool_invocation_correctness_threshold", override, 1.0)

    def expected_call(
        self, expected: GoldenExpectation | ScenarioExpectation
    ) -> ExpectedCall | None:
        """The call of an expectation; None if it expects no call."""
        override = None
        comparison = BY_MEANING
        if isinstance(expected, GoldenExpectation):
            call = expected.tool_call
            override = expected.expectation_level_metrics_thresholds_override
            comparison = expected.comparison_type
        else:
            tool = expected.tool_expectation
            call = tool.expected_tool_call if tool else None
        if call is None:
            return None
        least = self._threshold("tool_invocation_parameter_correctness_threshold", override, 1.0)
        return ExpectedCall(call=call, least=least, comparison=comparison)

    @property
    def are_more_calls_allowed(self) -> bool:
        """True if unexpected calls are tolerated."""
        settings = self._golden_thresholds.tool_matching_settings
        behavior = settings.extra_tool_call_behavior if settings else None
        return behavior is ExtraToolCallBehavior.ALLOW

    def judges_hallucination(self, turn: GoldenTurn | None) -> bool:
        """True if unsupported claims count; unspecified means disabled."""
        overrides = [
            override.enable_hallucination_metrics
            for expectation in expectations_of(turn).values()
            if (override := expectation.agent_response_hallucination_metrics_config_override)
        ]
        if overrides:
            return any(overrides)
        # of a golden, the older name counts too
        names = ["golden_hallucination_metric_behavior", "hallucination_metric_behavior"]
        if self.evaluation.scenario is not None:
            names = ["scenario_hallucination_metric_behavior"]
        behaviors = [turn.hallucination_metric_behavior_override] if turn else []
        for level in (self.evaluation.evaluation_metrics_threshold_override, self.thresholds):
            behaviors += [getattr(level, name) for name in names if level]
        return next(filter(None, behaviors), None) is HallucinationMetricBehavior.ENABLED

    def is_on(self, group: str, metric: str) -> bool:
        """True if a metric is enabled, by the evaluation, the app, or the default."""
        for config in (self.evaluation.evaluation_metrics_config_override, self.config):
            group_config = getattr(config, f"{group}_metrics_config", None)
            switch = getattr(group_config, f"{metric}_metrics_config", None)
            if switch is not None:
                return bool(switch.json())  # its only field, unless that is false
        return True

    def judges_answer(self, expected: GoldenExpectation) -> bool:
        """True if a judge compares the meaning of an expected answer, which has words."""
        override = expected.agent_response_semantic_similarity_metrics_config_override
        is_on = (
            override.enable_semantic_similarity_metrics
            if override
            else self.is_on("golden", "semantic_similarity")
        )
        has_words = bool(text_of(expected.agent_response))
        return is_on and has_words and expected.comparison_type not in LITERAL

    @property
    def judges_goal(self) -> bool:
        """True if the goal of the simulated user counts."""
        is_on = self.is_on("scenario", "user_goal_met")
        return is_on and not self.goals and self.goal is not UserGoalBehavior.USER_GOAL_IGNORED

    @property
    def compares_scenario(self) -> bool:
        """True if the expectations of a scenario count."""
        return self.is_on("scenario", "expectations_met")

    @property
    def goal(self) -> UserGoalBehavior:
        """The expected outcome of the user's goal; the deprecated field counts if the newer field
        is unset."""
        scenario = self.evaluation.scenario or Scenario()
        if scenario.user_goal_behavior:
            return scenario.user_goal_behavior
        # the numbers of the deprecated values mean the same
        return UserGoalBehavior(
            scenario.task_completion_behavior or UserGoalBehavior.USER_GOAL_SATISFIED
        )

    @property
    def goal_score(self) -> int:
        """The score that a judge should give: 0 if the agent should refuse the goal."""
        return 0 if self.goal is UserGoalBehavior.USER_GOAL_REJECTED else 1


# --- questions for a judge ------------------------------------------------------------------------


class QuestionKind(enum.StrEnum):
    """The subject of a question for a judge."""

    ANSWER = "answer"  # an expected answer, 0 to 4
    SAID = "said"  # an answer that a scenario expects anywhere, 0 or 1
    ARGUMENT = "argument"  # an argument of a call, 0 or 1
    HALLUCINATION = "hallucination"  # a turn, -1, 0 or 1
    GOAL = "goal"  # the whole conversation, -1, 0 or 1
    NAMED = "named"  # an expectation of the whole conversation, 0 or 1
    RUBRIC = "rubric"  # a rubric of a scenario, 0 or 1


@frozen_dataclass
class JudgeQuestion:
    """A question to a judge. `turn` and `step` count from 0; -1 is the whole conversation.
    `passes`: the scores that pass."""

    kind: QuestionKind
    turn: int = -1
    step: int = -1
    argument: str = ""
    expected: str = ""
    actual: str = ""
    passes: frozenset[int] = YES


@frozen_dataclass
class Verdict:
    """A judge's verdict. `score` is None if the judge was not asked or its reply could not be
    used."""

    score: int | None = None
    explanation: str = ""

    def outcome(self, passes: Container[int]) -> Outcome:
        """PASS if the score is one of these."""
        return outcome_of(passed=None if self.score is None else self.score in passes)

    def fields(self, labels: Mapping[int, str]) -> JsonObject:
        """The fields that results of judges have in common."""
        label = "" if self.score is None else labels[self.score]
        return {"score": self.score, "label": label, "explanation": self.explanation}


NO_VERDICT = Verdict()


Judge: TypeAlias = Callable[[JudgeQuestion], Verdict]
"""Answers a question by a verdict."""


def questions(plan: Plan, actual: Sequence[Invocation]) -> list[JudgeQuestion]:
    """All questions that only a judge can decide, in the order of the turns: those of a result
    without verdicts."""
    asked_questions: list[JudgeQuestion] = []

    def note(question: JudgeQuestion) -> Verdict:
        asked_questions.append(question)
        return NO_VERDICT

    result_of(plan, actual, note)
    return asked_questions


def result_of(
    plan: Plan,
    actual: Sequence[Invocation],
    judge: Judge,
    *,
    final_state: Json | None = None,
    fed_tools: Sequence[frozenset[str]] = (),
) -> GoldenResult | ScenarioResult:
    """The outcomes by turn and expectation: the content of an EvaluationResult. Each turn of the
    agent has an invocation. `fed_tools`: by turn, the tools whose responses come from evalgate."""
    if plan.evaluation.scenario is not None:
        return _scenario_result(plan, plan.evaluation.scenario, actual, judge)
    last = len(actual) - 1
    turn_results = []
    for number, (turn, invocation) in enumerate(zip(plan.turns, actual, strict=False)):
        state = invocation.state if invocation.state is not None or number < last else final_state
        fed = fed_tools[number] if number < len(fed_tools) else frozenset[str]()
        turn_results.append(
            _Turn(plan, turn, invocation, number, judge=judge, fed_tools=fed).result(state)
        )
    return GoldenResult(
        turn_replay_results=tuple(turn_results),
        evaluation_expectation_results=_expectation_results(plan, judge),
    )


# --- the agent's actions --------------------------------------------------------------------------


def calls_of(invocation: Invocation) -> list[ActualCall]:
    """The calls of a turn, except transfers to another agent."""
    return [call for call in invocation.tool_calls if call.name != TRANSFER]


def messages_of(invocation: Invocation) -> list[str]:
    """The agent's messages to the user in a turn, in order, the final answer last."""
    contents = [event.content for event in invocation.steps if event.author.lower() != "user"]
    texts = (
        "".join(part.text for part in content.parts if isinstance(part, Text) and not part.thought)
        for content in (*contents, invocation.final_response)
        if content is not None
    )
    return [text for text in texts if text.strip()]


def text_of(message: Message | None) -> str:
    """The words of an expected answer; "" if it has only white space, which every answer would
    contain."""
    text = (
        "".join(chunk.text or chunk.transcript or "" for chunk in message.chunks) if message else ""
    )
    return text if text.strip() else ""


def task_of(scenario: Scenario) -> str:
    """The task and the facts of a scenario's user."""
    facts = "".join(f"\n- {fact.name}: {fact.value}" for fact in scenario.user_facts)
    return scenario.task + (f"\n\nWhat the user knows:{facts}" if facts else "")


def tool_name(name: str, app: str) -> str:
    """The resource name for a tool's name."""
    return name if "/" in name else f"{app}/tools/{name}"


def names_of(tool: ToolCall | ToolResponse) -> tuple[str, ...]:
    """The names under which an agent may have a tool, its own first: its id, its display name, and
    for a tool of a toolset the name with the toolset before it."""
    aliases = {tool.display_name} - {""}
    if tool.toolset_tool is None:
        name = basename(tool.tool or "")
    else:
        toolset = basename(tool.toolset_tool.toolset)
        name = tool.toolset_tool.tool_id
        if not name:
            return tuple(sorted({*aliases, toolset}))
        aliases |= {f"{toolset}{mark}{name}" for mark in ("_", ".", "/", "__")}
    return (name, *sorted(aliases - {name}))


_MATCH_TYPES = {ComparisonType.EQUALS: "", ComparisonType.CONTAINS: "contains"}
"""The comparison of a text: by meaning unless the expectation names another one."""


def _match_of(expected: Any, comparison: ComparisonType) -> tuple[str, Any]:
    """The way in which an argument is compared ("": as JSON), and the value to compare with."""
    if isinstance(expected, Mapping) and "$matchType" in expected:
        return str(expected["$matchType"]), expected.get("$originalValue")
    return _MATCH_TYPES.get(comparison, "semantic") if isinstance(expected, str) else "", expected


def _argument(expected: Any, actual: Any, comparison: ComparisonType) -> bool | None:
    """True if an argument is as expected; None if a judge has to decide. Raises SearchFailed."""
    match, original = _match_of(expected, comparison)
    if match == "ignore":
        return True
    if actual is json_match.MISSING:
        return False
    if match == "contains":
        return str(original) in str(actual)
    if match == "regexp":
        try:
            return any(patterns.search(str(original), [str(actual)]))
        except ValueError:  # not a regular expression: `validate` warns of it
            return False
    return compare.same(original, actual) or (None if match == "semantic" else False)


@frozen_dataclass
class ExpectedCall:
    """A call that an evaluation expects. `least`: the share of its parameters that must match."""

    call: ToolCall
    least: float
    comparison: ComparisonType

    @property
    def may_need_judge(self) -> bool:
        """True if an argument is compared by meaning."""
        values = (self.call.args or {}).values()
        return any(_match_of(value, self.comparison)[0] == "semantic" for value in values if value)

    def matches(self, args: Json | None) -> dict[str, bool | None]:
        """True for a parameter that is as expected; None if a judge has to decide."""
        return {
            name: _argument(value, (args or {}).get(name, json_match.MISSING), self.comparison)
            for name, value in (self.call.args or {}).items()
        }

    def is_judged(self, args: Json | None) -> bool:
        """True if only a judge can tell whether enough parameters are as expected."""
        possible_count, _, sure_count = self.match_counts(args)
        return sure_count < self.least * len(self.call.args or {}) <= possible_count

    def match_counts(self, args: Json | None) -> tuple[int, float, int]:
        """The number and the share of a call's parameters that match, and the number of those that
        match without a judge. Parameters for a judge count as matches."""
        matches = list(self.matches(args).values())
        met_count = len(matches) - matches.count(False)
        return met_count, (met_count / len(matches) if matches else 1.0), matches.count(True)

    def result(
        self, call: ActualCall, judge: Judge, *, turn: int = -1, step: int
    ) -> ToolInvocationResult:
        """The share of the parameters that the agent's call has; unknown if a judge did not decide
        on one. `turn`, `step`: as in JudgeQuestion."""
        args = call.arguments
        scores: dict[str, int | None] = {**self.matches(args)}
        if self.is_judged(args):
            for name in [name for name, score in scores.items() if score is None]:
                question = JudgeQuestion(
                    kind=QuestionKind.ARGUMENT,
                    turn=turn,
                    step=step,
                    argument=name,
                    expected=self._text(name),
                    actual=str(args.get(name)),
                )
                scores[name] = judge(question).score
            if None in scores.values():
                return ToolInvocationResult(explanation=str(Sentence("ces_argument_unjudged")))
        score = sum(map(bool, scores.values())) / len(scores) if scores else 1.0
        differences = "; ".join(
            _difference(name, self._text(name), args)
            for name, is_met in scores.items()
            if not is_met
        )
        return ToolInvocationResult(
            parameter_correctness_score=score,
            outcome=outcome_of(passed=score >= self.least),
            explanation=differences,
        )

    def _text(self, name: str) -> str:
        return str(_match_of((self.call.args or {})[name], self.comparison)[1])


def _paired(
    plan: Plan,
    expectations: Mapping[int, GoldenExpectation | ScenarioExpectation],
    calls: Sequence[ActualCall],
) -> dict[int, tuple[ExpectedCall, ActualCall | None]]:
    """The expected calls, each with the actual call for it, by step. The most similar calls are
    paired first, and no call twice."""
    expected_calls = {
        step: call
        for step, expectation in expectations.items()
        if (call := plan.expected_call(expectation))
    }
    pairs = sorted(
        (
            (expected.match_counts(actual.args), step, number)
            for step, expected in expected_calls.items()
            for number, actual in enumerate(calls)
            if actual.name in names_of(expected.call)
        ),
        key=itemgetter(0),
        reverse=True,
    )
    numbers: dict[int, int] = {}
    for _, step, number in pairs:
        if step not in numbers and number not in numbers.values():
            numbers[step] = number
    return {
        step: (expected, calls[numbers[step]] if step in numbers else None)
        for step, expected in expected_calls.items()
    }


def _in_order(expected: Sequence[Collection[str]], actual: Sequence[str]) -> float:
    """The share of the expected tools that were called in this order: their longest common
    subsequence."""
    row = [0] * (len(actual) + 1)
    for names in expected:
        previous_row = list(row)
        for number, name in enumerate(actual, start=1):
            row[number] = (
                previous_row[number - 1] + 1
                if name in names
                else max(previous_row[number], row[number - 1])
            )
    return row[-1] / len(expected)


# --- goldens --------------------------------------------------------------------------------------


class _Turn:
    """One turn of a golden and the agent's actions in it."""

    def __init__(
        self,
        plan: Plan,
        turn: GoldenTurn,
        invocation: Invocation,
        number: int,
        *,
        judge: Judge,
        fed_tools: frozenset[str],
    ) -> None:
        self._plan = plan
        self._judge = judge
        self._fed_tools = fed_tools
        self._turn = turn
        self._actual = invocation
        self._number = number
        self._expectations = expectations_of(turn)
        self._calls = calls_of(invocation)
        self._pairs = _paired(plan, self._expectations, self._calls)
        self._messages = messages_of(invocation)
        self._answers = [
            step
            for step, expectation in self._expectations.items()
            if expectation.agent_response is not None
        ]

    def result(self, state: Json | None) -> TurnReplayResult:
        """The outcomes of the turn; `state`: the session's state at its end."""
        outcomes = [
            GoldenExpectationOutcome(
                expectation=expectation, **self._fields(step, expectation, state)
            )
            for step, expectation in self._expectations.items()
        ]
        if not self._answers and self._messages:
            observed = _observed_message(self._messages)
            outcomes.append(_failed_action(UNEXPECTED_RESPONSE, observed_agent_response=observed))
        overall, order_score = self._tool_scores()
        if overall is not None and not self._plan.are_more_calls_allowed:
            outcomes += self._not_expected()
        similarities = [
            outcome.semantic_similarity_result
            for outcome in outcomes
            if outcome.semantic_similarity_result
        ]
        is_known = all(similarity.score is not None for similarity in similarities)
        return TurnReplayResult(
            expectation_outcome=tuple(outcomes),
            hallucination_result=_hallucination(
                self._plan, self._number, self._actual, self._judge
            ),
            # the turn is as consistent as its least consistent answer
            semantic_similarity_result=min(
                similarities, key=lambda similarity: similarity.score or 0, default=None
            )
            if is_known
            else None,
            overall_tool_invocation_result=overall,
            tool_ordered_invocation_score=order_score,
        )

    def _not_expected(self) -> Iterator[GoldenExpectationOutcome]:
        """Calls that match no expected one, and transfers to agents that no expectation names."""
        paired_ids = {id(call) for _, call in self._pairs.values()}
        for call in self._calls:
            if id(call) not in paired_ids:
                observed_call = as_observed(call, self._plan.app)
                yield _failed_action(UNEXPECTED_CALL, observed_tool_call=observed_call)
        expected_names: set[str] = set()
        for step in self._turn.steps:
            expectation = step.expectation or GoldenExpectation()
            expected_names |= _agent_names(step.agent_transfer or expectation.agent_transfer)
        for name in self._new_agents():
            if name not in expected_names:
                observed = self._transfer_to(name)
                yield _failed_action(UNEXPECTED_TRANSFER, observed_agent_transfer=observed)

    def _new_agents(self) -> list[str]:
        """The agents that take over the conversation by a call, in order."""
        calls = (call.arguments for call in self._actual.tool_calls if call.name == TRANSFER)
        return [str(args.get("agent_name") or args.get("agent") or "") for args in calls]

    def _transfer_to(self, name: str) -> AgentTransfer:
        return AgentTransfer(target_agent=f"{self._plan.app}/agents/{name}")

    def _tool_scores(self) -> tuple[OverallToolInvocationResult | None, float | None]:
        """The share of expected tools that were called, and the share of those in order; None if
        that does not count."""
        if not self._plan.is_on("golden", "tool_correctness") or self._actual.events is None:
            return None, None
        pairs = [
            pair
            for step, pair in self._pairs.items()
            if not self._expectations[step].skip_evaluation
        ]
        if not pairs:
            return OverallToolInvocationResult(outcome=Outcome.SKIPPED), None
        score = sum(call is not None for _, call in pairs) / len(pairs)
        passed = score >= self._plan.invocation(self._turn)
        order_score = _in_order(
            [names_of(expected.call) for expected, _ in pairs], [call.name for call in self._calls]
        )
        return OverallToolInvocationResult(
            tool_invocation_score=score, outcome=outcome_of(passed=passed)
        ), order_score

    def _fields(  # noqa: PLR0911 - a row each
        self, step: int, expected: GoldenExpectation, state: Json | None
    ) -> Json:
        """The outcome of an expectation, with its reason and what was observed."""
        if expected.skip_evaluation or expected.mock_tool_response is not None:
            return SKIPPED
        if expected.agent_response is not None:
            return self._of_answer(step, expected)
        if expected.updated_variables is not None:
            return _of_variables(expected.updated_variables, state)
        is_on = self._plan.is_on("golden", "step_tool_correctness")
        if expected.agent_transfer is None and not is_on:
            return SKIPPED
        if self._actual.events is None:
            return _explained(UNKNOWN, Sentence("ces_steps_unrecorded"))
        if expected.agent_transfer is not None:
            return self._of_transfer(expected.agent_transfer)
        if expected.tool_call is not None:
            return self._of_call(step)
        if expected.tool_response is not None:
            return self._of_response(expected.tool_response)
        return _explained(
            outcome_of(passed=not self._calls),
            Sentence("ces_called", self._calls),
            observed_tool_call=as_observed(self._calls[0], self._plan.app) if self._calls else None,
        )

    def _of_answer(self, step: int, expected: GoldenExpectation) -> JsonObject:
        place = self._answers.index(step)
        # the last expected answer gets all remaining messages: an agent may need several
        end = place + 1 if step != self._answers[-1] else None
        messages = self._messages[place:end]
        text = text_of(expected.agent_response)
        # a payload or an image has no text
        fields = {**SKIPPED, "observed_agent_response": _observed_message(messages)}
        if text and expected.comparison_type in LITERAL:
            answer = messages[-1] if messages else ""  # only the last one is the answer
            is_whole = expected.comparison_type is ComparisonType.EQUALS
            passed = text.strip() == answer.strip() if is_whole else text in answer
            fields["outcome"] = outcome_of(passed=passed)
        elif self._plan.judges_answer(expected):
            similar = range(self._plan.similarity(self._turn), len(SIMILARITY_LABELS))
            question = JudgeQuestion(
                kind=QuestionKind.ANSWER,
                turn=self._number,
                step=step,
                expected=text,
                actual="\n".join(messages),
                passes=frozenset(similar),
            )
            silent = Verdict(score=0, explanation=str(Sentence("ces_silent")))
            verdict = self._judge(question) if messages else silent
            fields["outcome"] = outcome = verdict.outcome(similar)
            fields["semantic_similarity_result"] = SemanticSimilarityResult(
                **verdict.fields(SIMILARITY_LABELS), outcome=outcome
            )
        return fields

    def _of_call(self, step: int) -> JsonObject:
        expected_call, call = self._pairs[step]
        fields: JsonObject = {}
        if call is None:
            result = ToolInvocationResult(
                parameter_correctness_score=0.0,
                outcome=Outcome.FAIL,
                explanation=str(Sentence("ces_not_called")),
            )
        else:
            result = expected_call.result(call, self._judge, turn=self._number, step=step)
            fields["observed_tool_call"] = as_observed(call, self._plan.app, expected_call.call)
        return {"outcome": result.outcome, "tool_invocation_result": result, **fields}

    def _of_response(self, expected: ToolResponse) -> JsonObject:
        """The response to the call with the same id in the file, otherwise to any call of the
        tool."""
        call_ids = {
            call.id
            for expected_call, call in self._pairs.values()
            if call is not None and expected.id == expected_call.call.id != ""
        } - {None}
        names = names_of(expected)
        of_tool = [response for response in self._actual.tool_responses if response.name in names]
        candidates = [response for response in of_tool if response.id in call_ids] or of_tool
        right_responses = [
            response for response in candidates if _same_response(expected.response or {}, response)
        ]
        if right_responses and not self._fed_tools.isdisjoint(names):
            # evalgate's own response says nothing about the agent
            return _explained(Outcome.SKIPPED, Sentence("ces_own_response"))
        shown = right_responses or candidates
        return _explained(
            outcome_of(passed=bool(right_responses)),
            "" if right_responses else Sentence("ces_response", bool(candidates)),
            observed_tool_response=observed_response(shown[0], expected) if shown else None,
        )

    def _of_transfer(self, expected: AgentTransfer) -> JsonObject:
        agent_names = _agent_names(expected)
        transfers = self._new_agents()
        authors = [event.author for event in self._actual.steps]
        reached_agent = next((name for name in (*transfers, *authors) if name in agent_names), "")
        target = reached_agent or next(iter(transfers), "")
        return _explained(
            outcome_of(passed=bool(reached_agent)),
            "" if reached_agent else Sentence("ces_transfer", target),
            observed_agent_transfer=self._transfer_to(target) if target else None,
        )


def _agent_names(transfer: AgentTransfer | None) -> frozenset[str]:
    """The names under which an agent may know the target of a transfer."""
    if transfer is None:
        return frozenset()
    return frozenset({basename(transfer.target_agent), transfer.display_name} - {""})


SKIPPED: Json = {"outcome": Outcome.SKIPPED}
"""The fields of the outcome of an expectation that does not count."""


def _failed_action(note: str, **observed: Any) -> GoldenExpectationOutcome:
    """The outcome of an action that no expectation names."""
    expected = GoldenExpectation(note=note)
    return GoldenExpectationOutcome(expectation=expected, outcome=Outcome.FAIL, **observed)


def _explained(outcome: Outcome, reason: Wording, **observed: Proto | None) -> JsonObject:
    """The fields of an outcome whose reason has no field of its own."""
    result = ToolInvocationResult(outcome=outcome, explanation=str(reason)) if reason else None
    return {"outcome": outcome, "tool_invocation_result": result, **observed}


def _of_variables(expected: Json, state: Json | None) -> Json:
    if not expected:  # there is nothing to compare
        return SKIPPED
    if state is None:
        return _explained(UNKNOWN, Sentence("ces_variables_unrecorded"))
    differences = [
        _difference(name, value, state)
        for name, value in expected.items()
        if not compare.same(value, state.get(name, json_match.MISSING))
    ]
    return _explained(outcome_of(passed=not differences), "; ".join(differences))


def _difference(name: str, expected: object, actual: Json) -> str:
    actual_text = repr(actual[name]) if name in actual else ""
    return str(Sentence("ces_differs", name, repr(expected), actual_text))[:300]


def _same_response(expected_response: Json, actual: ActualResponse) -> bool:
    """True if two responses are equal, with or without a wrapper. The result is in `output` (tools
    of other frameworks use `{"result": ...}`), else it is the object itself."""
    expected, contents = (
        [content, *(content[key] for key in wrappers if set(content) == {key})]
        for content, wrappers in (
            (expected_response, ("output",)),
            (actual.response or {}, ("output", "result")),
        )
    )
    return any(itertools.starmap(compare.same, itertools.product(expected, contents)))


def as_observed(call: ActualCall, app: str, expected: ToolCall | None = None) -> ToolCall:
    """A call as CES writes it, under the name of the expected one if it matches one."""
    template = expected or ToolCall(tool=f"{app}/tools/{call.name}")
    return template.model_copy(update={"id": call.id or "", "args": dict(call.arguments)})


def observed_response(response: ActualResponse, expected: ToolCall | ToolResponse) -> ToolResponse:
    """A response as CES writes it, under the name of the tool that was expected."""
    content = dict(response.response or {})
    return ToolResponse(
        tool=expected.tool, toolset_tool=expected.toolset_tool, id=expected.id, response=content
    )


def _observed_message(texts: Sequence[str]) -> Message | None:
    """The agent's messages as CES writes them; None without messages."""
    chunks = tuple(Chunk(text=text) for text in texts)
    return Message(role="agent", chunks=chunks) if texts else None


def _hallucination(
    plan: Plan, number: int, invocation: Invocation, judge: Judge
) -> HallucinationResult | None:
    """The judge's verdict on a turn's claims, in an answer after calls of tools; None for a turn
    that is not checked for unsupported claims."""
    golden_turn = plan.turns[number] if number < len(plan.turns) else None
    is_assessed = plan.judges_hallucination(golden_turn)
    if not (is_assessed and calls_of(invocation) and messages_of(invocation)):
        return None
    question = JudgeQuestion(kind=QuestionKind.HALLUCINATION, turn=number, passes=NO_CLAIM_OR_YES)
    return HallucinationResult(**judge(question).fields(HALLUCINATION_LABELS))


def _expectation_results(plan: Plan, judge: Judge) -> tuple[EvaluationExpectationResult, ...]:
    return tuple(
        EvaluationExpectationResult(
            evaluation_expectation=name,
            prompt=plan.prompts.get(basename(name), ""),
            outcome=verdict.outcome(YES),
            explanation=verdict.explanation,
        )
        for number, name in enumerate(plan.conversation_expectations)
        for verdict in (judge(JudgeQuestion(kind=QuestionKind.NAMED, step=number)),)
    )


# --- scenarios ------------------------------------------------------------------------------------


def _scenario_result(
    plan: Plan, scenario: Scenario, actual: Sequence[Invocation], judge: Judge
) -> ScenarioResult:
    outcomes = (
        tuple(_scenario_outcomes(plan, scenario, actual, judge)) if plan.compares_scenario else ()
    )
    goal = NO_VERDICT
    if plan.judges_goal:
        passes = frozenset({plan.goal_score})
        goal = judge(
            JudgeQuestion(kind=QuestionKind.GOAL, expected=task_of(scenario), passes=passes)
        )
    claims = (
        _hallucination(plan, number, invocation, judge) for number, invocation in enumerate(actual)
    )
    ratings = tuple(filter(None, claims))
    kinds = {outcome.outcome for outcome in outcomes}
    satisfied = None
    if plan.compares_scenario and UNKNOWN not in kinds:
        satisfied = Outcome.FAIL not in kinds
    rating_scores = {rating.score for rating in ratings}
    completed = None
    if None not in (satisfied, goal.score, *rating_scores):
        completed = bool(satisfied) and 0 not in rating_scores and goal.score == 1
    return ScenarioResult(
        task=scenario.task,
        user_facts=scenario.user_facts,
        expectation_outcomes=outcomes,
        rubric_outcomes=tuple(
            ScenarioRubricOutcome(
                rubric=text,
                score=verdict.score,
                score_explanation=verdict.explanation,
            )
            for number, text in enumerate(scenario.rubrics)
            for verdict in (judge(JudgeQuestion(kind=QuestionKind.RUBRIC, step=number)),)
        ),
        hallucination_result=ratings,
        user_goal_satisfaction_result=None
        if goal is NO_VERDICT
        else UserGoalSatisfactionResult(**goal.fields(GOAL_LABELS)),
        all_expectations_satisfied=satisfied,
        # with all claims justified and the user's goal met; None if one of these is unknown
        task_completed=completed,
        evaluation_expectation_results=_expectation_results(plan, judge),
    )


def _scenario_outcomes(
    plan: Plan, scenario: Scenario, actual: Sequence[Invocation], judge: Judge
) -> Iterator[ScenarioExpectationOutcome]:
    messages = [text for invocation in actual for text in messages_of(invocation)]
    all_calls = [call for invocation in actual for call in calls_of(invocation)]
    expectations = dict(enumerate(scenario.scenario_expectations))
    pairs = _paired(plan, expectations, all_calls)
    responses: dict[str | None, ActualResponse] = {
        response.id: response
        for invocation in reversed(actual)
        for response in reversed(invocation.tool_responses)
        if response.id is not None
    }
    is_recorded = all(invocation.events is not None for invocation in actual)
    for step, expectation in expectations.items():
        expected_call, call = pairs.get(step, (None, None))
        fields: JsonObject = {"outcome": Outcome.FAIL if is_recorded else UNKNOWN}
        text = text_of(expectation.agent_response)
        if expected_call is None and text and messages:
            all_messages = "\n".join(messages)
            question = JudgeQuestion(
                kind=QuestionKind.SAID, step=step, expected=text, actual=all_messages
            )
            fields["outcome"] = judge(question).outcome(YES)
            fields["observed_agent_response"] = _observed_message(messages[-1:])
        elif expected_call is None:
            fields["outcome"] = Outcome.FAIL if text else Outcome.SKIPPED
        elif call is not None:
            template = expected_call.call
            answer = responses.get(call.id)
            fields["outcome"] = expected_call.result(call, judge, step=step).outcome
            fields["observed_tool_call"] = ObservedToolCall(
                tool_call=as_observed(call, plan.app, template),
                tool_response=None if answer is None else observed_response(answer, template),
            )
        yield ScenarioExpectationOutcome(expectation=expectation, **fields)


# --- checks and status ----------------------------------------------------------------------------


@frozen_dataclass
class Check:
    """One check of an evaluation and its outcome, for a criterion; `turn` counts from 1."""

    criterion: str
    subject: Wording
    outcome: Outcome
    turn: int | None = None
    explanation: str = ""


def checks(plan: Plan, result: GoldenResult | ScenarioResult) -> list[Check]:
    """All checks that count for the status of a result, including skipped ones."""
    of_turns = (
        _of_golden(plan, result) if isinstance(result, GoldenResult) else _of_scenario(plan, result)
    )
    of_conversation = (
        Check(
            criterion=NAMED,
            subject=expectation_result.prompt or expectation_result.evaluation_expectation,
            outcome=expectation_result.outcome,
            explanation=expectation_result.explanation,
        )
        for expectation_result in result.evaluation_expectation_results
    )
    return [*of_turns, *of_conversation]


def _of_golden(plan: Plan, result: GoldenResult) -> Iterator[Check]:
    for number, turn in enumerate(result.turn_replay_results, start=1):
        for expectation_outcome in turn.expectation_outcome:
            yield _of_expectation(plan, expectation_outcome, number)
        overall = turn.overall_tool_invocation_result
        if overall is not None and overall.outcome is not Outcome.SKIPPED:
            yield Check(
                criterion=EXPECTATIONS,
                subject=Sentence("ces_tool_share"),
                outcome=overall.outcome,
                turn=number,
                explanation=f"{overall.tool_invocation_score or 0.0:g}",
            )
        if (
            plan.judges_hallucination(plan.turns[number - 1])
            and turn.hallucination_result is not None
        ):
            yield _of_hallucination(turn.hallucination_result, number)


def _of_hallucination(result: HallucinationResult, turn: int) -> Check:
    return Check(
        criterion=HALLUCINATION,
        subject=result.label or Sentence("ces_claims"),
        outcome=Verdict(score=result.score).outcome(NO_CLAIM_OR_YES),
        turn=turn,
        explanation=result.explanation,
    )


def _of_expectation(plan: Plan, expectation_outcome: GoldenExpectationOutcome, turn: int) -> Check:
    expected = expectation_outcome.expectation or GoldenExpectation()
    similarity = expectation_outcome.semantic_similarity_result
    call_result = expectation_outcome.tool_invocation_result
    explanation = call_result.explanation if call_result else ""
    if similarity:
        explanation = similarity.explanation or explanation
    if expected.note in UNEXPECTED:
        observed = getattr(expectation_outcome, shapes.present_field(expectation_outcome), None)
        is_message = isinstance(observed, Message)
        explanation = text_of(observed)[:300] if is_message else _summary(observed)
    is_judged = similarity is not None or _is_judged(
        plan.expected_call(expected), expectation_outcome.observed_tool_call
    )
    return Check(
        criterion=SIMILARITY if is_judged else EXPECTATIONS,
        subject=described(expected),
        outcome=expectation_outcome.outcome,
        turn=turn,
        explanation=explanation,
    )


def _of_scenario(plan: Plan, result: ScenarioResult) -> Iterator[Check]:
    for expectation_outcome in result.expectation_outcomes:
        expectation = expectation_outcome.expectation or ScenarioExpectation()
        expected_call = plan.expected_call(expectation)
        observed = expectation_outcome.observed_tool_call
        field = "agent_response" if expected_call is None else "tool_call"
        action = expectation.agent_response if expected_call is None else expected_call.call
        is_judged = expected_call is None or _is_judged(
            expected_call, observed.tool_call if observed else None
        )
        yield Check(
            criterion=SIMILARITY if is_judged else EXPECTATIONS,
            subject=Sentence("ces_expected", field, _summary(action)),
            outcome=expectation_outcome.outcome,
        )
    if plan.judges_hallucination(None):
        for number, rating in enumerate(result.hallucination_result, start=1):
            yield _of_hallucination(rating, number)
    if plan.judges_goal:
        goal = result.user_goal_satisfaction_result
        score = goal.score if goal else None
        yield Check(
            criterion=GOAL,
            subject=Sentence("ces_goal", bool(plan.goal_score)),
            outcome=Verdict(score=score).outcome({plan.goal_score}),
            explanation=f"{goal.label}: {goal.explanation}" if goal else "",
        )


def _is_judged(expected: ExpectedCall | None, observed: ToolCall | None) -> bool:
    """True if a judge decides whether a call is as expected."""
    return bool(expected and observed and expected.is_judged(observed.args))


def described(expected: GoldenExpectation) -> str:
    """The expectation in words: its note, or a short description."""
    field = shapes.present_field(expected)
    return expected.note or str(
        Sentence("ces_expected", field, _summary(getattr(expected, field, None)))
    )


def _summary(action: object) -> str:
    """The tool, the words, the agent or the variables of an action."""
    match action:
        case ToolCall() | ToolResponse():
            return min(names_of(action), key=len)
        case Message():
            return repr(text_of(action)[:200])
        case AgentTransfer(target_agent=agent):
            return basename(agent)
        case Mapping():
            return ", ".join(action)
    return ""


def status(checks: Iterable[Check]) -> Outcome | None:
    """PASS if all decisive checks are met, FAIL if one is not, SKIPPED if there are none.

    None if a check is unknown: the execution state is then ERROR (METRIC_CALCULATION_FAILURE)."""
    outcomes = {check.outcome for check in checks}
    decisive = (outcome for outcome in (UNKNOWN, Outcome.FAIL, Outcome.PASS) if outcome in outcomes)
    return next(decisive, Outcome.SKIPPED) or None
