"""What an evaluation says of a conversation: outcomes by turn and expectation as EvaluationResult has them.

Pure: what a judge has to say arrives as verdicts, which `questions` asks for. What nobody decided has no outcome
(OUTCOME_UNSPECIFIED), and a result with one has no status: it is an error, never a pass.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final, Self, TypeAlias, TypeVar

from evalgate.model import Invocation, Text, ToolCall as ActualCall, ToolResponse as ActualResponse, json_match
from evalgate.model.json_match import Matcher
from evalgate.values import Json, JsonObject, frozen_dataclass
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
GOAL_LABELS: Final = {1: "User Task Satisfied", 0: "User Task Not Satisfied", -1: "User Task Unspecified"}

UNEXPECTED_RESPONSE: Final = "UNEXPECTED RESPONSE"
UNEXPECTED_CALL: Final = "UNEXPECTED TOOL CALL"
UNKNOWN: Final = Outcome.OUTCOME_UNSPECIFIED
AS_WRITTEN: Final = ComparisonType.COMPARISON_TYPE_UNSPECIFIED
LITERAL: Final = (ComparisonType.EQUALS, ComparisonType.CONTAINS)
T = TypeVar("T")
DEFAULT_SIMILARITY: Final = 3


def outcome_of(*, passed: bool | None) -> Outcome:
    """PASS or FAIL; `passed` None: unknown."""
    return UNKNOWN if passed is None else Outcome.PASS if passed else Outcome.FAIL


def _nearest(given: Iterable[T | None], default: T) -> T:
    return next((each for each in given if each is not None), default)


# --- what applies ---------------------------------------------------------------------------------------


@frozen_dataclass
class Plan:
    """An evaluation and what applies to it: the app's thresholds and switches, the prompts of expectations by the last
    part of their name. `goals`: the ordered ones of a simulation for `cxas`."""

    evaluation: Evaluation
    thresholds: EvaluationMetricsThresholds = field(default_factory=EvaluationMetricsThresholds)
    config: EvaluationMetricsConfig = field(default_factory=EvaluationMetricsConfig)
    prompts: Mapping[str, str] = field(default_factory=dict)
    goals: tuple[str, ...] = ()

    def json(self) -> JsonObject:
        """As `Case.ces` has it."""
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
        """Those of a golden."""
        return self.evaluation.golden.turns if self.evaluation.golden else ()

    @property
    def named(self) -> tuple[str, ...]:
        """The expectations that a judge looks for in the whole conversation, by name."""
        inputs = self.evaluation.golden or self.evaluation.scenario
        return inputs.evaluation_expectations if inputs else ()

    def _levels(self) -> Iterator[EvaluationMetricsThresholds]:
        """The evaluation's own before the app's."""
        own = self.evaluation.evaluation_metrics_threshold_override
        yield from (each for each in (own, self.thresholds) if each is not None)

    def _golden_levels(self) -> Iterator[GoldenEvaluationMetricsThresholds]:
        yield from (each for level in self._levels() if (each := level.golden_evaluation_metrics_thresholds))

    def _turn_levels(self, turn: GoldenTurn | None) -> Iterator[TurnLevelMetricsThresholds]:
        if turn is not None and turn.turn_level_metrics_thresholds_override is not None:
            yield turn.turn_level_metrics_thresholds_override
        yield from (each for level in self._golden_levels() if (each := level.turn_level_metrics_thresholds))

    def similarity(self, turn: GoldenTurn | None) -> int:
        """The lowest similarity that passes: the turn's, else the evaluation's, else the app's, else the default."""
        return _nearest(
            (each.semantic_similarity_success_threshold for each in self._turn_levels(turn)), DEFAULT_SIMILARITY
        )

    def invocation(self, turn: GoldenTurn | None) -> float:
        """The share of a turn's expected tools that have to be called."""
        return _nearest((each.overall_tool_invocation_correctness_threshold for each in self._turn_levels(turn)), 1.0)

    def parameters(self, expected: GoldenExpectation | None) -> float:
        """The share of an expected call's parameters that have to be as expected."""
        own = expected.expectation_level_metrics_thresholds_override if expected else None
        levels = [own, *(each.expectation_level_metrics_thresholds for each in self._golden_levels())]
        return _nearest((each.tool_invocation_parameter_correctness_threshold for each in levels if each), 1.0)

    @property
    def allows_extra_calls(self) -> bool:
        """Whether calls that nothing expects are let pass."""
        settings = (each.tool_matching_settings for each in self._golden_levels())
        given = (each.extra_tool_call_behavior for each in settings if each is not None)
        return next(filter(None, given), None) is ExtraToolCallBehavior.ALLOW

    def assesses_hallucination(self, turn: GoldenTurn | None) -> bool:
        """Whether made-up claims count; unspecified is not enabled."""
        overrides = [
            own.enable_hallucination_metrics
            for step in (turn.steps if turn else ())
            if step.expectation
            and (own := step.expectation.agent_response_hallucination_metrics_config_override) is not None
        ]
        if overrides:
            return any(overrides)
        said = [turn.hallucination_metric_behavior_override] if turn else []
        for level in self._levels():
            if self.evaluation.scenario is not None:
                said.append(level.scenario_hallucination_metric_behavior)
            else:
                said += [level.golden_hallucination_metric_behavior, level.hallucination_metric_behavior]
        return next(filter(None, said), None) is HallucinationMetricBehavior.ENABLED

    def _is_on(self, group: str, name: str, *, of: str = "") -> bool:
        """Whether a metric is switched on: by the evaluation, else by the app, else by default. `of`: what the metric
        is called in its switch, where that is otherwise."""
        for config in (self.evaluation.evaluation_metrics_config_override, self.config):
            held = getattr(config, f"{group}_metrics_config") if config is not None else None
            found = getattr(held, f"{name}_metrics_config") if held is not None else None
            if found is not None:
                return bool(getattr(found, f"enable_{of or name}_metrics"))
        return True

    def compares_answers(self, expected: GoldenExpectation) -> bool:
        """Whether an expected answer is compared by a judge, where its comparison is by meaning."""
        own = expected.agent_response_semantic_similarity_metrics_config_override
        return self._is_on("golden", "semantic_similarity") if own is None else own.enable_semantic_similarity_metrics

    def judges_answer(self, expected: GoldenExpectation) -> bool:
        """Whether an expected answer has words that a judge compares."""
        has_words = expected.agent_response is not None and bool(text_of(expected.agent_response))
        return has_words and expected.comparison_type not in LITERAL and self.compares_answers(expected)

    def compares_tools(self, *, of_step: bool) -> bool:
        """Whether tool calls count: each of them (`of_step`), or those of a turn together."""
        return self._is_on("golden", f"{'step_' if of_step else ''}tool_correctness", of="tool_correctness")

    @property
    def judges_goal(self) -> bool:
        """Whether the goal of the simulated user counts."""
        is_on = self._is_on("scenario", "user_goal_met")
        return is_on and not self.goals and self.goal is not UserGoalBehavior.USER_GOAL_IGNORED

    @property
    def compares_scenario(self) -> bool:
        """Whether the expectations of a scenario count."""
        return self._is_on("scenario", "expectations_met")

    @property
    def goal(self) -> UserGoalBehavior:
        """What is to become of the user's goal; the deprecated field counts where the newer one says nothing."""
        scenario = self.evaluation.scenario or Scenario()
        if scenario.user_goal_behavior:
            return scenario.user_goal_behavior
        # the numbers of the deprecated values mean the same
        return UserGoalBehavior(scenario.task_completion_behavior or UserGoalBehavior.USER_GOAL_SATISFIED)

    @property
    def goal_score(self) -> int:
        """The score that a judge should give: 0 where the goal is to be refused."""
        return 0 if self.goal is UserGoalBehavior.USER_GOAL_REJECTED else 1


# --- what a judge is asked ------------------------------------------------------------------------------


class Kind(enum.StrEnum):
    """What a judge is asked about."""

    ANSWER = "answer"  # an expected answer, 0 to 4
    SAID = "said"  # an answer that a scenario expects anywhere, 0 or 1
    ARGUMENT = "argument"  # an argument of a call, 0 or 1
    HALLUCINATION = "hallucination"  # a turn, -1, 0 or 1
    GOAL = "goal"  # the whole conversation, -1, 0 or 1


@frozen_dataclass
class Asked:
    """A question to a judge. `turn`, `step` count from 0; -1: the whole conversation. `passes`: the scores that do."""

    kind: Kind
    turn: int = -1
    step: int = -1
    argument: str = ""
    expected: str = ""
    actual: str = ""
    passes: frozenset[int] = frozenset({1})

    @property
    def key(self) -> Key:
        """What its verdict is found by."""
        return self.kind, self.turn, self.step, self.argument


@frozen_dataclass
class Verdict:
    """What a judge said; `score` None: it said nothing that could be used, or was not asked."""

    score: int | None = None
    explanation: str = ""

    def outcome(self, passes: Container[int]) -> Outcome:
        """PASS where the score is one of these."""
        return outcome_of(passed=None if self.score is None else self.score in passes)

    def rated(self, labels: Mapping[int, str]) -> JsonObject:
        """The fields that results of judges have in common."""
        label = "" if self.score is None else labels[self.score]
        return {"score": self.score, "label": label, "explanation": self.explanation}


Key: TypeAlias = tuple[str, int, int, str]
Verdicts: TypeAlias = Mapping[Key, Verdict]
"""By `Asked.key`; what is not there was not asked."""
NAMED = "named"
RUBRICS = "rubrics"


def _verdict(verdicts: Verdicts, kind: str, turn: int = -1, step: int = -1, argument: str = "") -> Verdict:
    return verdicts.get((kind, turn, step, argument)) or Verdict()


def questions(plan: Plan, actual: Sequence[Invocation]) -> list[Asked]:
    """Everything that only a judge can decide, in the order of the turns."""
    found: list[Asked] = []
    for number, (turn, invocation) in enumerate(zip(plan.turns, actual, strict=False)):
        found += _Turn(plan, turn, invocation, number).asked()
    scenario = plan.evaluation.scenario
    if scenario is not None:
        found += _asked_of_scenario(plan, scenario, actual)
    for number, invocation in enumerate(actual):
        if _makes_claims(plan, number, invocation):
            found.append(Asked(kind=Kind.HALLUCINATION, turn=number, passes=frozenset({1, -1})))
    return found


def _makes_claims(plan: Plan, number: int, invocation: Invocation) -> bool:
    """Whether a turn is looked through for claims that nothing bears out: an answer after calls of tools."""
    golden_turn = plan.turns[number] if number < len(plan.turns) else None
    return plan.assesses_hallucination(golden_turn) and bool(calls_of(invocation) and messages_of(invocation))


def _asked_of_scenario(plan: Plan, scenario: Scenario, actual: Sequence[Invocation]) -> Iterator[Asked]:
    messages = [text for invocation in actual for text in messages_of(invocation)]
    calls = [call for invocation in actual for call in calls_of(invocation)]
    for step, each in enumerate(scenario.scenario_expectations if plan.compares_scenario else ()):
        text, call = text_of(each.agent_response), call_in(each)
        if text and not _message_of(text, messages):
            yield Asked(kind=Kind.SAID, step=step, expected=text, actual="\n".join(messages))
        elif call is not None:
            yield from _asked_of_arguments(call, _best(call, calls), AS_WRITTEN, step=step)
    if plan.judges_goal:
        yield Asked(kind=Kind.GOAL, expected=task_of(scenario), passes=frozenset({plan.goal_score}))


def _asked_of_arguments(
    call: ToolCall, actual: ActualCall | None, comparison: ComparisonType, *, turn: int = -1, step: int
) -> Iterator[Asked]:
    if actual is None:
        return
    got: Json = actual.args or {}
    for name, met in _arguments(call, actual, comparison).items():
        if met is None:
            wanted = _wanted_text(call, name)
            yield Asked(
                kind=Kind.ARGUMENT, turn=turn, step=step, argument=name, expected=wanted, actual=str(got.get(name))
            )


# --- what the agent did ---------------------------------------------------------------------------------


def calls_of(invocation: Invocation) -> list[ActualCall]:
    """The calls of a turn, but for transfers to another agent."""
    return [call for call in invocation.tool_calls if call.name != TRANSFER]


def messages_of(invocation: Invocation) -> list[str]:
    """What the agent said to the user in a turn, in order: on the way, and at last."""
    contents = [event.content for event in invocation.events or () if event.author.lower() != "user"]
    texts = (
        "".join(part.text for part in content.parts if isinstance(part, Text) and not part.thought)
        for content in (*contents, invocation.final_response)
        if content is not None
    )
    return [text for text in texts if text.strip()]


def text_of(message: Message | None) -> str:
    """The words of an expected answer; "" where it has none: any answer holds blanks."""
    text = "".join(chunk.text or chunk.transcript or "" for chunk in message.chunks) if message else ""
    return text if text.strip() else ""


def call_in(expected: ScenarioExpectation) -> ToolCall | None:
    """The call that a scenario expects."""
    return expected.tool_expectation.expected_tool_call if expected.tool_expectation else None


def task_of(scenario: Scenario) -> str:
    """What the user of a scenario wants, and knows."""
    facts = "".join(f"\n- {fact.name}: {fact.value}" for fact in scenario.user_facts)
    return scenario.task + (f"\n\nWhat the user knows:{facts}" if facts else "")


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def names_of(tool: ToolCall | ToolResponse) -> frozenset[str]:
    """The names under which an agent may have a tool: its id, its display name, that of a toolset's tool with the
    toolset before it."""
    names = {tool.display_name} if tool.display_name else set()
    if tool.toolset_tool is None:
        return frozenset({*names, (tool.tool or "").rpartition("/")[2]})
    toolset, name = tool.toolset_tool.toolset.rpartition("/")[2], tool.toolset_tool.tool_id
    if not name:
        return frozenset({*names, toolset})
    return frozenset({*names, name, *(f"{toolset}{mark}{name}" for mark in ("_", ".", "/", "__"))})


def _argument(expected: Any, actual: Any, comparison: ComparisonType) -> bool | None:  # noqa: PLR0911 - a row each
    """Whether an argument is as expected; None where a judge has to say."""
    match, wanted = "", expected
    if isinstance(expected, Mapping) and "$matchType" in expected:
        match, wanted = str(expected["$matchType"]), expected.get("$originalValue")
        if match == "ignore":
            return True
    elif comparison is ComparisonType.CONTAINS and isinstance(expected, str):
        match = "contains"
    elif comparison is ComparisonType.SEMANTIC_SIMILARITY and isinstance(expected, str):
        match = "semantic"
    if actual is json_match.MISSING:
        return False
    if match == "contains":
        return str(wanted) in str(actual)
    if match == "regexp":
        try:
            return json_match.holds(Matcher(regex=str(wanted)), str(actual), wanted)
        except ValueError:  # no regular expression: `validate` warns of it
            return False
    if compare.same(wanted, actual):
        return True
    return None if match == "semantic" else False


def _arguments(call: ToolCall, actual: ActualCall, comparison: ComparisonType) -> dict[str, bool | None]:
    args: Json = actual.args or {}
    return {
        name: _argument(value, args.get(name, json_match.MISSING), comparison)
        for name, value in (call.args or {}).items()
    }


def _wanted_text(call: ToolCall, name: str) -> str:
    wanted: Any = (call.args or {})[name]
    return str(wanted.get("$originalValue") if isinstance(wanted, Mapping) else wanted)


def _likeness(call: ToolCall, actual: ActualCall, comparison: ComparisonType = AS_WRITTEN) -> tuple[float, int]:
    """How well a call is the expected one, and by how many parameters; what a judge has to say counts as met."""
    found = list(_arguments(call, actual, comparison).values())
    met = sum(each is not False for each in found)
    return (met / len(found) if found else 1.0), met


def _best(call: ToolCall, calls: Sequence[ActualCall]) -> ActualCall | None:
    alike = [each for each in calls if each.name in names_of(call)]
    return max(alike, key=lambda each: _likeness(call, each), default=None)


def _paired(
    expected: Sequence[tuple[int, ToolCall, ComparisonType]], calls: Sequence[ActualCall]
) -> dict[int, ActualCall]:
    """The call of each expected one, by its step: those that are the most alike first, each call once."""
    pairs = sorted(
        (
            (*_likeness(call, actual, comparison), -place, -number, step)
            for place, (step, call, comparison) in enumerate(expected)
            for number, actual in enumerate(calls)
            if actual.name in names_of(call)
        ),
        key=lambda pair: (pair[1], pair[0], pair[2], pair[3]),
        reverse=True,
    )
    found: dict[int, ActualCall] = {}
    taken: set[int] = set()
    for *_, number, step in pairs:
        if step not in found and number not in taken:
            found[step] = calls[-number]
            taken.add(number)
    return found


def _in_order(expected: Sequence[frozenset[str]], actual: Sequence[str]) -> float:
    """The share of the expected tools that were called in this order: their longest common subsequence."""
    row = [0] * (len(actual) + 1)
    for names in expected:
        before = list(row)
        for number, name in enumerate(actual, start=1):
            row[number] = before[number - 1] + 1 if name in names else max(before[number], row[number - 1])
    return row[-1] / len(expected)


# --- goldens --------------------------------------------------------------------------------------------


class _Turn:
    """One turn of a golden and what the agent did in it."""

    def __init__(self, plan: Plan, turn: GoldenTurn, invocation: Invocation, number: int) -> None:
        self._plan = plan
        self._turn = turn
        self._actual = invocation
        self._number = number
        self._steps = [(step, each.expectation) for step, each in enumerate(turn.steps) if each.expectation]
        self._calls = calls_of(invocation)
        expected = [(step, each.tool_call, each.comparison_type) for step, each in self._steps if each.tool_call]
        self._found = _paired(expected, self._calls)
        self._messages = messages_of(invocation)
        self._answers = [step for step, each in self._steps if each.agent_response is not None]
        self._similar = range(plan.similarity(turn), len(SIMILARITY_LABELS))

    def _said(self, step: int) -> tuple[str, ...]:
        """What was said where an answer is expected. Of more messages than answers are expected, the last answer is
        all that are left over: an agent may take several to say it."""
        place = self._answers.index(step)
        is_last = place == len(self._answers) - 1
        return tuple(self._messages[place:] if is_last else self._messages[place : place + 1])

    def asked(self) -> Iterator[Asked]:
        """What only a judge can decide of the turn."""
        for step, each in self._steps:
            if each.skip_evaluation:
                continue
            if self._plan.judges_answer(each) and (said := self._said(step)):
                yield Asked(
                    kind=Kind.ANSWER,
                    turn=self._number,
                    step=step,
                    expected=text_of(each.agent_response),
                    actual="\n".join(said),
                    passes=frozenset(self._similar),
                )
            elif each.tool_call is not None and self._plan.compares_tools(of_step=True):
                call = self._found.get(step)
                yield from _asked_of_arguments(each.tool_call, call, each.comparison_type, turn=self._number, step=step)

    def result(self, verdicts: Verdicts, *, state: Json | None) -> TurnReplayResult:
        """The outcomes of the turn; `state`: the session's at its end."""
        outcomes = [self._scored(step, each, verdicts, state) for step, each in self._steps]
        if not self._answers and self._messages:
            said = Message(role="agent", chunks=tuple(Chunk(text=text) for text in self._messages))
            expected = GoldenExpectation(note=UNEXPECTED_RESPONSE)
            outcomes.append(_outcome(expected, Outcome.FAIL, observed_agent_response=said))
        overall, order = self._overall()
        if overall is not None and not self._plan.allows_extra_calls:
            taken = {id(call) for call in self._found.values()}
            expected = GoldenExpectation(note=UNEXPECTED_CALL)
            extra = (call for call in self._calls if id(call) not in taken)
            outcomes += [_outcome(expected, Outcome.FAIL, observed_tool_call=self._observed(call)) for call in extra]
        similar = [each.semantic_similarity_result for each in outcomes if each.semantic_similarity_result]
        is_known = all(each.score is not None for each in similar)
        return TurnReplayResult(
            expectation_outcome=tuple(outcomes),
            hallucination_result=_claims(self._plan, self._number, self._actual, verdicts),
            # the turn is as consistent as its least consistent answer
            semantic_similarity_result=min(similar, key=lambda each: each.score or 0, default=None)
            if is_known
            else None,
            overall_tool_invocation_result=overall,
            tool_ordered_invocation_score=order,
        )

    def _overall(self) -> tuple[OverallToolInvocationResult | None, float | None]:
        """How many of the expected tools were called, and how many in order; None where that does not count."""
        if not self._plan.compares_tools(of_step=False) or self._actual.events is None:
            return None, None
        wanted = [(step, each.tool_call) for step, each in self._steps if each.tool_call and not each.skip_evaluation]
        if not wanted:
            return OverallToolInvocationResult(outcome=Outcome.SKIPPED), None
        score = sum(step in self._found for step, _ in wanted) / len(wanted)
        passed = score >= self._plan.invocation(self._turn)
        order = _in_order([names_of(call) for _, call in wanted], [call.name for call in self._calls])
        return OverallToolInvocationResult(tool_invocation_score=score, outcome=outcome_of(passed=passed)), order

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
            return _explained(expected, passed=None, why=_UNRECORDED)
        if expected.tool_call is not None:
            return self._of_call(step, expected, expected.tool_call, verdicts)
        if expected.tool_response is not None:
            return self._of_response(expected, expected.tool_response)
        return _explained(
            expected,
            passed=not self._calls,
            why=f"called {', '.join(call.name for call in self._calls)}" if self._calls else "",
            observed_tool_call=self._observed(self._calls[0]) if self._calls else None,
        )

    def _of_answer(
        self, step: int, expected: GoldenExpectation, wanted: Message, verdicts: Verdicts
    ) -> GoldenExpectationOutcome:
        said, text = self._said(step), text_of(wanted)
        observed = Message(role="agent", chunks=tuple(Chunk(text=each) for each in said)) if said else None
        outcome, result = Outcome.SKIPPED, None  # a payload, an image: there is nothing to compare
        if text and expected.comparison_type in LITERAL:
            answer = said[-1] if said else ""  # what is said on the way is none
            is_equal = text.strip() == answer.strip()
            outcome = outcome_of(
                passed=is_equal if expected.comparison_type is ComparisonType.EQUALS else text in answer
            )
        elif self._plan.judges_answer(expected):
            silent = Verdict(score=0, explanation="the agent said nothing")
            verdict = _verdict(verdicts, Kind.ANSWER, self._number, step) if said else silent
            outcome = verdict.outcome(self._similar)
            result = SemanticSimilarityResult(**verdict.rated(SIMILARITY_LABELS), outcome=outcome)
        return _outcome(expected, outcome, semantic_similarity_result=result, observed_agent_response=observed)

    def _of_call(
        self, step: int, expected: GoldenExpectation, wanted: ToolCall, verdicts: Verdicts
    ) -> GoldenExpectationOutcome:
        call = self._found.get(step)
        if call is None:
            why = "it was not called"
            result = ToolInvocationResult(parameter_correctness_score=0.0, outcome=Outcome.FAIL, explanation=why)
            return _outcome(expected, Outcome.FAIL, tool_invocation_result=result)
        verdict_of = partial(_verdict, verdicts, Kind.ARGUMENT, self._number, step)
        least = self._plan.parameters(expected)
        result = _parameters(wanted, call, comparison=expected.comparison_type, verdict_of=verdict_of, least=least)
        observed = self._observed(call, wanted)
        return _outcome(expected, result.outcome, tool_invocation_result=result, observed_tool_call=observed)

    def _of_response(self, expected: GoldenExpectation, wanted: ToolResponse) -> GoldenExpectationOutcome:
        """The response of the call with the same id in the file, else of any call of the tool."""
        by_id = [
            self._found[step].id
            for step, each in self._steps
            if each.tool_call and wanted.id and each.tool_call.id == wanted.id and step in self._found
        ]
        found = [each for each in self._actual.tool_responses if each.name in names_of(wanted)]
        meant = [each for each in found if each.id is not None and each.id in by_id] or found
        right = [each for each in meant if _same_response(wanted.response or {}, each)]
        shown = next(iter(right or meant), None)
        observed = None if shown is None else observed_response(shown, wanted)
        why = "" if right else "another response" if meant else "the tool gave no response"
        return _explained(expected, passed=bool(right), why=why, observed_tool_response=observed)

    def _of_transfer(self, expected: GoldenExpectation, wanted: AgentTransfer) -> GoldenExpectationOutcome:
        if self._actual.events is None:
            return _explained(expected, passed=None, why=_UNRECORDED)
        named = {wanted.target_agent.rpartition("/")[2], wanted.display_name} - {""}
        calls = (call.args or {} for call in self._actual.tool_calls if call.name == TRANSFER)
        transfers = [str(args.get("agent_name") or args.get("agent") or "") for args in calls]
        authors = [event.author for event in self._actual.events]
        reached = next((name for name in (*transfers, *authors) if name in named), "")
        other = reached or next(iter(transfers), "")
        observed = AgentTransfer(target_agent=f"{self._plan.app}/agents/{other}") if other else None
        why = "" if reached else f"transferred to {other}" if other else "no transfer"
        return _explained(expected, passed=bool(reached), why=why, observed_agent_transfer=observed)


_UNRECORDED: Final = "the agent's steps were not recorded"


def _outcome(expected: GoldenExpectation, outcome: Outcome, **more: Any) -> GoldenExpectationOutcome:
    return GoldenExpectationOutcome(expectation=expected, outcome=outcome, **more)


def _explained(
    expected: GoldenExpectation, *, passed: bool | None, why: str, **observed: Any
) -> GoldenExpectationOutcome:
    """An outcome whose reason has no field of its own; `passed` None: unknown."""
    outcome = outcome_of(passed=passed)
    told = ToolInvocationResult(outcome=outcome, explanation=why) if why else None
    return _outcome(expected, outcome, tool_invocation_result=told, **observed)


def _of_variables(expected: GoldenExpectation, wanted: Json, state: Json | None) -> GoldenExpectationOutcome:
    if not wanted:  # there is nothing to compare
        return _outcome(expected, Outcome.SKIPPED)
    if state is None:
        return _explained(expected, passed=None, why="the session's variables were not recorded")
    wrong = [name for name, value in wanted.items() if not compare.same(value, state.get(name, json_match.MISSING))]
    told = (f"{name}: expected {wanted[name]!r}, found {state.get(name, 'nothing')!r}"[:300] for name in wrong)
    return _explained(expected, passed=not wrong, why="; ".join(told))


def _same_response(wanted: Json, actual: ActualResponse) -> bool:
    """`output` is the result, and an object without it is one: tools of other frameworks answer `{"result": ...}`."""
    given = dict(actual.response or {})
    bare = [given]
    bare += [given[key] for key in ("output", "result") if set(given) == {key}]
    expected = [wanted, *([wanted["output"]] if set(wanted) == {"output"} else [])]
    return any(compare.same(one, other) for one in expected for other in bare)


def observed_call(call: ActualCall, *, app: str, expected: ToolCall | None = None) -> ToolCall:
    """A call as CES writes it; under the name of the expected one, where it is that."""
    named = expected or ToolCall(tool=f"{app}/tools/{call.name}")
    return ToolCall(tool=named.tool, toolset_tool=named.toolset_tool, id=call.id or "", args=dict(call.args or {}))


def observed_response(response: ActualResponse, expected: ToolCall | ToolResponse) -> ToolResponse:
    """A response as CES writes it, under the name of the tool that was expected."""
    given = dict(response.response or {})
    return ToolResponse(tool=expected.tool, toolset_tool=expected.toolset_tool, id=expected.id, response=given)


def _parameters(
    wanted: ToolCall,
    call: ActualCall,
    *,
    comparison: ComparisonType,
    verdict_of: Callable[[str], Verdict],
    least: float,
) -> ToolInvocationResult:
    """The share of the expected parameters that a call has; unknown where a judge that has to say did not."""
    found: dict[str, int | bool | None] = {
        name: verdict_of(name).score if met is None else met
        for name, met in _arguments(wanted, call, comparison).items()
    }
    if None in found.values():
        return ToolInvocationResult(explanation="no verdict on an argument that is compared by its meaning")
    score = sum(map(bool, found.values())) / len(found) if found else 1.0
    args = call.args or {}
    wrong = "; ".join(
        f"{name}: expected {_wanted_text(wanted, name)!r}, got {args.get(name, 'nothing')!r}"[:300]
        for name, met in found.items()
        if not met
    )
    return ToolInvocationResult(
        parameter_correctness_score=score, outcome=outcome_of(passed=score >= least), explanation=wrong
    )


def _claims(plan: Plan, number: int, invocation: Invocation, verdicts: Verdicts) -> HallucinationResult | None:
    """What a judge said of a turn's claims; None where it is not to be asked."""
    verdict = _verdict(verdicts, Kind.HALLUCINATION, number)
    return (
        HallucinationResult(**verdict.rated(HALLUCINATION_LABELS)) if _makes_claims(plan, number, invocation) else None
    )


def golden_result(
    plan: Plan, actual: Sequence[Invocation], *, final_state: Json | None, verdicts: Verdicts
) -> GoldenResult:
    """The outcomes of a golden by turn. Each turn that was asked has an invocation."""
    last = len(actual) - 1
    made = []
    for number, (turn, invocation) in enumerate(zip(plan.turns, actual, strict=False)):
        state = invocation.state if invocation.state is not None or number < last else final_state
        made.append(_Turn(plan, turn, invocation, number).result(verdicts, state=state))
    return GoldenResult(turn_replay_results=tuple(made), evaluation_expectation_results=_named(plan, verdicts))


def named_key(number: int, kind: str = NAMED) -> Key:
    """Where the verdict on an expectation of the whole conversation is found, or on a rubric (`RUBRICS`)."""
    return kind, -1, number, ""


def _named(plan: Plan, verdicts: Verdicts) -> tuple[EvaluationExpectationResult, ...]:
    return tuple(
        EvaluationExpectationResult(
            evaluation_expectation=name,
            prompt=plan.prompts.get(name.rpartition("/")[2], ""),
            outcome=verdict.outcome({1}),
            explanation=verdict.explanation,
        )
        for number, name in enumerate(plan.named)
        for verdict in (_verdict(verdicts, NAMED, step=number),)
    )


# --- scenarios ------------------------------------------------------------------------------------------


def scenario_result(plan: Plan, actual: Sequence[Invocation], *, verdicts: Verdicts) -> ScenarioResult:
    """The outcomes of a scenario."""
    scenario = plan.evaluation.scenario or Scenario()
    outcomes = tuple(_scenario_outcomes(plan, scenario, actual, verdicts)) if plan.compares_scenario else ()
    rated = [_claims(plan, number, invocation, verdicts) for number, invocation in enumerate(actual)]
    goal = verdicts.get((Kind.GOAL, -1, -1, ""))
    satisfied = None
    if plan.compares_scenario and UNKNOWN not in {each.outcome for each in outcomes}:
        satisfied = all(each.outcome is not Outcome.FAIL for each in outcomes)
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
        hallucination_result=tuple(each for each in rated if each is not None),
        user_goal_satisfaction_result=UserGoalSatisfactionResult(**goal.rated(GOAL_LABELS)) if goal else None,
        all_expectations_satisfied=satisfied,
        evaluation_expectation_results=_named(plan, verdicts),
    )
    return result.model_copy(update={"task_completed": _is_completed(result)})


def _is_completed(result: ScenarioResult) -> bool | None:
    """All expectations are satisfied, nothing is made up, and the user's goal is met; None where one is not known."""
    goal = result.user_goal_satisfaction_result
    made_up = [each.score for each in result.hallucination_result]
    if result.all_expectations_satisfied is None or goal is None or goal.score is None or None in made_up:
        return None
    return result.all_expectations_satisfied and 0 not in made_up and goal.score == 1


def _scenario_outcomes(
    plan: Plan, scenario: Scenario, actual: Sequence[Invocation], verdicts: Verdicts
) -> Iterator[ScenarioExpectationOutcome]:
    said = [text for invocation in actual for text in messages_of(invocation)]
    calls = [call for invocation in actual for call in calls_of(invocation)]
    responses = [response for invocation in actual for response in invocation.tool_responses]
    is_recorded = all(invocation.events is not None for invocation in actual)
    for step, each in enumerate(scenario.scenario_expectations):
        wanted = call_in(each)
        if wanted is None:
            yield _said_somewhere(each, said, _verdict(verdicts, Kind.SAID, step=step))
            continue
        call = _best(wanted, calls)
        if call is None:
            yield ScenarioExpectationOutcome(expectation=each, outcome=Outcome.FAIL if is_recorded else UNKNOWN)
            continue
        verdict_of = partial(_verdict, verdicts, Kind.ARGUMENT, -1, step)
        found = _parameters(wanted, call, comparison=AS_WRITTEN, verdict_of=verdict_of, least=plan.parameters(None))
        answer = next((one for one in responses if call.id is not None and one.id == call.id), None)
        observed = ObservedToolCall(
            tool_call=observed_call(call, app=plan.app, expected=wanted),
            tool_response=None if answer is None else observed_response(answer, wanted),
        )
        yield ScenarioExpectationOutcome(expectation=each, outcome=found.outcome, observed_tool_call=observed)


def _message_of(wanted: str, messages: Iterable[str]) -> str:
    """The message that says just this: "a refund is possible" is not said in "no, a refund is possible elsewhere"."""
    return next((text for text in messages if _plain(wanted) == _plain(text)), "")


def _said_somewhere(each: ScenarioExpectation, said: Sequence[str], verdict: Verdict) -> ScenarioExpectationOutcome:
    """An answer that a scenario expects: a message of these words, else by a judge."""
    wanted = text_of(each.agent_response)
    if not wanted:
        return ScenarioExpectationOutcome(expectation=each, outcome=Outcome.SKIPPED)
    found = _message_of(wanted, said)
    shown = found or (said[-1] if said else "")
    observed = Message(role="agent", chunks=(Chunk(text=shown),)) if shown else None
    outcome = Outcome.PASS if found else verdict.outcome({1})
    return ScenarioExpectationOutcome(expectation=each, outcome=outcome, observed_agent_response=observed)


# --- what it comes to -----------------------------------------------------------------------------------


class Group(enum.StrEnum):
    """What a check is of."""

    EXPECTATION = "expectation"  # what the agent did, which nobody needs a judge for
    SIMILARITY = "similarity"  # what a judge compares
    HALLUCINATION = "hallucination"
    NAMED = "named"  # expectations of the whole conversation
    GOAL = "goal"


@frozen_dataclass
class Check:
    """One thing that an evaluation asks for, and what came of it; `turn` counts from 1. `score`: on its own scale."""

    group: Group
    subject: str
    outcome: Outcome
    turn: int | None = None
    explanation: str = ""
    score: float | None = None


def checks(plan: Plan, result: GoldenResult | ScenarioResult) -> list[Check]:
    """All that counts for the status of a result, skipped ones included."""
    found = list(_of_golden(plan, result) if isinstance(result, GoldenResult) else _of_scenario(plan, result))
    for each in result.evaluation_expectation_results:
        subject = each.prompt or each.evaluation_expectation
        found.append(Check(group=Group.NAMED, subject=subject, outcome=each.outcome, explanation=each.explanation))
    return found


def _of_golden(plan: Plan, result: GoldenResult) -> Iterator[Check]:
    for number, turn in enumerate(result.turn_replay_results, start=1):
        for each in turn.expectation_outcome:
            yield _of_expectation(each, number)
        overall = turn.overall_tool_invocation_result
        if overall is not None and overall.outcome is not Outcome.SKIPPED:
            score = overall.tool_invocation_score or 0.0
            yield Check(
                group=Group.EXPECTATION,
                subject="share of expected tools called",
                outcome=overall.outcome,
                turn=number,
                explanation=f"{score:g}",
                score=score,
            )
        if plan.assesses_hallucination(plan.turns[number - 1]) and turn.hallucination_result is not None:
            yield _of_hallucination(turn.hallucination_result, number)


def _of_hallucination(result: HallucinationResult, turn: int) -> Check:
    return Check(
        group=Group.HALLUCINATION,
        subject=result.label or "claims",
        outcome=Verdict(score=result.score).outcome({1, -1}),
        turn=turn,
        explanation=result.explanation,
        score=result.score,
    )


def _of_expectation(each: GoldenExpectationOutcome, turn: int) -> Check:
    expected = each.expectation or GoldenExpectation()
    similar, tool = each.semantic_similarity_result, each.tool_invocation_result
    is_open = expected.tool_call is not None and has_semantic(expected.tool_call, expected.comparison_type)
    score: float | None = similar.score if similar else tool.parameter_correctness_score if tool else None
    explanation = (similar.explanation if similar else "") or (tool.explanation if tool else "")
    if expected.note == UNEXPECTED_CALL and each.observed_tool_call is not None:
        explanation = ", ".join(sorted(names_of(each.observed_tool_call)))
    elif expected.note == UNEXPECTED_RESPONSE and each.observed_agent_response is not None:
        explanation = text_of(each.observed_agent_response)[:300]
    return Check(
        group=Group.SIMILARITY if similar is not None or is_open else Group.EXPECTATION,
        subject=described(expected),
        outcome=each.outcome,
        turn=turn,
        explanation=explanation,
        score=score,
    )


def _of_scenario(plan: Plan, result: ScenarioResult) -> Iterator[Check]:
    for each in result.expectation_outcomes:
        asked = each.expectation or ScenarioExpectation()
        tool = call_in(asked)
        is_open = tool is None or has_semantic(tool, AS_WRITTEN)
        said = f"says {text_of(asked.agent_response)[:200]!r}"
        yield Check(
            group=Group.SIMILARITY if is_open else Group.EXPECTATION,
            subject=said if tool is None else f"calls {min(names_of(tool))}",
            outcome=each.outcome,
        )
    if plan.assesses_hallucination(None):
        for number, rated in enumerate(result.hallucination_result, start=1):
            yield _of_hallucination(rated, number)
    if plan.judges_goal:
        goal = result.user_goal_satisfaction_result
        score = goal.score if goal else None
        yield Check(
            group=Group.GOAL,
            subject=f"the user's goal is {'met' if plan.goal_score else 'refused'}",
            outcome=Verdict(score=score).outcome({plan.goal_score}),
            explanation=f"{goal.label}: {goal.explanation}" if goal else "",
            score=score,
        )


def has_semantic(call: ToolCall, comparison: ComparisonType) -> bool:
    """Whether an expected call has an argument that is compared by its meaning."""
    values = (call.args or {}).values()
    if any(isinstance(value, Mapping) and value.get("$matchType") == "semantic" for value in values):
        return True
    return comparison is ComparisonType.SEMANTIC_SIMILARITY and any(isinstance(value, str) for value in values)


def described(expected: GoldenExpectation) -> str:
    """What is expected, for people: the note, else what it says."""
    if expected.note:
        return expected.note
    value = getattr(expected, shapes.given_of(expected), None)
    match value:
        case ToolCall() | ToolResponse():
            what = "calls" if isinstance(value, ToolCall) else "response of"
            return f"{what} {min(names_of(value), key=len)}"
        case Message():
            return f"says {text_of(value)[:200]!r}"
        case AgentTransfer():
            return f"transfers to {value.target_agent.rpartition('/')[2]}"
        case Mapping():
            return f"sets {', '.join(value)}"
        case _:
            return "calls no tool"


def status(found: Iterable[Check]) -> Outcome | None:
    """PASS where all that counts is met, FAIL where something is not, SKIPPED where nothing counts.

    None where something could not be told: the execution state is then ERROR (METRIC_CALCULATION_FAILURE).
    """
    outcomes = {each.outcome for each in found}
    decisive = (each for each in (UNKNOWN, Outcome.FAIL, Outcome.PASS) if each in outcomes)
    return next(decisive, Outcome.SKIPPED) or None
