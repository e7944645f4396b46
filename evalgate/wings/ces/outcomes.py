"""Outcomes of an evaluation by turn and expectation, in the form of EvaluationResult.

This module is pure: the judge's verdicts are arguments, and `questions` lists the questions for the
judge. An undecided expectation has no outcome (OUTCOME_UNSPECIFIED); a result with one has no
status and counts as an error, never as a pass."""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final, Self, TypeAlias, TypeVar

from evalgate.model import (
    Invocation,
    Text,
    ToolCall as ActualCall,
    ToolResponse as ActualResponse,
    json_match,
)
from evalgate.model.json_match import Matcher
from evalgate.values import Json, JsonObject, Sentence, Wording, frozen_dataclass
from evalgate.wings.ces import compare, read, shapes
from evalgate.wings.ces.cxas import TRANSFER
from evalgate.wings.ces.shapes import (
    AgentTransfer,
    Chunk,
    ComparisonType,
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
    Scenario,
    ScenarioExpectation,
    ScenarioExpectationOutcome,
    ScenarioResult,
    ScenarioRubricOutcome,
    SemanticSimilarityResult,
    ToolCall,
    ToolInvocationResult,
    ToolResponse,
    TurnLevelMetricsThresholds,
    TurnReplayResult,
    UserGoalBehavior,
    UserGoalSatisfactionResult,
)

SIMILARITY_LABELS: Final = {
    0: "Completely Inconsistent / Contradictory",
    1: "Largely Inconsistent (Major Omissions)",
    2: "Partially Consistent (Minor Omissions)",
    3: "Mostly Consistent",
    4: "Fully Consistent",
}
HALLUCINATION_LABELS: Final = {1: "Justified", 0: "Not Justified", -1: "No Claim To Assess"}
GOAL_LABELS: Final = {
    1: "User Task Satisfied",
    0: "User Task Not Satisfied",
    -1: "User Task Unspecified",
}

UNEXPECTED_RESPONSE: Final = "UNEXPECTED RESPONSE"
UNEXPECTED_CALL: Final = "UNEXPECTED TOOL CALL"
UNEXPECTED_TRANSFER: Final = "UNEXPECTED AGENT TRANSFER"
UNKNOWN: Final = Outcome.OUTCOME_UNSPECIFIED
BY_MEANING: Final = ComparisonType.COMPARISON_TYPE_UNSPECIFIED
LITERAL: Final = (ComparisonType.EQUALS, ComparisonType.CONTAINS)
T = TypeVar("T")
DEFAULT_SIMILARITY: Final = 3


def outcome_of(*, passed: bool | None) -> Outcome:
    """PASS or FAIL; `passed` None: unknown."""
    return UNKNOWN if passed is None else Outcome.PASS if passed else Outcome.FAIL


def _nearest(candidates: Iterable[T | None], default: T) -> T:
    return next((candidate for candidate in candidates if candidate is not None), default)


# --- the settings that apply ----------------------------------------------------------------------


@frozen_dataclass
class Plan:
    """An evaluation with the app's thresholds and switches. `prompts`: the texts of expectations by
    the last part of their name. `goals`: the ordered goals of a simulation for `cxas`."""

    evaluation: Evaluation
    thresholds: EvaluationMetricsThresholds = field(default_factory=EvaluationMetricsThresholds)
    config: EvaluationMetricsConfig = field(default_factory=EvaluationMetricsConfig)
    prompts: Mapping[str, str] = field(default_factory=dict)
    goals: tuple[str, ...] = ()

    def json(self) -> JsonObject:
        """The plan in the form of `Case.ces`."""
        return {
            "evaluation": self.evaluation.json(),
            "thresholds": self.thresholds.json(),
            "config": self.config.json(),
            "prompts": dict(self.prompts),
            "goals": list(self.goals),
        }

    @classmethod
    def read(cls, raw: Json) -> Self:
        """The plan of `Case.ces`."""
        return cls(
            evaluation=Evaluation.model_validate(raw["evaluation"]),
            thresholds=EvaluationMetricsThresholds.model_validate(raw["thresholds"]),
            config=EvaluationMetricsConfig.model_validate(raw["config"]),
            prompts=dict(raw["prompts"]),
            goals=tuple(raw["goals"]),
        )

    @property
    def app(self) -> str:
        """The app that it belongs to."""
        head, mark, _ = self.evaluation.name.partition("/evaluations/")
        return head if mark else read.LOCAL_APP

    @property
    def turns(self) -> tuple[GoldenTurn, ...]:
        """The turns of a golden; empty for a scenario."""
        return self.evaluation.golden.turns if self.evaluation.golden else ()

    @property
    def conversation_expectations(self) -> tuple[str, ...]:
        """The names of the expectations that a judge checks in the whole conversation."""
        inputs = self.evaluation.golden or self.evaluation.scenario
        return inputs.evaluation_expectations if inputs else ()

    def _levels(self) -> Iterator[EvaluationMetricsThresholds]:
        """The evaluation's own thresholds, then the app's."""
        override = self.evaluation.evaluation_metrics_threshold_override
        yield from (level for level in (override, self.thresholds) if level is not None)

    def _golden_levels(self) -> Iterator[GoldenEvaluationMetricsThresholds]:
        yield from (
            thresholds
            for level in self._levels()
            if (thresholds := level.golden_evaluation_metrics_thresholds)
        )

    def _turn_levels(self, turn: GoldenTurn | None) -> Iterator[TurnLevelMetricsThresholds]:
        if turn is not None and turn.turn_level_metrics_thresholds_override is not None:
            yield turn.turn_level_metrics_thresholds_override
        yield from (
            thresholds
            for level in self._golden_levels()
            if (thresholds := level.turn_level_metrics_thresholds)
        )

    def similarity(self, turn: GoldenTurn | None) -> int:
        """The lowest similarity that passes: that of the turn, the evaluation, the app, or the
        default."""
        return _nearest(
            (level.semantic_similarity_success_threshold for level in self._turn_levels(turn)),
            DEFAULT_SIMILARITY,
        )

    def invocation(self, turn: GoldenTurn | None) -> float:
        """The share of a turn's expected tools that the agent has to call."""
        return _nearest(
            (
                level.overall_tool_invocation_correctness_threshold
                for level in self._turn_levels(turn)
            ),
            1.0,
        )

    def parameters(self, expected: GoldenExpectation | None) -> float:
        """The share of an expected call's parameters that have to match."""
        override = expected.expectation_level_metrics_thresholds_override if expected else None
        levels = [
            override,
            *(level.expectation_level_metrics_thresholds for level in self._golden_levels()),
        ]
        return _nearest(
            (level.tool_invocation_parameter_correctness_threshold for level in levels if level),
            1.0,
        )

    @property
    def allows_extra_calls(self) -> bool:
        """True if unexpected calls are tolerated."""
        settings = (level.tool_matching_settings for level in self._golden_levels())
        behaviors = (
            setting.extra_tool_call_behavior for setting in settings if setting is not None
        )
        return next(filter(None, behaviors), None) is ExtraToolCallBehavior.ALLOW

    def assesses_hallucination(self, turn: GoldenTurn | None) -> bool:
        """True if unsupported claims count; unspecified means disabled."""
        overrides = [
            override.enable_hallucination_metrics
            for step in (turn.steps if turn else ())
            if step.expectation
            and (override := step.expectation.agent_response_hallucination_metrics_config_override)
            is not None
        ]
        if overrides:
            return any(overrides)
        behaviors = [turn.hallucination_metric_behavior_override] if turn else []
        for level in self._levels():
            if self.evaluation.scenario is not None:
                behaviors.append(level.scenario_hallucination_metric_behavior)
            else:
                behaviors += [
                    level.golden_hallucination_metric_behavior,
                    level.hallucination_metric_behavior,
                ]
        return next(filter(None, behaviors), None) is HallucinationMetricBehavior.ENABLED

    def _is_on(self, group: str, name: str, *, of: str = "") -> bool:
        """True if a metric is enabled, by the evaluation, the app, or the default. `of`: the
        metric's name in its switch, if that differs."""
        for config in (self.evaluation.evaluation_metrics_config_override, self.config):
            group_config = (
                getattr(config, f"{group}_metrics_config") if config is not None else None
            )
            metric_config = (
                getattr(group_config, f"{name}_metrics_config")
                if group_config is not None
                else None
            )
            if metric_config is not None:
                return bool(getattr(metric_config, f"enable_{of or name}_metrics"))
        return True

    def compares_answers(self, expected: GoldenExpectation) -> bool:
        """True if a judge compares the meaning of an expected answer."""
        override = expected.agent_response_semantic_similarity_metrics_config_override
        return (
            self._is_on("golden", "semantic_similarity")
            if override is None
            else override.enable_semantic_similarity_metrics
        )

    def judges_answer(self, expected: GoldenExpectation) -> bool:
        """True if an expected answer has words for a judge to compare."""
        has_words = expected.agent_response is not None and bool(text_of(expected.agent_response))
        return (
            has_words
            and expected.comparison_type not in LITERAL
            and self.compares_answers(expected)
        )

    def compares_tools(self, *, of_step: bool) -> bool:
        """True if tool calls count: each of them (`of_step`), or a turn's calls together."""
        return self._is_on(
            "golden", f"{'step_' if of_step else ''}tool_correctness", of="tool_correctness"
        )

    @property
    def judges_goal(self) -> bool:
        """True if the goal of the simulated user counts."""
        is_on = self._is_on("scenario", "user_goal_met")
        return is_on and not self.goals and self.goal is not UserGoalBehavior.USER_GOAL_IGNORED

    @property
    def compares_scenario(self) -> bool:
        """True if the expectations of a scenario count."""
        return self._is_on("scenario", "expectations_met")

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


class Kind(enum.StrEnum):
    """The subject of a question for a judge."""

    ANSWER = "answer"  # an expected answer, 0 to 4
    SAID = "said"  # an answer that a scenario expects anywhere, 0 or 1
    ARGUMENT = "argument"  # an argument of a call, 0 or 1
    HALLUCINATION = "hallucination"  # a turn, -1, 0 or 1
    GOAL = "goal"  # the whole conversation, -1, 0 or 1


@frozen_dataclass
class JudgeQuestion:
    """A question to a judge. `turn` and `step` count from 0; -1 is the whole conversation.
    `passes`: the scores that pass."""

    kind: Kind
    turn: int = -1
    step: int = -1
    argument: str = ""
    expected: str = ""
    actual: str = ""
    passes: frozenset[int] = frozenset({1})

    @property
    def key(self) -> Key:
        """The key of its verdict."""
        return self.kind, self.turn, self.step, self.argument


@frozen_dataclass
class Verdict:
    """A judge's verdict. `score` is None if the judge was not asked or its reply could not be
    used."""

    score: int | None = None
    explanation: str = ""

    def outcome(self, passes: Container[int]) -> Outcome:
        """PASS if the score is one of these."""
        return outcome_of(passed=None if self.score is None else self.score in passes)

    def rated(self, labels: Mapping[int, str]) -> JsonObject:
        """The fields that results of judges have in common."""
        label = "" if self.score is None else labels[self.score]
        return {"score": self.score, "label": label, "explanation": self.explanation}


Key: TypeAlias = tuple[str, int, int, str]
Verdicts: TypeAlias = Mapping[Key, Verdict]
"""Verdicts by `JudgeQuestion.key`; an absent key means that the judge was not asked."""
NAMED = "named"
RUBRICS = "rubrics"


def _verdict(
    verdicts: Verdicts, kind: str, turn: int = -1, step: int = -1, argument: str = ""
) -> Verdict:
    return verdicts.get((kind, turn, step, argument)) or Verdict()


def questions(plan: Plan, actual: Sequence[Invocation]) -> list[JudgeQuestion]:
    """All questions that only a judge can decide, in the order of the turns."""
    judge_questions: list[JudgeQuestion] = []
    for number, (turn, invocation) in enumerate(zip(plan.turns, actual, strict=False)):
        judge_questions += _Turn(plan, turn, invocation, number).questions()
    scenario = plan.evaluation.scenario
    if scenario is not None:
        judge_questions += _scenario_questions(plan, scenario, actual)
    for number, invocation in enumerate(actual):
        if _makes_claims(plan, number, invocation):
            judge_questions.append(
                JudgeQuestion(kind=Kind.HALLUCINATION, turn=number, passes=frozenset({1, -1}))
            )
    return judge_questions


def _makes_claims(plan: Plan, number: int, invocation: Invocation) -> bool:
    """True if a turn is checked for unsupported claims: an answer after calls of tools."""
    golden_turn = plan.turns[number] if number < len(plan.turns) else None
    return plan.assesses_hallucination(golden_turn) and bool(
        calls_of(invocation) and messages_of(invocation)
    )


def _scenario_questions(
    plan: Plan, scenario: Scenario, actual: Sequence[Invocation]
) -> Iterator[JudgeQuestion]:
    messages = [text for invocation in actual for text in messages_of(invocation)]
    calls = _scenario_calls(scenario, actual)
    for step, expectation in enumerate(
        scenario.scenario_expectations if plan.compares_scenario else ()
    ):
        text = text_of(expectation.agent_response)
        call = call_in(expectation)
        if text and messages:
            yield JudgeQuestion(
                kind=Kind.SAID, step=step, expected=text, actual="\n".join(messages)
            )
        elif call is not None:
            least = plan.parameters(None)
            yield from _argument_questions(call, calls.get(step), BY_MEANING, least, step=step)
    if plan.judges_goal:
        yield JudgeQuestion(
            kind=Kind.GOAL, expected=task_of(scenario), passes=frozenset({plan.goal_score})
        )


def _argument_questions(
    call: ToolCall,
    actual: ActualCall | None,
    comparison: ComparisonType,
    least: float,
    *,
    turn: int = -1,
    step: int,
) -> Iterator[JudgeQuestion]:
    arguments = {} if actual is None else _arguments(call, actual.args, comparison)
    if actual is None or not _is_open(arguments, least):
        return
    actual_args: Json = actual.args or {}
    for name, is_met in arguments.items():
        if is_met is None:
            expected_text = _expected_text(call, name)
            yield JudgeQuestion(
                kind=Kind.ARGUMENT,
                turn=turn,
                step=step,
                argument=name,
                expected=expected_text,
                actual=str(actual_args.get(name)),
            )


# --- the agent's actions --------------------------------------------------------------------------


def calls_of(invocation: Invocation) -> list[ActualCall]:
    """The calls of a turn, except transfers to another agent."""
    return [call for call in invocation.tool_calls if call.name != TRANSFER]


def messages_of(invocation: Invocation) -> list[str]:
    """The agent's messages to the user in a turn, in order, the final answer last."""
    contents = [
        event.content for event in invocation.events or () if event.author.lower() != "user"
    ]
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


def call_in(expected: ScenarioExpectation) -> ToolCall | None:
    """The call that a scenario expects."""
    return expected.tool_expectation.expected_tool_call if expected.tool_expectation else None


def task_of(scenario: Scenario) -> str:
    """The task and the facts of a scenario's user."""
    facts = "".join(f"\n- {fact.name}: {fact.value}" for fact in scenario.user_facts)
    return scenario.task + (f"\n\nWhat the user knows:{facts}" if facts else "")


def names_of(tool: ToolCall | ToolResponse) -> frozenset[str]:
    """The names under which an agent may have a tool: its id, its display name, and for a tool of a
    toolset the name with the toolset before it."""
    names = {tool.display_name} if tool.display_name else set()
    if tool.toolset_tool is None:
        return frozenset({*names, (tool.tool or "").rpartition("/")[2]})
    toolset = tool.toolset_tool.toolset.rpartition("/")[2]
    name = tool.toolset_tool.tool_id
    if not name:
        return frozenset({*names, toolset})
    return frozenset({*names, name, *(f"{toolset}{mark}{name}" for mark in ("_", ".", "/", "__"))})


_MATCH_TYPES: Final = {ComparisonType.EQUALS: "", ComparisonType.CONTAINS: "contains"}
"""The comparison of a text: by meaning unless the expectation names another one."""


def _argument(expected: Any, actual: Any, comparison: ComparisonType) -> bool | None:  # noqa: PLR0911 - a row each
    """True if an argument is as expected; None if a judge has to decide."""
    match = ""
    original = expected
    if isinstance(expected, Mapping) and "$matchType" in expected:
        match = str(expected["$matchType"])
        original = expected.get("$originalValue")
        if match == "ignore":
            return True
    elif isinstance(expected, str):
        match = _MATCH_TYPES.get(comparison, "semantic")
    if actual is json_match.MISSING:
        return False
    if match == "contains":
        return str(original) in str(actual)
    if match == "regexp":
        try:
            return json_match.holds(Matcher(regex=str(original)), str(actual), original)
        except ValueError:  # not a regular expression: `validate` warns of it
            return False
    if compare.same(original, actual):
        return True
    return None if match == "semantic" else False


def _arguments(
    call: ToolCall, args: Json | None, comparison: ComparisonType
) -> dict[str, bool | None]:
    actual_args: Json = args or {}
    return {
        name: _argument(value, actual_args.get(name, json_match.MISSING), comparison)
        for name, value in (call.args or {}).items()
    }


def _is_open(arguments: Mapping[str, bool | None], least: float) -> bool:
    """True if only a judge can tell whether enough parameters are as expected."""
    certain_count = sum(match is True for match in arguments.values())
    possible_count = sum(match is not False for match in arguments.values())
    return certain_count < least * len(arguments) <= possible_count


def _expected_text(call: ToolCall, name: str) -> str:
    argument: Any = (call.args or {})[name]
    return str(argument.get("$originalValue") if isinstance(argument, Mapping) else argument)


def _likeness(
    call: ToolCall, actual: ActualCall, comparison: ComparisonType
) -> tuple[float, int, int]:
    """The share and the number of a call's parameters that match, and the number of those that
    match without a judge. Parameters for a judge count as matches."""
    matches = list(_arguments(call, actual.args, comparison).values())
    met_count = sum(match is not False for match in matches)
    return (met_count / len(matches) if matches else 1.0), met_count, matches.count(True)


def _paired(
    expected: Sequence[tuple[int, ToolCall, ComparisonType]], calls: Sequence[ActualCall]
) -> dict[int, ActualCall]:
    """The actual call for each expected one, by step. The most similar calls are paired first, and
    no call twice."""
    pairs = sorted(
        (
            (*_likeness(call, actual, comparison), -place, -number, step)
            for place, (step, call, comparison) in enumerate(expected)
            for number, actual in enumerate(calls)
            if actual.name in names_of(call)
        ),
        key=lambda pair: (pair[1], pair[0], *pair[2:5]),
        reverse=True,
    )
    calls_by_step: dict[int, ActualCall] = {}
    used_numbers: set[int] = set()
    for *_, number, step in pairs:
        if step not in calls_by_step and number not in used_numbers:
            calls_by_step[step] = calls[-number]
            used_numbers.add(number)
    return calls_by_step


def _scenario_calls(scenario: Scenario, actual: Sequence[Invocation]) -> dict[int, ActualCall]:
    """The actual call for each expected call of a scenario, by step: two equal ones need two
    calls."""
    expected = [
        (step, call, BY_MEANING)
        for step, expectation in enumerate(scenario.scenario_expectations)
        if (call := call_in(expectation)) is not None
    ]
    return _paired(expected, [call for invocation in actual for call in calls_of(invocation)])


def _in_order(expected: Sequence[frozenset[str]], actual: Sequence[str]) -> float:
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
        fed_tools: frozenset[str] = frozenset(),
    ) -> None:
        self._plan = plan
        self._fed_tools = fed_tools
        self._turn = turn
        self._actual = invocation
        self._number = number
        self._steps = [
            (step, golden_step.expectation)
            for step, golden_step in enumerate(turn.steps)
            if golden_step.expectation
        ]
        self._calls = calls_of(invocation)
        expected = [
            (step, expectation.tool_call, expectation.comparison_type)
            for step, expectation in self._steps
            if expectation.tool_call
        ]
        self._calls_by_step = _paired(expected, self._calls)
        self._messages = messages_of(invocation)
        self._answers = [
            step for step, expectation in self._steps if expectation.agent_response is not None
        ]
        self._similar = range(plan.similarity(turn), len(SIMILARITY_LABELS))

    def _messages_at(self, step: int) -> tuple[str, ...]:
        """The messages for an expected answer. The last expected answer gets all remaining
        messages: an agent may need several."""
        place = self._answers.index(step)
        is_last = place == len(self._answers) - 1
        return tuple(self._messages[place:] if is_last else self._messages[place : place + 1])

    def questions(self) -> Iterator[JudgeQuestion]:
        """The questions of the turn that only a judge can decide."""
        for step, expectation in self._steps:
            if expectation.skip_evaluation:
                continue
            if self._plan.judges_answer(expectation) and (messages := self._messages_at(step)):
                yield JudgeQuestion(
                    kind=Kind.ANSWER,
                    turn=self._number,
                    step=step,
                    expected=text_of(expectation.agent_response),
                    actual="\n".join(messages),
                    passes=frozenset(self._similar),
                )
            elif expectation.tool_call is not None and self._plan.compares_tools(of_step=True):
                yield from _argument_questions(
                    expectation.tool_call,
                    self._calls_by_step.get(step),
                    expectation.comparison_type,
                    self._plan.parameters(expectation),
                    turn=self._number,
                    step=step,
                )

    def result(self, verdicts: Verdicts, *, state: Json | None) -> TurnReplayResult:
        """The outcomes of the turn; `state`: the session's state at its end."""
        outcomes = [
            self._scored(step, expectation, verdicts, state) for step, expectation in self._steps
        ]
        if not self._answers and self._messages:
            message = Message(
                role="agent", chunks=tuple(Chunk(text=text) for text in self._messages)
            )
            expected = GoldenExpectation(note=UNEXPECTED_RESPONSE)
            outcomes.append(_outcome(expected, Outcome.FAIL, observed_agent_response=message))
        overall, order_score = self._overall()
        if overall is not None and not self._plan.allows_extra_calls:
            outcomes += self._unexpected()
        similarities = [
            outcome.semantic_similarity_result
            for outcome in outcomes
            if outcome.semantic_similarity_result
        ]
        is_known = all(similarity.score is not None for similarity in similarities)
        return TurnReplayResult(
            expectation_outcome=tuple(outcomes),
            hallucination_result=_claims(self._plan, self._number, self._actual, verdicts),
            # the turn is as consistent as its least consistent answer
            semantic_similarity_result=min(
                similarities, key=lambda similarity: similarity.score or 0, default=None
            )
            if is_known
            else None,
            overall_tool_invocation_result=overall,
            tool_ordered_invocation_score=order_score,
        )

    def _unexpected(self) -> Iterator[GoldenExpectationOutcome]:
        """Calls that match no expected one, and transfers to agents that no expectation names."""
        paired_ids = {id(call) for call in self._calls_by_step.values()}
        expected = GoldenExpectation(note=UNEXPECTED_CALL)
        for call in self._calls:
            if id(call) not in paired_ids:
                yield _outcome(expected, Outcome.FAIL, observed_tool_call=self._observed(call))
        expected_names: set[str] = set()
        for step in self._turn.steps:
            expectation = step.expectation or GoldenExpectation()
            expected_names |= _agent_names(step.agent_transfer or expectation.agent_transfer)
        expected = GoldenExpectation(note=UNEXPECTED_TRANSFER)
        for name in self._transfers():
            if name not in expected_names:
                observed = self._transfer_to(name)
                yield _outcome(expected, Outcome.FAIL, observed_agent_transfer=observed)

    def _transfers(self) -> list[str]:
        """The agents that take over the conversation by a call, in order."""
        calls = (call.args or {} for call in self._actual.tool_calls if call.name == TRANSFER)
        return [str(args.get("agent_name") or args.get("agent") or "") for args in calls]

    def _transfer_to(self, name: str) -> AgentTransfer:
        return AgentTransfer(target_agent=f"{self._plan.app}/agents/{name}")

    def _overall(self) -> tuple[OverallToolInvocationResult | None, float | None]:
        """The share of expected tools that were called, and the share of those in order; None if
        that does not count."""
        if not self._plan.compares_tools(of_step=False) or self._actual.events is None:
            return None, None
        expected_calls = [
            (step, expectation.tool_call)
            for step, expectation in self._steps
            if expectation.tool_call and not expectation.skip_evaluation
        ]
        if not expected_calls:
            return OverallToolInvocationResult(outcome=Outcome.SKIPPED), None
        score = sum(step in self._calls_by_step for step, _ in expected_calls) / len(expected_calls)
        passed = score >= self._plan.invocation(self._turn)
        order_score = _in_order(
            [names_of(call) for _, call in expected_calls], [call.name for call in self._calls]
        )
        return OverallToolInvocationResult(
            tool_invocation_score=score, outcome=outcome_of(passed=passed)
        ), order_score

    def _observed(self, call: ActualCall, expected: ToolCall | None = None) -> ToolCall:
        return observed_call(call, app=self._plan.app, expected=expected)

    def _scored(  # noqa: PLR0911 - a row each
        self, step: int, expected: GoldenExpectation, verdicts: Verdicts, state: Json | None
    ) -> GoldenExpectationOutcome:
        if expected.skip_evaluation or expected.mock_tool_response is not None:
            return _outcome(expected, Outcome.SKIPPED)
        if expected.agent_response is not None:
            return self._of_answer(step, expected, expected.agent_response, verdicts)
        if expected.updated_variables is not None:
            return _of_variables(expected, expected.updated_variables, state)
        if expected.agent_transfer is not None:
            return self._of_transfer(expected, expected.agent_transfer)
        if not self._plan.compares_tools(of_step=True):
            return _outcome(expected, Outcome.SKIPPED)
        if self._actual.events is None:
            return _explained(expected, passed=None, reason=Sentence("ces_steps_unrecorded"))
        if expected.tool_call is not None:
            return self._of_call(step, expected, expected.tool_call, verdicts)
        if expected.tool_response is not None:
            return self._of_response(expected, expected.tool_response)
        return _explained(
            expected,
            passed=not self._calls,
            reason=Sentence("ces_called", self._calls),
            observed_tool_call=self._observed(self._calls[0]) if self._calls else None,
        )

    def _of_answer(
        self, step: int, expected: GoldenExpectation, expected_message: Message, verdicts: Verdicts
    ) -> GoldenExpectationOutcome:
        messages = self._messages_at(step)
        text = text_of(expected_message)
        observed = (
            Message(role="agent", chunks=tuple(Chunk(text=message) for message in messages))
            if messages
            else None
        )
        outcome, result = (
            Outcome.SKIPPED,
            None,
        )  # a payload or an image has no text
        if text and expected.comparison_type in LITERAL:
            answer = messages[-1] if messages else ""  # only the last one is the answer
            is_equal = text.strip() == answer.strip()
            outcome = outcome_of(
                passed=is_equal
                if expected.comparison_type is ComparisonType.EQUALS
                else text in answer
            )
        elif self._plan.judges_answer(expected):
            silent_verdict = Verdict(score=0, explanation=str(Sentence("ces_silent")))
            verdict = (
                _verdict(verdicts, Kind.ANSWER, self._number, step) if messages else silent_verdict
            )
            outcome = verdict.outcome(self._similar)
            result = SemanticSimilarityResult(**verdict.rated(SIMILARITY_LABELS), outcome=outcome)
        return _outcome(
            expected, outcome, semantic_similarity_result=result, observed_agent_response=observed
        )

    def _of_call(
        self, step: int, expected: GoldenExpectation, expected_call: ToolCall, verdicts: Verdicts
    ) -> GoldenExpectationOutcome:
        call = self._calls_by_step.get(step)
        if call is None:
            reason = str(Sentence("ces_not_called"))
            result = ToolInvocationResult(
                parameter_correctness_score=0.0, outcome=Outcome.FAIL, explanation=reason
            )
            return _outcome(expected, Outcome.FAIL, tool_invocation_result=result)
        verdict_of = partial(_verdict, verdicts, Kind.ARGUMENT, self._number, step)
        least = self._plan.parameters(expected)
        result = _parameters(
            expected_call,
            call,
            comparison=expected.comparison_type,
            verdict_of=verdict_of,
            least=least,
        )
        observed = self._observed(call, expected_call)
        return _outcome(
            expected, result.outcome, tool_invocation_result=result, observed_tool_call=observed
        )

    def _of_response(
        self, expected: GoldenExpectation, expected_response: ToolResponse
    ) -> GoldenExpectationOutcome:
        """The response to the call with the same id in the file, otherwise to any call of the
        tool."""
        by_id = [
            self._calls_by_step[step].id
            for step, expectation in self._steps
            if expectation.tool_call
            and expected_response.id
            and expectation.tool_call.id == expected_response.id
            and step in self._calls_by_step
        ]
        tool_responses = [
            response
            for response in self._actual.tool_responses
            if response.name in names_of(expected_response)
        ]
        candidates = [
            response
            for response in tool_responses
            if response.id is not None and response.id in by_id
        ] or tool_responses
        right_responses = [
            response
            for response in candidates
            if _same_response(expected_response.response or {}, response)
        ]
        if right_responses and not self._fed_tools.isdisjoint(names_of(expected_response)):
            # evalgate's own response says nothing about the agent
            skipped = ToolInvocationResult(
                outcome=Outcome.SKIPPED, explanation=str(Sentence("ces_own_response"))
            )
            return _outcome(expected, Outcome.SKIPPED, tool_invocation_result=skipped)
        best_response = next(iter(right_responses or candidates), None)
        observed = (
            None if best_response is None else observed_response(best_response, expected_response)
        )
        reason = "" if right_responses else Sentence("ces_response", bool(candidates))
        return _explained(
            expected, passed=bool(right_responses), reason=reason, observed_tool_response=observed
        )

    def _of_transfer(
        self, expected: GoldenExpectation, expected_transfer: AgentTransfer
    ) -> GoldenExpectationOutcome:
        if self._actual.events is None:
            return _explained(expected, passed=None, reason=Sentence("ces_steps_unrecorded"))
        agent_names = _agent_names(expected_transfer)
        transfers = self._transfers()
        authors = [event.author for event in self._actual.events]
        reached_agent = next((name for name in (*transfers, *authors) if name in agent_names), "")
        target = reached_agent or next(iter(transfers), "")
        observed = self._transfer_to(target) if target else None
        reason = "" if reached_agent else Sentence("ces_transfer", target)
        return _explained(
            expected, passed=bool(reached_agent), reason=reason, observed_agent_transfer=observed
        )


def _agent_names(transfer: AgentTransfer | None) -> frozenset[str]:
    """The names under which an agent may know the target of a transfer."""
    if transfer is None:
        return frozenset()
    return frozenset({transfer.target_agent.rpartition("/")[2], transfer.display_name} - {""})


def _outcome(
    expected: GoldenExpectation, outcome: Outcome, **more: Any
) -> GoldenExpectationOutcome:
    return GoldenExpectationOutcome(expectation=expected, outcome=outcome, **more)


def _explained(
    expected: GoldenExpectation, *, passed: bool | None, reason: Wording, **observed: Any
) -> GoldenExpectationOutcome:
    """An outcome whose reason has no field of its own; `passed` None: unknown."""
    outcome = outcome_of(passed=passed)
    invocation_result = (
        ToolInvocationResult(outcome=outcome, explanation=str(reason)) if reason else None
    )
    return _outcome(expected, outcome, tool_invocation_result=invocation_result, **observed)


def _of_variables(
    expected: GoldenExpectation, expected_variables: Json, state: Json | None
) -> GoldenExpectationOutcome:
    if not expected_variables:  # there is nothing to compare
        return _outcome(expected, Outcome.SKIPPED)
    if state is None:
        return _explained(expected, passed=None, reason=Sentence("ces_variables_unrecorded"))
    wrong_names = [
        name
        for name, value in expected_variables.items()
        if not compare.same(value, state.get(name, json_match.MISSING))
    ]
    differences = (_difference(name, expected_variables[name], state) for name in wrong_names)
    return _explained(expected, passed=not wrong_names, reason="; ".join(differences))


def _difference(name: str, expected: object, actual: Json) -> str:
    actual_text = repr(actual[name]) if name in actual else ""
    return str(Sentence("ces_differs", name, repr(expected), actual_text))[:300]


def _same_response(expected_response: Json, actual: ActualResponse) -> bool:
    """True if two responses are equal, with or without a wrapper. The result is in `output` (tools
    of other frameworks use `{"result": ...}`), else it is the object itself."""
    content = dict(actual.response or {})
    contents = [content]
    contents += [content[key] for key in ("output", "result") if set(content) == {key}]
    expected = [
        expected_response,
        *([expected_response["output"]] if set(expected_response) == {"output"} else []),
    ]
    return any(
        compare.same(expected_content, actual_content)
        for expected_content in expected
        for actual_content in contents
    )


def observed_call(call: ActualCall, *, app: str, expected: ToolCall | None = None) -> ToolCall:
    """A call as CES writes it, under the name of the expected one if it matches one."""
    template = expected or ToolCall(tool=f"{app}/tools/{call.name}")
    return ToolCall(
        tool=template.tool,
        toolset_tool=template.toolset_tool,
        id=call.id or "",
        args=dict(call.args or {}),
    )


def observed_response(response: ActualResponse, expected: ToolCall | ToolResponse) -> ToolResponse:
    """A response as CES writes it, under the name of the tool that was expected."""
    content = dict(response.response or {})
    return ToolResponse(
        tool=expected.tool, toolset_tool=expected.toolset_tool, id=expected.id, response=content
    )


def _parameters(
    expected_call: ToolCall,
    call: ActualCall,
    *,
    comparison: ComparisonType,
    verdict_of: Callable[[str], Verdict],
    least: float,
) -> ToolInvocationResult:
    """The share of the expected parameters that a call has; unknown if a judge did not decide on
    one."""
    arguments = _arguments(expected_call, call.args, comparison)
    is_open = _is_open(arguments, least)
    scores: dict[str, int | bool | None] = {
        name: verdict_of(name).score if is_open and is_met is None else is_met
        for name, is_met in arguments.items()
    }
    if is_open and None in scores.values():
        return ToolInvocationResult(explanation=str(Sentence("ces_argument_unjudged")))
    score = sum(map(bool, scores.values())) / len(scores) if scores else 1.0
    args = call.args or {}
    differences = "; ".join(
        _difference(name, _expected_text(expected_call, name), args)
        for name, is_met in scores.items()
        if not is_met
    )
    return ToolInvocationResult(
        parameter_correctness_score=score,
        outcome=outcome_of(passed=score >= least),
        explanation=differences,
    )


def _claims(
    plan: Plan, number: int, invocation: Invocation, verdicts: Verdicts
) -> HallucinationResult | None:
    """The judge's verdict on a turn's claims; None if there is no question about them."""
    verdict = _verdict(verdicts, Kind.HALLUCINATION, number)
    return (
        HallucinationResult(**verdict.rated(HALLUCINATION_LABELS))
        if _makes_claims(plan, number, invocation)
        else None
    )


def golden_result(
    plan: Plan,
    actual: Sequence[Invocation],
    *,
    final_state: Json | None,
    verdicts: Verdicts,
    fed_tools: Sequence[frozenset[str]] = (),
) -> GoldenResult:
    """The outcomes of a golden by turn. Each turn of the agent has an invocation. `fed_tools`: by
    turn, the tools whose responses come from evalgate."""
    last = len(actual) - 1
    turn_results = []
    for number, (turn, invocation) in enumerate(zip(plan.turns, actual, strict=False)):
        state = invocation.state if invocation.state is not None or number < last else final_state
        fed = fed_tools[number] if number < len(fed_tools) else frozenset[str]()
        golden_turn = _Turn(plan, turn, invocation, number, fed)
        turn_results.append(golden_turn.result(verdicts, state=state))
    return GoldenResult(
        turn_replay_results=tuple(turn_results),
        evaluation_expectation_results=_expectation_results(plan, verdicts),
    )


def expectation_key(number: int, kind: str = NAMED) -> Key:
    """The key of the verdict on an expectation of the whole conversation, or on a rubric
    (`RUBRICS`)."""
    return kind, -1, number, ""


def _expectation_results(plan: Plan, verdicts: Verdicts) -> tuple[EvaluationExpectationResult, ...]:
    return tuple(
        EvaluationExpectationResult(
            evaluation_expectation=name,
            prompt=plan.prompts.get(name.rpartition("/")[2], ""),
            outcome=verdict.outcome({1}),
            explanation=verdict.explanation,
        )
        for number, name in enumerate(plan.conversation_expectations)
        for verdict in (_verdict(verdicts, NAMED, step=number),)
    )


# --- scenarios ------------------------------------------------------------------------------------


def scenario_result(
    plan: Plan, actual: Sequence[Invocation], *, verdicts: Verdicts
) -> ScenarioResult:
    """The outcomes of a scenario."""
    scenario = plan.evaluation.scenario or Scenario()
    outcomes = (
        tuple(_scenario_outcomes(plan, scenario, actual, verdicts))
        if plan.compares_scenario
        else ()
    )
    ratings = [
        _claims(plan, number, invocation, verdicts) for number, invocation in enumerate(actual)
    ]
    goal = verdicts.get((Kind.GOAL, -1, -1, ""))
    satisfied = None
    if plan.compares_scenario and UNKNOWN not in {outcome.outcome for outcome in outcomes}:
        satisfied = all(outcome.outcome is not Outcome.FAIL for outcome in outcomes)
    result = ScenarioResult(
        task=scenario.task,
        user_facts=scenario.user_facts,
        expectation_outcomes=outcomes,
        rubric_outcomes=tuple(
            ScenarioRubricOutcome(
                rubric=text,
                score=None if verdict.score is None else float(verdict.score),
                score_explanation=verdict.explanation,
            )
            for number, text in enumerate(scenario.rubrics)
            for verdict in (_verdict(verdicts, RUBRICS, step=number),)
        ),
        hallucination_result=tuple(rating for rating in ratings if rating is not None),
        user_goal_satisfaction_result=UserGoalSatisfactionResult(**goal.rated(GOAL_LABELS))
        if goal
        else None,
        all_expectations_satisfied=satisfied,
        evaluation_expectation_results=_expectation_results(plan, verdicts),
    )
    return result.model_copy(update={"task_completed": _is_completed(result)})


def _is_completed(result: ScenarioResult) -> bool | None:
    """True if all expectations are met, no claim is unsupported, and the user's goal is met; None
    if one of these is unknown."""
    goal = result.user_goal_satisfaction_result
    claim_scores = [rating.score for rating in result.hallucination_result]
    if (
        result.all_expectations_satisfied is None
        or goal is None
        or goal.score is None
        or None in claim_scores
    ):
        return None
    return result.all_expectations_satisfied and 0 not in claim_scores and goal.score == 1


def _scenario_outcomes(
    plan: Plan, scenario: Scenario, actual: Sequence[Invocation], verdicts: Verdicts
) -> Iterator[ScenarioExpectationOutcome]:
    messages = [text for invocation in actual for text in messages_of(invocation)]
    calls = _scenario_calls(scenario, actual)
    responses = [response for invocation in actual for response in invocation.tool_responses]
    is_recorded = all(invocation.events is not None for invocation in actual)
    for step, expectation in enumerate(scenario.scenario_expectations):
        expected_call = call_in(expectation)
        if expected_call is None:
            yield _scenario_answer(expectation, messages, _verdict(verdicts, Kind.SAID, step=step))
            continue
        call = calls.get(step)
        if call is None:
            yield ScenarioExpectationOutcome(
                expectation=expectation, outcome=Outcome.FAIL if is_recorded else UNKNOWN
            )
            continue
        verdict_of = partial(_verdict, verdicts, Kind.ARGUMENT, -1, step)
        invocation_result = _parameters(
            expected_call,
            call,
            comparison=BY_MEANING,
            verdict_of=verdict_of,
            least=plan.parameters(None),
        )
        answer = next(
            (response for response in responses if call.id is not None and response.id == call.id),
            None,
        )
        observed = ObservedToolCall(
            tool_call=observed_call(call, app=plan.app, expected=expected_call),
            tool_response=None if answer is None else observed_response(answer, expected_call),
        )
        yield ScenarioExpectationOutcome(
            expectation=expectation, outcome=invocation_result.outcome, observed_tool_call=observed
        )


def _scenario_answer(
    expectation: ScenarioExpectation, messages: Sequence[str], verdict: Verdict
) -> ScenarioExpectationOutcome:
    """The outcome of an answer that a scenario expects: the judge's, who reads all messages; FAIL
    without messages."""
    if not text_of(expectation.agent_response):
        return ScenarioExpectationOutcome(expectation=expectation, outcome=Outcome.SKIPPED)
    observed = Message(role="agent", chunks=(Chunk(text=messages[-1]),)) if messages else None
    outcome = verdict.outcome({1}) if messages else Outcome.FAIL
    return ScenarioExpectationOutcome(
        expectation=expectation, outcome=outcome, observed_agent_response=observed
    )


# --- checks and status ----------------------------------------------------------------------------


class Group(enum.StrEnum):
    """The subject of a check."""

    EXPECTATION = "expectation"  # the agent's actions, decided without a judge
    SIMILARITY = "similarity"  # what a judge compares
    HALLUCINATION = "hallucination"
    NAMED = "named"  # expectations of the whole conversation
    GOAL = "goal"


@frozen_dataclass
class Check:
    """One check of an evaluation and its outcome; `turn` counts from 1. `score`: on the check's own
    scale."""

    group: Group
    subject: Wording
    outcome: Outcome
    turn: int | None = None
    explanation: str = ""
    score: float | None = None


def checks(plan: Plan, result: GoldenResult | ScenarioResult) -> list[Check]:
    """All checks that count for the status of a result, including skipped ones."""
    result_checks = list(
        _of_golden(plan, result) if isinstance(result, GoldenResult) else _of_scenario(plan, result)
    )
    for expectation_result in result.evaluation_expectation_results:
        subject = expectation_result.prompt or expectation_result.evaluation_expectation
        result_checks.append(
            Check(
                group=Group.NAMED,
                subject=subject,
                outcome=expectation_result.outcome,
                explanation=expectation_result.explanation,
            )
        )
    return result_checks


def _of_golden(plan: Plan, result: GoldenResult) -> Iterator[Check]:
    for number, turn in enumerate(result.turn_replay_results, start=1):
        for expectation_outcome in turn.expectation_outcome:
            yield _of_expectation(plan, expectation_outcome, number)
        overall = turn.overall_tool_invocation_result
        if overall is not None and overall.outcome is not Outcome.SKIPPED:
            score = overall.tool_invocation_score or 0.0
            yield Check(
                group=Group.EXPECTATION,
                subject=Sentence("ces_tool_share"),
                outcome=overall.outcome,
                turn=number,
                explanation=f"{score:g}",
                score=score,
            )
        if (
            plan.assesses_hallucination(plan.turns[number - 1])
            and turn.hallucination_result is not None
        ):
            yield _of_hallucination(turn.hallucination_result, number)


def _of_hallucination(result: HallucinationResult, turn: int) -> Check:
    return Check(
        group=Group.HALLUCINATION,
        subject=result.label or Sentence("ces_claims"),
        outcome=Verdict(score=result.score).outcome({1, -1}),
        turn=turn,
        explanation=result.explanation,
        score=result.score,
    )


def _of_expectation(plan: Plan, expectation_outcome: GoldenExpectationOutcome, turn: int) -> Check:
    expected = expectation_outcome.expectation or GoldenExpectation()
    similarity = expectation_outcome.semantic_similarity_result
    call_result = expectation_outcome.tool_invocation_result
    is_judged = _is_judged(
        expected.tool_call,
        expectation_outcome.observed_tool_call,
        expected.comparison_type,
        plan.parameters(expected),
    )
    score: float | None = (
        similarity.score
        if similarity
        else call_result.parameter_correctness_score
        if call_result
        else None
    )
    explanation = (similarity.explanation if similarity else "") or (
        call_result.explanation if call_result else ""
    )
    if expected.note == UNEXPECTED_CALL and expectation_outcome.observed_tool_call is not None:
        explanation = ", ".join(sorted(names_of(expectation_outcome.observed_tool_call)))
    elif (
        expected.note == UNEXPECTED_TRANSFER
        and expectation_outcome.observed_agent_transfer is not None
    ):
        explanation = expectation_outcome.observed_agent_transfer.target_agent.rpartition("/")[2]
    elif (
        expected.note == UNEXPECTED_RESPONSE
        and expectation_outcome.observed_agent_response is not None
    ):
        explanation = text_of(expectation_outcome.observed_agent_response)[:300]
    return Check(
        group=Group.SIMILARITY if similarity is not None or is_judged else Group.EXPECTATION,
        subject=described(expected),
        outcome=expectation_outcome.outcome,
        turn=turn,
        explanation=explanation,
        score=score,
    )


def _of_scenario(plan: Plan, result: ScenarioResult) -> Iterator[Check]:
    for expectation_outcome in result.expectation_outcomes:
        expectation = expectation_outcome.expectation or ScenarioExpectation()
        expected_call = call_in(expectation)
        observed = expectation_outcome.observed_tool_call
        is_judged = expected_call is None or _is_judged(
            expected_call,
            observed.tool_call if observed else None,
            BY_MEANING,
            plan.parameters(None),
        )
        subject = Sentence(
            "ces_expected",
            *(
                ("agent_response", _excerpt(expectation.agent_response))
                if expected_call is None
                else ("tool_call", min(names_of(expected_call)))
            ),
        )
        yield Check(
            group=Group.SIMILARITY if is_judged else Group.EXPECTATION,
            subject=subject,
            outcome=expectation_outcome.outcome,
        )
    if plan.assesses_hallucination(None):
        for number, rating in enumerate(result.hallucination_result, start=1):
            yield _of_hallucination(rating, number)
    if plan.judges_goal:
        goal = result.user_goal_satisfaction_result
        score = goal.score if goal else None
        yield Check(
            group=Group.GOAL,
            subject=Sentence("ces_goal", bool(plan.goal_score)),
            outcome=Verdict(score=score).outcome({plan.goal_score}),
            explanation=f"{goal.label}: {goal.explanation}" if goal else "",
            score=score,
        )


def _is_judged(
    expected: ToolCall | None, observed: ToolCall | None, comparison: ComparisonType, least: float
) -> bool:
    """True if a judge decides whether a call is as expected."""
    if expected is None or observed is None:
        return False
    return _is_open(_arguments(expected, observed.args, comparison), least)


def may_need_judge(call: ToolCall, comparison: ComparisonType) -> bool:
    """True if an expected call has an argument that is compared by meaning."""
    return any(
        _argument(value, "", comparison) is None for value in (call.args or {}).values() if value
    )


def described(expected: GoldenExpectation) -> str:
    """The expectation in words: its note, or a short description."""
    if expected.note:
        return expected.note
    field = shapes.present_field(expected)
    match getattr(expected, field, None):
        case ToolCall() | ToolResponse() as tool:
            text = min(names_of(tool), key=len)
        case Message() as message:
            text = _excerpt(message)
        case AgentTransfer(target_agent=agent):
            text = agent.rpartition("/")[2]
        case Mapping() as variables:
            text = ", ".join(variables)
        case _:
            text = ""
    return str(Sentence("ces_expected", field, text))


def _excerpt(message: Message | None) -> str:
    return repr(text_of(message)[:200])


def status(checks: Iterable[Check]) -> Outcome | None:
    """PASS if all decisive checks are met, FAIL if one is not, SKIPPED if there are none.

    None if a check is unknown: the execution state is then ERROR (METRIC_CALCULATION_FAILURE)."""
    outcomes = {check.outcome for check in checks}
    decisive = (outcome for outcome in (UNKNOWN, Outcome.FAIL, Outcome.PASS) if outcome in outcomes)
    return next(decisive, Outcome.SKIPPED) or None
