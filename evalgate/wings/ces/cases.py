"""CES evaluations as cases of the gate: the messages to the agent, turn by turn, and the criteria
that decide; and the CES files of a checkout, recognized by their content: first in the folders of
an export, then in all others."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse
from posixpath import basename

from evalgate import agents, errors
from evalgate.config.settings import Settings
from evalgate.discovery import walk
from evalgate.errors import Place, Problem
from evalgate.formats.base import Format, FormatFiles, SearchedTree
from evalgate.model import (
    AgentUse,
    Attachment,
    Case,
    Content,
    ConversationScenario,
    CriterionUse,
    EvalSet,
    Event,
    Invocation,
    Part,
    Persona,
    SessionInput as AdkSession,
    Suite,
    Text,
    ToolCall as AdkCall,
    ToolResponse as AdkResponse,
    TurnSetup,
)
from evalgate.model.json_match import MISSING
from evalgate.simulation import user
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, digest_of, grouped, with_keys, without
from evalgate.worker.pipe import present
from . import compare, cxas, outcomes, read, shapes
from .cxas import TRANSFER, Simulation, ToolTest
from .outcomes import (
    EXPECTATIONS,
    PLATFORM,
    RUBRICS,
    SIMILARITY,
    Plan,
    expectations_of,
)
from .read import AppEvaluation, Kind, Library, Resource
from .shapes import (
    AgentTransfer,
    Chunk,
    Evaluation,
    EvaluationDataset,
    EvaluationExpectation,
    EvaluationPersona,
    EvaluationSettings,
    EvaluationToolCallBehaviour,
    Golden,
    GoldenExpectation,
    GoldenRunMethod,
    GoldenTurn,
    Message,
    Proto,
    Scenario,
    ScenarioConversationInitiator,
    SemanticSimilarityChannel,
    SessionInput,
    ToolCall,
    ToolResponse,
)

RUN = (Kind.EVALUATION, Kind.CONVERSATIONS, Kind.SIMULATIONS)
"""The kinds that run; a tool test needs a tool without its agent, which no driver has."""

WELCOME = "<event>welcome</event>"
"""The first message of a conversation in which the agent speaks first."""


def eval_sets(
    library: Library, selected_ids: Mapping[str, Sequence[str]]
) -> tuple[dict[str, EvalSet], tuple[Problem, ...]]:
    """The evaluations by file, as sets of cases, and the reasons why some do not run: an error if
    the user named them. Files with errors are not among them. `selected_ids`: by file, empty for
    all of its evaluations."""
    sets: dict[str, EvalSet] = {}
    problems: list[Problem] = []
    app_of = functools.cache(functools.partial(_App, library))
    for file, reading in library.readings.items():
        if errors.errors_in(reading.problems):
            continue
        cases: dict[str, Case] = {}
        for resource in reading.resources:
            if resource.kind not in RUN:
                continue
            reason = not_run_reason(resource.message)
            if reason:
                message = f"the evaluation {resource.title!r} is not run: {reason}"
                ids = selected_ids.get(file)
                is_named = ids is not None and (not ids or resource.title in ids)
                factory = errors.error if is_named and reason != ALL_SKIPPED else errors.warning
                problems.append(factory("ces-not-run", message, resource.place, "See docs/ces.md."))
                continue
            name = resource.title
            number = 1
            while name in cases:
                number += 1
                name = f"{resource.title} ({number})"
            cases[name] = app_of(read.app_folder(file)).case(resource, name)
        if cases:
            sets[file] = EvalSet(eval_set_id=read.stem(file), cases=tuple(cases.values()))
    return sets, tuple(problems)


ALL_SKIPPED = "it skips every expectation"


def _expectations(turns: Iterable[GoldenTurn]) -> list[GoldenExpectation]:
    return [expectation for turn in turns for expectation in expectations_of(turn).values()]


def not_run_reason(message: Proto) -> str:
    """The reason why an evaluation does not run: it needs more than text, or asks for nothing."""
    golden = message.golden if isinstance(message, Evaluation) else None
    if golden is not None and not golden.evaluation_expectations:
        expected = _expectations(golden.turns)
        if expected and all(expectation.skip_evaluation for expectation in expected):
            return ALL_SKIPPED
    for field, value in shapes.values_in(message):
        if value and field.handling is shapes.Handling.NOT_RUN:
            return f"`{field.key}` is not text"
        if value is SemanticSimilarityChannel.AUDIO:
            return "its answers are compared as audio"
    return ""


class _App:
    """An app's settings for its evaluations, and the files beside them."""

    def __init__(self, library: Library, folder: str) -> None:
        readings = [
            reading
            for file, reading in library.all_files.items()
            if read.app_folder(file) == folder
        ]
        self._settings = EvaluationSettings()
        self._thresholds = shapes.EvaluationMetricsThresholds()
        self._prompts: dict[str, str] = {}
        self._personas: list[EvaluationPersona] = []
        for resource in (resource for reading in readings for resource in reading.resources):
            match resource.message:
                case AppEvaluation() as app:
                    self._settings = app.evaluation_settings or self._settings
                    self._thresholds = app.evaluation_metrics_thresholds or self._thresholds
                case EvaluationExpectation(llm_criteria=criteria, display_name=title) if criteria:
                    names = (resource.id, resource.title, basename(title))
                    self._prompts |= dict.fromkeys(names, criteria.prompt)
                case EvaluationPersona() as persona:
                    self._personas.append(persona)
        for reading in readings:
            self._prompts |= reading.prompts

    def case(self, resource: Resource, name: str) -> Case:
        """The case of an evaluation, with the criteria that decide on it or inform about it."""
        message = resource.message
        initiator = self._settings.scenario_conversation_initiator
        starting_prompt = WELCOME if initiator is ScenarioConversationInitiator.AGENT else ""
        goals: tuple[str, ...] = ()
        if isinstance(message, Simulation):
            goals = cxas.goal_texts(message)
            starting_prompt = message.steps[0].static_utterance or starting_prompt
            message = cxas.scenario_of(message)
        assert isinstance(message, Evaluation)
        # the platform's results decide nothing
        bare = Evaluation.model_validate(shapes.content_of(message))
        inputs = bare.golden or bare.scenario or Scenario()
        names = [basename(name) for name in inputs.evaluation_expectations]
        plan = Plan(
            evaluation=bare,
            thresholds=self._thresholds,
            config=self._settings.metrics_config or shapes.EvaluationMetricsConfig(),
            prompts=with_keys(self._prompts, names),
            goals=goals,
        )
        return Case(
            case_id=name,
            place=resource.place,
            criteria=frozenset(_criteria(plan)),
            ces=plan.json(),
            **(
                self._golden(inputs)
                if isinstance(inputs, Golden)
                else self._scenario(inputs, plan, starting_prompt, name)
            ),
        )

    def _golden(self, golden: Golden) -> JsonObject:
        """The fields of a golden's case."""
        is_stable = self._settings.golden_run_method is not GoldenRunMethod.NAIVE
        behavior = self._settings.golden_evaluation_tool_call_behaviour
        fakes = behavior is EvaluationToolCallBehaviour.FAKE
        return {
            "conversation": tuple(map(_invocation, golden.turns)),
            "setups": tuple(
                _setup(turn, is_stable=is_stable, fakes=fakes) for turn in golden.turns
            ),
            "isolated": is_stable and len(golden.turns) > 1,
        }

    def _scenario(
        self, scenario: Scenario, plan: Plan, starting_prompt: str, name: str
    ) -> JsonObject:
        """The fields of a scenario's case."""
        task = outcomes.task_of(scenario)
        if not plan.goal_score:
            task += "\n\nThe agent may refuse this. Take a clear refusal as the end of the conversation."
        mocks = [
            (tool.mock_tool_response, tool.expected_tool_call.args)
            for expectation in scenario.scenario_expectations
            if (tool := expectation.tool_expectation)
            if tool.mock_tool_response and tool.expected_tool_call
        ]
        behavior = self._settings.scenario_evaluation_tool_call_behaviour
        fakes = behavior is EvaluationToolCallBehaviour.FAKE
        state = dict(scenario.variable_overrides or {})
        return {
            "scenario": ConversationScenario(
                starting_prompt=starting_prompt,
                conversation_plan=task,
                persona=self._persona(name),
                max_turns=scenario.max_turns or shapes.MOST_TURNS,
            ),
            "session": AdkSession(user_id="user", state=state) if state else None,
            "setups": (TurnSetup(tools=_rules(mocks), mocks=bool(mocks), fakes=fakes),),
        }

    def _persona(self, name: str) -> Persona | None:
        """A persona of the app, always the same one for a scenario; the platform picks any."""
        if not self._personas:
            return None
        number = int(digest_of(name, 8), 16)
        personas = sorted(self._personas, key=lambda persona: persona.display_name)
        persona = personas[number % len(personas)]
        return Persona(persona_id=persona.display_name, description=persona.personality)


# --- turns of goldens -----------------------------------------------------------------------------


def _invocation(turn: GoldenTurn) -> Invocation:
    """A turn with all that happens in it, including answers that are not evaluated and answers of
    mocks. The last answer is the final one. `events` None: the turn does not mention calls."""
    expected = expectations_of(turn).values()
    answered = {
        outcomes.names_of(expectation.tool_response)
        for expectation in expected
        if expectation.tool_response
    }
    events: list[Event] = []
    last: int | None = None
    for expectation in expected:
        parts = _expected_parts(expectation, answered)
        if parts is None:
            continue
        message = expectation.agent_response
        last = last if message is None else len(events)
        author = (
            message.role if message is not None and message.role not in ("", "user") else "agent"
        )
        role = "user" if expectation.tool_response or expectation.mock_tool_response else "model"
        events.append(Event(author=author, content=Content(parts=tuple(parts), role=role)))
    answer = None if last is None else events.pop(last).content
    has_calls = events or any(expectation.no_tool_calls is not None for expectation in expected)
    return Invocation(
        user_content=_user_content(turn),
        final_response=answer,
        events=tuple(events) if has_calls else None,
    )


def _expected_parts(
    expected: GoldenExpectation, answered: Collection[tuple[str, ...]]
) -> list[Part] | None:
    """The actions of the agent or its tools if all goes as expected. `answered`: the tools with an
    expected response, whose mocks add nothing."""
    match getattr(expected, shapes.present_field(expected), None):
        case Message(chunks=chunks):
            parts = [part for chunk in chunks for part in _plain(chunk)]
            return parts if parts or not chunks else None
        case AgentTransfer(target_agent=target):
            return [AdkCall(name=TRANSFER, args={"agent_name": basename(target)})]
        case ToolCall() as call:
            name = outcomes.names_of(call)[0]
            # the name alone means a transfer
            name = f"{TRANSFER}_tool" if name == TRANSFER else name
            return [
                AdkCall(
                    name=name,
                    args=None if call.args is None else _plain_args(call.args),
                    id=call.id or None,
                )
            ]
        case ToolResponse() as given if (
            expected.tool_response or outcomes.names_of(given) not in answered
        ):
            return [_response(given)]
    return None


def _plain_args(args: Json) -> JsonObject:
    """The arguments of a call: an argument with a comparison becomes its value, if it has one."""
    literals: JsonObject = {}
    for name, value in args.items():
        if not isinstance(value, Mapping) or "$matchType" not in value:
            literals[name] = value
        elif value["$matchType"] != "ignore" and "$originalValue" in value:
            literals[name] = value["$originalValue"]
    return literals


def _user_content(turn: GoldenTurn) -> Content:
    parts: list[Part] = []
    for step in turn.steps:
        user_input = step.user_input or SessionInput()
        if user_input.event is not None:
            parts.append(Text(text=f"<event>{user_input.event.event}</event>"))
        elif user_input.tool_responses is not None:
            parts += map(_response, user_input.tool_responses.tool_responses)
        else:
            parts += _plain(user_input)
    return Content(parts=tuple(parts), role="user")


def _plain(content: SessionInput | Chunk) -> list[Part]:
    """The text or the data of a content; None for anything else."""
    if content.text is not None:
        return [Text(text=content.text)]
    media = content.image or content.blob
    if media:
        return [
            Attachment(data={"inline_data": {"mime_type": media.mime_type, "data": media.data}})
        ]
    return []


def _response(response: ToolResponse) -> AdkResponse:
    return AdkResponse(
        name=outcomes.names_of(response)[0],
        response=dict(response.response or {}),
        id=response.id or None,
    )


def _setup(turn: GoldenTurn, *, is_stable: bool, fakes: bool) -> TurnSetup:
    state: JsonObject = {}
    agent = ""
    for step in turn.steps:
        if step.user_input is not None and step.user_input.variables:
            state |= step.user_input.variables
        if step.agent_transfer is not None:
            agent = basename(step.agent_transfer.target_agent)
    expected = expectations_of(turn).values()
    mocks = [
        expectation.mock_tool_response
        for expectation in expected
        if expectation.mock_tool_response is not None
    ]
    mocked = {name for mock in mocks for name in outcomes.names_of(mock)}
    replies = list(mocks)
    if is_stable or fakes:
        replies += [
            expectation.tool_response
            for expectation in expected
            if expectation.tool_response is not None
            and mocked.isdisjoint(outcomes.names_of(expectation.tool_response))
        ]
    args = {
        expectation.tool_call.id: expectation.tool_call.args
        for expectation in expected
        if expectation.tool_call and expectation.tool_call.id
    }
    rules = _rules([(reply, args.get(reply.id)) for reply in replies])
    return TurnSetup(state=state, agent=agent, tools=rules, mocks=bool(mocks), fakes=fakes)


def _rules(responses: Sequence[tuple[ToolResponse, Json | None]]) -> dict[str, tuple[Json, ...]]:
    """The rules of a mock file that give these responses: to the call that they belong to,
    otherwise in order. The last response goes to every further call, so that no real tool runs
    alongside a mock."""
    by_name = grouped((name, pair) for pair in responses for name in outcomes.names_of(pair[0]))
    rules_by_tool = {}
    for name, responses_of_tool in by_name.items():
        rules: list[Json] = []
        for response, args in responses_of_tool if len(responses_of_tool) > 1 else ():
            exact = {
                key: value for key, value in (args or {}).items() if not isinstance(value, Mapping)
            }
            if exact:
                rules.append({"args": exact, **_answer(response)})
        rules += [{"times": 1, **_answer(response)} for response, _ in responses_of_tool[:-1]]
        rules_by_tool[name] = (*rules, _answer(responses_of_tool[-1][0]))
    return rules_by_tool


def _answer(response: ToolResponse) -> JsonObject:
    """`output` is the result, `error` an error; without either the whole object is the result."""
    content = dict(response.response or {})
    if set(content) == {"error"}:
        return {"error": {"type": "RuntimeError", "message": str(content["error"])}}
    return {"response": content["output"] if set(content) == {"output"} else content}


def _criteria(plan: Plan) -> Iterator[str]:
    scenario = plan.evaluation.scenario
    yield PLATFORM
    if scenario is None:
        yield EXPECTATIONS  # at least: no unexpected answer or call
        compares_calls = plan.is_on("golden", "step_tool_correctness")
        for expectation in _expectations(plan.turns):
            call = plan.expected_call(expectation)
            is_judged = plan.judges_answer(expectation) or (
                compares_calls and call is not None and call.may_need_judge
            )
            if is_judged and not expectation.skip_evaluation:
                yield SIMILARITY
    else:
        expected = scenario.scenario_expectations
        says = any(outcomes.text_of(expectation.agent_response) for expectation in expected)
        calls = list(filter(None, map(plan.expected_call, expected)))
        if plan.compares_scenario and calls:
            yield EXPECTATIONS
        if plan.compares_scenario and (says or any(call.may_need_judge for call in calls)):
            yield SIMILARITY
        if plan.judges_goal:
            yield outcomes.GOAL
        if scenario.rubrics:
            yield RUBRICS
    if any(map(plan.judges_hallucination, plan.turns if scenario is None else (None,))):
        yield outcomes.HALLUCINATION
    if plan.conversation_expectations:
        yield outcomes.NAMED
    if plan.goals:
        yield outcomes.GOALS


def differences(base: Case, head: Case) -> list[str]:
    """The differences between two versions of an evaluation and its settings, in words."""
    lines = []
    for change in compare.changes(_compared(base), _compared(head)):
        # a golden of one turn has no run method
        is_new_method = change.path == ("goldenRunMethod",) and MISSING in (change.old, change.new)
        if change.path[:1] in (("description",), ("tags",)) or is_new_method:
            continue
        for leaf in compare.leaves(change):
            # the last name of a path with its index: the whole path is long and adds little
            start = max(index for index, step in enumerate(leaf.path) if isinstance(step, str))
            lines.append(str(replace(leaf, path=leaf.path[start:])))
    return lines


def _compared(case: Case) -> JsonObject:
    """The parts that decide on a case, under names by which `compare` recognizes a relaxation."""
    plan = Plan.model_validate(case.ces or {})
    talk = case.scenario
    persona = talk.persona if talk else None
    settings = {
        "goldenRunMethod": ("STABLE" if case.isolated else "NAIVE") if len(case.turns) > 1 else "",
        "toolCallBehaviour": "FAKE" if any(setup.fakes for setup in case.setups) else "",
        "startingPrompt": talk.starting_prompt if talk else "",
        # the user that the agent meets may be easier to please
        "persona": f"{persona.persona_id}: {persona.description}"
        if isinstance(persona, Persona)
        else "",
    }
    return {
        **shapes.content_of(plan.evaluation),
        **present(**settings),
        "app": {
            "evaluationMetricsThresholds": plan.thresholds.json(),
            "metricsConfig": plan.config.json(),
        },
        "llmCriteria": dict(plan.prompts),
        "scenario goals": {"scenario": list(plan.goals)},
    }


# --- the files of a checkout ----------------------------------------------------------------------

MOST_SNIFFED = 2000
"""The most files that are opened; files in folders of CES come first."""
HEAD_BYTES = 65_536
LARGEST_BYTES = 16 * 1024 * 1024


class CesLibrary(Library, FormatFiles):
    """The chosen CES files with their problems, and the files that apply to them."""

    noun = "CES evaluation"

    def files(self) -> Collection[str]:
        """The chosen files, and the files that apply to them."""
        return self.all_files.keys()

    def eval_sets(
        self, selected_ids: Mapping[str, Sequence[str]]
    ) -> tuple[Mapping[str, EvalSet], tuple[Problem, ...]]:
        """Evaluations, goldens and simulations; no tool tests, since no driver has a tool alone."""
        sets, set_problems = eval_sets(self, selected_ids)
        deciding_files = {
            file for file, reading in self.all_files.items() if reading.kind in (*RUN, Kind.APP)
        }
        problems = [
            problem
            for problem in self.problems
            if problem.place and problem.place.file in deciding_files
        ]
        problems += set_problems
        tests = self.of(Kind.TOOL_TESTS)
        if tests:
            message = f"{words.counted(len(tests), 'tool test')} found and not run: evalgate runs agents, not their tools alone"
            hint = "`evalgate list` shows them; `cxas test-tools` runs them."
            problems.append(errors.warning("ces-not-run", message, tests[0].place, hint))
        return sets, tuple(problems)

    def holds_cases(self, file: str) -> bool:
        """True if files of this kind run."""
        return file in self.readings and self.readings[file].kind in RUN

    def criteria_of(self, cases_of_file: Iterable[Case], agent: AgentUse) -> list[CriterionUse]:
        """The criteria that the evaluations name; for a scenario also one for its end, since CES
        allows an unfinished conversation. If the platform runs them, only its outcome decides."""
        listed = tuple(cases_of_file)
        used_names = {name for case in listed for name in case.criteria or ()}
        is_led = agents.is_led(agent)
        uses = [
            CriterionUse(name=name, threshold=None, informational=True)
            if is_led or name == RUBRICS
            else CriterionUse(name=name, threshold=1.0)
            for name in outcomes.CRITERIA
            if name in used_names
        ]
        if is_led:
            return [CriterionUse(name=PLATFORM, threshold=1.0), *uses]
        if any(case.scenario is not None for case in listed):
            uses.append(CriterionUse(name=user.ENDED, threshold=None, informational=True))
        return uses

    def evaluation_count(self) -> int:
        """The number of evaluations, including tool tests."""
        return len(self.of(Kind.EVALUATION, *read.CXAS))

    def lines(self, *, measured_files: Collection[str]) -> Iterator[str]:
        """Each file with its contents."""
        for file, reading in self.readings.items():
            if file in measured_files:
                continue
            is_ready = any(not not_run_reason(resource.message) for resource in reading.resources)
            reason = "no agent" if reading.kind in RUN and is_ready else "not run"
            yield from (file, f"  CES       {reading.kind} ({reason})")
            for resource in reading.resources:
                if not isinstance(resource.message, AppEvaluation):
                    yield f"    - {resource.title} ({described(resource)})"
                elif resource.message.evaluation_metrics_thresholds is not None:
                    yield "    - thresholds of the app"


def described(resource: Resource) -> str:
    """A CES resource in a few words."""
    match resource.message:
        case Evaluation(golden=Golden() as golden):
            description = f"golden, {words.counted(len(golden.turns), 'turn')}"
        case Evaluation(scenario=Scenario()):
            description = "scenario"
        case Simulation(steps=steps):
            description = f"simulation, {words.counted(len(steps), 'goal')}"
        case ToolTest(tool=tool):
            description = f"tool test of {tool}"
        case EvaluationDataset(evaluations=evaluations):
            description = f"dataset, {words.counted(len(evaluations), 'evaluation')}"
        case _:
            description = str(resource.kind)
    return ", ".join((description, *getattr(resource.message, "tags", ())))


class CesFormat(Format):
    """Evaluations of Customer Engagement Suite."""

    name = "CES"

    def is_evaluation_file(self, path: str) -> bool:
        """True for a file in the evaluation folders of an export."""
        return read.kind_by_folder(path) is not None

    def find(self, tree: SearchedTree, *, named_files: Iterable[str] = ()) -> tuple[str, ...]:
        """The CES files of the tree and those that the user named, by their content. Files among
        the evaluations of an app also count by their place, so that a typing error does not hide
        one: a file that is not an evaluation is an error there."""
        all_files = dict.fromkeys((*named_files, *tree.other_yaml, *tree.other_json))
        listed = list(filterfalse(tree.is_excluded, all_files))
        first_in_folders = sorted(listed, key=lambda path: read.FOLDERS.isdisjoint(path.split("/")))
        looked = first_in_folders[:MOST_SNIFFED]
        heads = ((path, walk.read_head(tree.root, path, size=HEAD_BYTES)) for path in looked)
        ces_files = {
            path
            for path, head in heads
            if read.kind_of(head.decode("utf-8", "replace"), file=path) is not None
        }
        # the folders of apps that have evaluations or settings for them
        homes = {
            read.app_folder(path)
            for path in ces_files
            if read.stem(path) == "app" or read.kind_by_folder(path) is not None
        }
        at_home = (
            path
            for path in listed
            if (read.kind_by_folder(path) is not None or "evaluations" in path.split("/")[:-1])
            and read.app_folder(path) in homes
        )
        return tuple(sorted(ces_files.union(at_home)))

    def read(
        self, tree: SearchedTree, files: Collection[str], *, chosen: Collection[str]
    ) -> CesLibrary:
        """Read the `chosen` files, with their problems and those of the files that apply to them.
        They may refer to any of the `files`."""
        ces_library = read.library(
            {
                key: plain.decode(tree.read(key, largest=LARGEST_BYTES), file=key)
                for key in (files if chosen else ())
            }
        )
        readings = ces_library.readings
        apps = {read.app_folder(file) for file in chosen}
        reported_files = {
            *chosen,
            *(
                file
                for file, reading in readings.items()
                if reading.kind in read.APPLIES and read.app_folder(file) in apps
            ),
        }
        beside = without(readings, chosen)
        return CesLibrary(
            readings=without(readings, beside),
            beside=beside,
            problems=tuple(
                problem
                for problem in ces_library.problems
                if problem.place and problem.place.file in reported_files
            ),
        )

    def why_unchanged(self, text: str, *, file: str) -> str:
        """The reason for an evaluation, which only people and assistants edit; otherwise ""."""
        reason = "it is a CES evaluation: change its file, or let an assistant do so (docs/ces.md)"
        return reason if read.kind_of(text, file=file) in RUN else ""

    def find_problems(self, settings: Settings, suites: Sequence[Suite]) -> Iterator[Problem]:
        """With `on-platform`, the files whose agent is not an app."""
        for suite in suites if settings.on_platform else ():
            if not agents.is_led(suite.agent):
                message = "no platform can run it: its agent is not one of the driver `ces`"
                yield errors.error("platform-missing", message, Place(suite.key))

    def differences(self, base: Case, head: Case) -> list[str] | None:
        """See the function `differences`."""
        return differences(base, head) if base.ces and head.ces else None


FORMAT = CesFormat()
