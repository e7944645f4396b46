"""Hints for likely mistakes: rules that match nothing, files that git ignores, and files with
nearly correct names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from evalgate import errors, formats
from evalgate.config import places
from evalgate.config.gate_file import GateFile
from evalgate.config.settings import Settings
from evalgate.errors import NoEvaluationFile, NothingToDo, Place, Problem, errors_in
from evalgate.model import ConfigOrigin, Suite
from evalgate.text import plain, words
from evalgate.values import grouped
from . import walk
from .walk import Tree


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
