"""The linter: evaluation files and criteria that cannot mean what their author wants, and likely
mistakes: rules that match nothing, files that git ignores, and files with nearly correct names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath

from evalgate import agents, errors, formats
from evalgate.config import places
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.criteria import response_match
from evalgate.errors import NoEvaluationFile, NothingToDo, Place, Problem, errors_in
from evalgate.model import (
    Attachment,
    Case,
    ConfigOrigin,
    CriterionUse,
    Invocation,
    Need,
    Suite,
    turns as model_turns,
)
from evalgate.model.case import TRAJECTORY
from evalgate.model.deviations import OURS, Deviations
from evalgate.text import plain, templates, words
from evalgate.values import grouped
from . import walk
from .walk import Tree


def _uses_with(suite: Suite, need: Need) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that have this need and decide every case."""
    return (
        use
        for use in suite.criteria
        if use.code is None and need in use.needs and not use.is_partial
    )


def _place_of(suite: Suite, part: Case | CriterionUse) -> Place:
    """The place of a part of a suite, else of its file."""
    return part.place or Place(suite.key)


def _case_names(cases: Sequence[Case]) -> str:
    """`case a`, or `cases a, b and 7 more`."""
    return (
        f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"
    )


def silent_conversations(suite: Suite) -> Iterator[Problem]:
    """A conversation without turns: no criterion can score it. A turn without user text: models
    refuse it or invent an answer."""
    empty_cases = [case for case in suite.cases if case.scenario is None and not case.conversation]
    if empty_cases:
        message = f"{_case_names(empty_cases)}: the conversation has no turns, so the agent is never called"
        yield errors.error("empty-conversation", message, _place_of(suite, empty_cases[0]))
    silent_cases = [
        case
        for case in suite.cases
        if any(
            not turn.user_content.text(with_thoughts=True).strip()
            and not any(isinstance(part, Attachment) for part in turn.user_content.parts)
            for turn in case.turns
        )
    ]
    if silent_cases:
        message = f"{_case_names(silent_cases)}: a turn has no user text"
        yield errors.warning("empty-user-text", message, _place_of(suite, silent_cases[0]))


STATE = "final_session_state"
ANSWER = "response_match_score"
MATCH = "final_response_match_v2"
ENDED = "conversation_ended"


def _deciding(suite: Suite, case: Case) -> list[CriterionUse]:
    return [use for use in suite.criteria_of(case) if use.threshold is not None]


def nothing_expected(suite: Suite) -> Iterator[Problem]:
    """A trajectory is scored although no case expects a tool call, or some cases do not mention
    tools."""
    use = next((use for use in suite.criteria if use.name == TRAJECTORY and use.code is None), None)
    if use is None:
        return
    scripted_cases = [case for case in suite.cases if case.conversation and use.applies_to(case)]
    others_decide = any(len(_deciding(suite, case)) > 1 for case in scripted_cases)
    if not scripted_cases or (use.where_applicable and others_decide):
        return
    if not any(turn.tool_calls for case in scripted_cases for turn in case.turns):
        effect = (
            "it passes only if the agent calls no tools"
            if use.options.get("match_type", "EXACT") == "EXACT"
            else "it always passes"
        )
        message = f"`{TRAJECTORY}`: no case expects a tool call, so {effect}"
        hint = "Add the expected `tool_uses` to `intermediate_data`, or remove the criterion."
        yield errors.warning("nothing-expected", message, Place(suite.key), hint)
        return
    silent_cases = [
        case for case in scripted_cases if all(turn.events is None for turn in case.turns)
    ]
    if silent_cases:
        yield errors.note(
            "nothing-expected-in-case",
            f"`{TRAJECTORY}`: {_case_names(silent_cases)} say{'s' if len(silent_cases) == 1 else ''} nothing about tools, "
            f"which means that none are expected",
            _place_of(suite, silent_cases[0]),
        )


def nothing_asserted(suite: Suite) -> Iterator[Problem]:
    """A case to which no criterion applies, so that it could never pass."""
    if not any(use.is_partial for use in suite.criteria):
        return
    cases = suite.cases
    idle_cases = [case for case in cases if case.conversation and not _deciding(suite, case)]
    if idle_cases:
        is_whole = len(idle_cases) == len(cases)
        subject = (
            "no case expects"
            if is_whole
            else f"{_case_names(idle_cases)} {'does' if len(idle_cases) == 1 else 'do'} not expect"
        )
        message = f"{subject} an answer or tool calls, so the criteria have nothing to assert"
        hint = "Add `final_response` or `intermediate_data`; or a test_config.json with criteria that need no reference"
        hint += ", such as rubrics."
        report = errors.error if is_whole else errors.warning
        yield report("asserts-nothing", message, _place_of(suite, idle_cases[0]), hint)


def references_missing(suite: Suite, *, deviations: Deviations = OURS) -> Iterator[Problem]:
    """A reference-based criterion without references: an error if no case has one, a warning if
    some lack one."""
    scripted_cases = [case for case in suite.cases if case.conversation]
    reference_uses = {use.name for use in _uses_with(suite, Need.REFERENCE)}
    for use in suite.criteria:
        if use.code is not None or (use.name not in reference_uses and use.name != STATE):
            continue
        turns_by_case = [(case, _turns_without(use, case)) for case in scripted_cases]
        lacking_cases = [case for case, numbers in turns_by_case if numbers]
        if not lacking_cases:
            continue
        expectation = "expected `final_response`"
        if use.name == STATE:
            expectation = "expected final session state"
        elif any(
            _answers(case.turns[number - 1])
            for case, numbers in turns_by_case
            for number in numbers
        ):
            expectation += " with text"
        if all(len(numbers) == len(case.turns) for case, numbers in turns_by_case):
            message = f"`{use.name}`: no case has an {expectation} to compare with"
            file = suite.criteria_source.file
            source = file or "the criteria (ADK's defaults are in use: add a test_config.json)"
            hint = f"Add one to each case, or remove `{use.name}` from {source}."
            yield errors.error("reference-missing", message, Place(suite.key), hint)
        else:
            first_case = lacking_cases[0]
            numbers = _turns_without(use, first_case)
            location = _case_names(lacking_cases)
            if len(lacking_cases) == 1 and len(numbers) < len(first_case.turns):
                turns_text = " and ".join(map(str, numbers))
                location += f" (turn{'s' if len(numbers) > 1 else ''} {turns_text})"
            message = f"`{use.name}`: no {expectation} in {location}"
            in_adk = {ANSWER: "scores it 0", MATCH: "has it compared with an empty answer"}.get(
                use.name
            )
            hint = f"evalgate excludes such turns from the score; ADK {in_adk}." if in_adk else ""
            if in_adk and not deviations.reference_empty:
                hint = f"With `adk_compat` evalgate {in_adk}, as ADK does."
            yield errors.warning(
                "reference-missing-in-case",
                message,
                _place_of(suite, first_case),
                hint,
            )


def criteria_of_other_cases(suite: Suite) -> Iterator[Problem]:
    """A reference-based criterion on a scenario, which has no expected turns; or a criterion of
    simulated users, or of how conversations end, on a conversation with fixed turns."""
    scenario_cases = [case for case in suite.cases if case.scenario is not None]
    if scenario_cases:
        for use in _uses_with(suite, Need.REFERENCE):
            yield errors.error(
                "criterion-needs-reference",
                f"`{use.name}` compares with expected turns, but {_case_names(scenario_cases)} "
                f"{'is a scenario and has' if len(scenario_cases) == 1 else 'are scenarios and have'} none",
                _place_of(suite, scenario_cases[0]),
                "Move scenarios to a separate file with criteria that need no reference.",
            )
    scripted_cases = [case for case in suite.cases if case.scenario is None]
    if scripted_cases:
        for use in _uses_with(suite, Need.SCENARIO):
            report = errors.error if len(scripted_cases) == len(suite.cases) else errors.warning
            yield report(
                "criterion-needs-scenario",
                f"`{use.name}` judges a simulated user, but {_case_names(scripted_cases)} "
                f"{'is not a conversation scenario' if len(scripted_cases) == 1 else 'are not conversation scenarios'}",
                _place_of(suite, scripted_cases[0]),
            )
    end_uses = (
        use
        for use in suite.criteria
        if use.name == ENDED and not use.code and not use.informational
    )
    for use in end_uses if scripted_cases and not scenario_cases else ():
        message = f"`{ENDED}`: no case is a conversation scenario, so it always passes"
        hint = "Remove it: suites with scenarios have it by default."
        yield errors.warning("nothing-to-end", message, _place_of(suite, use), hint)


def rubrics_missing(suite: Suite) -> Iterator[Problem]:
    """A rubric criterion without rubrics in its options, in the case or in a turn."""
    for use in _uses_with(suite, Need.RUBRICS):
        cases = suite.cases
        lacking_cases = [
            case
            for case in cases
            if not (
                use.options.get("rubrics")
                or case.rubrics
                or any(turn.rubrics for turn in case.turns)
            )
        ]
        if lacking_cases and len(lacking_cases) == len(cases):
            message = f"`{use.name}` has no rubrics, and neither has any case"
            hint = 'Add `"rubrics": [{"rubric_id": "...", "rubric_content": {"text_property": "..."}}]`.'
            yield errors.error("no-rubrics", message, _place_of(suite, use), hint)
        elif lacking_cases:
            message = f"`{use.name}`: no rubrics for {_case_names(lacking_cases)}"
            yield errors.warning("no-rubrics-in-case", message, _place_of(suite, lacking_cases[0]))


def metrics_not_run(suite: Suite) -> Iterator[Problem]:
    """A custom metric with an agent whose driver cannot run Python code of the repository."""
    driver = agents.DRIVERS.get(suite.agent.driver)
    if driver is None or driver.runs_metrics:
        return
    for use in suite.criteria:
        if use.code is not None:
            report = errors.warning if use.informational else errors.error
            yield report(
                "metric-not-run",
                f"`{use.name}` is Python code (`{use.code}`), which the driver `{suite.agent.driver}` does not "
                f"support: it can never be measured",
                _place_of(suite, use),
                "Run the agent with the driver `adk` or `python`, or give this suite other criteria.",
            )


def _answers(turn: Invocation) -> bool:
    response = turn.final_response
    return response is not None and bool(response.text(with_thoughts=True).strip())


def _has_words(turn: Invocation) -> bool:
    """True if ROUGE-1 can count words: an emoji is an answer, but not a word."""
    answer = model_turns.answer(turn)
    return any(char.isascii() and char.isalnum() for char in answer) or bool(
        response_match.split(answer)
    )


def _turns_without(use: CriterionUse, case: Case) -> list[int]:
    """The turns of a case, counted from 1, without the reference of a criterion. "No expected
    calls" is a reference too: see `nothing_expected`."""
    if use.name == TRAJECTORY or (use.name == STATE and case.expects_state is not None):
        return []
    serves = _has_words if use.name == ANSWER else _answers
    turns = enumerate(case.turns, start=1)
    return [number for number, turn in turns if use.name == STATE or not serves(turn)]


def lint_rules(settings: Settings) -> Iterator[Problem]:
    """Rules without effect: a pass rate of 0, with which a suite always passes, and an empty
    `fail-on`, with which the job always passes."""
    in_file = settings.explicit_options.keys().isdisjoint
    rates: list[tuple[str, Place | None]] = []
    if settings.pass_rate == 0:
        place = settings.place_of("pass_rate") if in_file({"pass_rate"}) else None
        rates.append(("pass-rate", place))
    for number, rule in enumerate(settings.gate_file.suites):
        if rule.pass_rate == 0 and rule.severity != "advisory":
            rule_place = settings.locate("suites", number, "pass_rate")
            rates.append((f"pass_rate of {', '.join(rule.match)}", rule_place))
    for name, place in rates:
        hint = "Set the share that must pass; for suites that must not fail the gate use `severity: advisory`."
        yield errors.warning(
            "pass-rate-zero",
            f"`{name}` is 0, so no threshold can fail the gate",
            place,
            hint,
        )
    if not settings.fail_on:
        message = "`fail-on` is empty: the job always passes"
        hint = "List the results that fail the job: `threshold`, `regression`, `not_measured`, `inconclusive`."
        place = settings.place_of("fail_on") if in_file({"fail_on"}) else None
        yield errors.warning("nothing-blocks", message, place, hint)


def simulated_users(suite: Suite) -> Iterator[Problem]:
    """A scenario whose first message is empty, or already contains the stop signal. Custom
    instructions without the persona, if a scenario has one. A criterion with another stop signal
    than the simulated user."""
    signal = suite.simulator.stop_signal
    scenario_cases = [(case, case.scenario) for case in suite.cases if case.scenario is not None]
    for case, scenario in scenario_cases:
        if not scenario.starting_prompt.strip():
            message = f"{_case_names([case])}: the starting prompt is empty"
            yield errors.error("empty-starting-prompt", message, _place_of(suite, case))
        elif signal.lower() in scenario.starting_prompt.lower():
            yield errors.error(
                "stop-signal-in-prompt",
                f"{_case_names([case])}: the starting prompt contains the stop signal `{signal}`, so ADK ends the "
                f"conversation before the agent is called",
                _place_of(suite, case),
            )
    silent_cases = [
        case for case, scenario in scenario_cases if not scenario.conversation_plan.strip()
    ]
    if silent_cases:
        message = f"{_case_names(silent_cases)}: the conversation plan is empty, so the simulated user has nothing to say"
        yield errors.warning("empty-plan", message, _place_of(suite, silent_cases[0]))
    template = suite.simulator.custom_instructions
    persona_cases = [case for case, scenario in scenario_cases if scenario.persona is not None]
    if template is not None and persona_cases and "persona" not in templates.names_in(template):
        yield errors.error(
            "bad-instructions",
            f"the custom instructions never use `{{{{ persona }}}}`, and {_case_names(persona_cases)} "
            f"{'has' if len(persona_cases) == 1 else 'have'} a persona",
            suite.simulator_place or Place(suite.key),
            "ADK rejects such instructions, too: use the persona, or remove it from the cases.",
        )
    for use in _uses_with(suite, Need.SCENARIO):
        stop_signal = use.options.get("stop_signal")
        if stop_signal is not None and stop_signal != signal:
            message = (
                f"`{use.name}` uses the stop signal `{stop_signal}`, the simulated user `{signal}`"
            )
            hint = "Remove `stop_signal` from the criterion; it defaults to the simulated user's."
            yield errors.warning("stop-signals-differ", message, _place_of(suite, use), hint)


CHECKS: tuple[Callable[[Suite], Iterator[Problem]], ...] = (
    silent_conversations,
    simulated_users,
    nothing_expected,
    nothing_asserted,
    references_missing,
    criteria_of_other_cases,
    rubrics_missing,
    metrics_not_run,
)
"""The checks of each suite, in the order of their reports."""


def lint(suites: Sequence[Suite], *, deviations: Deviations = OURS) -> tuple[Problem, ...]:
    """All suspicious points of `suites`, in their order; linear in cases and turns.

    Unknown criteria are skipped: `discovery.criteria` reports them."""
    problems: list[Problem] = []
    reference_check = partial(references_missing, deviations=deviations)
    for suite in suites:
        for check in CHECKS:
            problems.extend((reference_check if check is references_missing else check)(suite))
    # `adk web` makes sets without cases; a run of them alone would always pass
    report = errors.warning if any(suite.cases for suite in suites) else errors.error
    hint = "Add a case, delete the file, or exclude it in evalgate.yml."
    problems += (
        report("no-cases", "the evaluation set has no cases", Place(suite.key), hint)
        for suite in suites
        if not suite.cases
    )
    return tuple(problems)


# --- likely mistakes in a repository ---


def pattern_problems(settings: Settings, *, files: Collection[str]) -> Iterator[Problem]:
    """A warning for each rule of `agents` and `suites` whose globs match no evaluation file.
    `files`: all evaluation files of the repository, whatever a run selects."""
    for path, patterns in _globs_of(settings.gate_file):
        if not any(places.matches(file, patterns) for file in files):
            globs = words.listed_names(patterns) or "no glob"
            message = f"`{path[0]}[{path[1]}]`: {globs} matches no evaluation file, so the rule has no effect"
            hint = words.did_you_mean(
                "".join(patterns[:1]), files, fallback="`evalgate list` shows all files."
            )
            yield errors.warning("rule-matches-nothing", message, settings.locate(*path), hint)


def exact_names(gate_file: GateFile) -> frozenset[str]:
    """The files that rules of `agents` and `suites` name exactly. Their names may be unusual for
    evaluation files."""
    patterns = (pattern for _, patterns in _globs_of(gate_file) for pattern in patterns)
    return frozenset(pattern for pattern in patterns if not any(sign in pattern for sign in "*?[!"))


def _globs_of(gate_file: GateFile) -> Iterator[tuple[tuple[str, int, str], Sequence[str]]]:
    """The globs of the rules of `agents` and `suites`, by their paths in evalgate.yml."""
    for index, agent_rule in enumerate(gate_file.agents):
        yield ("agents", index, "suites"), agent_rule.suites
    for index, suite_rule in enumerate(gate_file.suites):
        yield ("suites", index, "match"), suite_rule.match


def name_problems(settings: Settings, *, names: Collection[str]) -> Iterator[Problem]:
    """A warning for each criterion under `compare` and `judge: criteria` that is not in `names`."""
    gate_file = settings.gate_file
    locate = settings.locate
    compared: list[tuple[str, ...]] = [("compare", name) for name in gate_file.compare]
    for path in (*compared, *(("judge", "criteria", name) for name in gate_file.judge.criteria)):
        if path[-1] not in names:
            hint = words.did_you_mean(
                path[-1], names, fallback="Remove the rule, or correct its name."
            )
            message = f"`{'.'.join(path)}`: no suite has a criterion with this name"
            yield errors.warning("rule-matches-nothing", message, locate(*path), hint)


FOUND = frozenset({ConfigOrigin.BESIDE, ConfigOrigin.ABOVE, ConfigOrigin.DEFAULTS})
"""Origins of criteria that the user did not name, so that another file may have been meant."""


def ignored_files(
    tree: Tree, *, within: Collection[str], run: Collection[str]
) -> Iterator[Problem]:
    """A warning for the git-ignored evaluation files in `within`, except copies of a file in `run`
    (as builds make them) and excluded files."""
    by_name = grouped((PurePosixPath(key).name, key) for key in run)

    def is_copy(path: str) -> bool:
        same_name_files = by_name.get(PurePosixPath(path).name, ())
        content = tree.read(path) if same_name_files else b""
        return isinstance(content, bytes) and any(
            tree.read(key) == content for key in same_name_files
        )

    candidates = [
        path
        for path in tree.ignored
        if path.endswith("evalset.json") and path in within and path not in run
    ]
    missed_files = [path for path in candidates if not is_copy(path) and not tree.is_excluded(path)]
    if missed_files:
        it, subject = ("it", "it is") if len(missed_files) == 1 else ("them", "they are")
        yield errors.warning(
            "ignored-by-git",
            f"git ignores {words.listed(f'`{path}`' for path in missed_files)}, so {subject} not evaluated",
            Place(missed_files[0]),
            f"Name {it} to evaluate {it} anyway, remove {it} from .gitignore, or `exclude` {it} in evalgate.yml.",
        )


MOST_READ = 100
LARGEST_BYTES = 1024 * 1024


def misnamed_files(tree: Tree, *, run: Collection[str]) -> Iterator[Problem]:
    """A warning for files with cases whose names are similar to those of evaluation files."""
    candidates = [
        path for path in tree.near_names if path not in run and not tree.is_excluded(path)
    ]
    missed_files = [path for path in candidates[:MOST_READ] if holds_cases(tree, path)]
    if missed_files:
        it, verb = ("it", "is") if len(missed_files) == 1 else ("each", "are")
        yield errors.warning(
            "near-name",
            f"{words.listed(f'`{path}`' for path in missed_files)} {verb} not evaluated: the name must end in "
            f"`.evalset.json` (lower case)",
            Place(missed_files[0]),
            f"Rename {it} to *.evalset.json, name {it} in the run, or `exclude` {it} in evalgate.yml.",
        )


def misnamed_configs(tree: Tree, suites: Iterable[Suite]) -> Iterator[Problem]:
    """A warning for each file with a name similar to test_config.json that is nearer to a suite
    than the suite's config."""
    near_names = (
        path for path in tree.near_names if walk.NEAR_CONFIG.fullmatch(path.rpartition("/")[2])
    )
    near = {path for path in near_names if _holds(tree, path, b"criteria")}
    # for suites on the defaults, these are part of the warning about defaults
    dashed_names = {path for path in tree.config_files if path.endswith("test-config.json")}
    suites_by_file: dict[str, list[Suite]] = {}
    for suite in suites:
        source = suite.criteria_source
        candidates = near | dashed_names if source.file else near
        for folder in PurePosixPath(suite.key).parents if source.origin in FOUND else ():
            if source.file and folder == PurePosixPath(source.file).parent:
                break
            neighbors = sorted(path for path in candidates if PurePosixPath(path).parent == folder)
            if neighbors:
                suites_by_file.setdefault(neighbors[0], []).append(suite)
                break
    for path, affected_suites in suites_by_file.items():
        file = affected_suites[0].criteria_source.file
        used = f"using `{file}`" if file else "using ADK's defaults"
        yield errors.warning(
            "near-name",
            f"`{path}` is ignored because its name is not `test_config.json`; {used} for "
            f"{words.listed(suite.key for suite in affected_suites)}",
            Place(path),
            "Rename it to test_config.json, or name it as `config` of a rule under `suites` in evalgate.yml.",
        )


def holds_cases(tree: Tree, path: str) -> bool:
    """True if the file has a key that only evaluation sets have."""
    return _holds(tree, path, b"eval_cases", b"evalCases", b"expected_tool_use")


def _holds(tree: Tree, path: str, *marks: bytes) -> bool:
    content = tree.read(path, largest=LARGEST_BYTES)
    return isinstance(content, bytes) and any(mark in content for mark in marks)


MOST_LOOKALIKES_READ = 300


def nothing_found(
    tree: Tree,
    *,
    cases: int,
    files: int,
    grep: str,
    other_files: Collection[str],
    problems: Iterable[Problem],
) -> NothingToDo:
    """The error for a run without cases. `cases`, `files`: their numbers before the search text was
    applied. `other_files`: files that were skipped because only their names are those of evaluation
    files."""
    all_problems = tuple(problems)
    if cases and grep:
        message = f"none of {words.counted(cases, 'case')} in {words.counted(files, 'evaluation file')} matches {grep!r}"
        hint = "`grep` searches case ids and the first user text."
    elif evaluation_files := [path for path in tree.evaluation_files if path not in other_files]:
        message = "no case was selected"
        verb = "is" if len(evaluation_files) == 1 else "are"
        hint = f"There {verb} {words.counted(len(evaluation_files), 'evaluation file')}: {words.listed(evaluation_files)}."
    else:
        hint = "\n    ".join((FIRST_CASE, *_search_lines(tree, sorted(other_files))))
        message = "there is no evaluation file yet"
        return NoEvaluationFile(message, hint=hint, problems=all_problems)
    return NothingToDo(message, hint=hint, problems=all_problems)


FIRST_CASE = "`evalgate init` asks your agent one question and makes the first case of it."
MOST_OTHERS_SHOWN = 5


def _search_lines(tree: Tree, other_files: Sequence[str]) -> Iterator[str]:
    for path in other_files[:MOST_OTHERS_SHOWN]:
        if reason := _other_content(tree, path):
            yield f"{path} has only the name of an evaluation file: {reason}"
    yield (
        "Looked for *.evalset.json, and for *.test.json and *-dataset.json with ADK's content, in all folders except "
        "hidden ones, Python environments, node_modules and git-ignored ones."
    )
    if tree.ignored:
        yield f"Git ignores {words.listed(tree.ignored)}: name the file to evaluate it anyway."
    other_files = sorted(
        {*tree.near_names[:MOST_LOOKALIKES_READ], *tree.other_json[:MOST_LOOKALIKES_READ]}
    )
    lookalikes = [path for path in other_files if holds_cases(tree, path)]
    if lookalikes:
        verb = "looks" if len(lookalikes) == 1 else "look"
        yield f"{words.listed(lookalikes)} {verb} like an evaluation set: rename to *.evalset.json, or name it."


def _other_content(tree: Tree, path: str) -> str:
    """The first error in a file that is not an evaluation set, with its hint; "" if there is no
    error."""
    text = plain.decode(tree.read(path, largest=LARGEST_BYTES), file=path)
    problems = (
        [text] if isinstance(text, Problem) else formats.parse_eval_set(text, file=path).problems
    )
    first_error = next(iter(errors_in(problems)), None)
    return f"{first_error.message}. {first_error.hint}".rstrip(". ") + "." if first_error else ""
