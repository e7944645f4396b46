"""From the root of a repository to its suites: evaluation files, their criteria, their agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evalgate import formats
from evalgate.config.gate_file import GateFile
from evalgate.config.yaml import Locator
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import agents as discovery_agents
from evalgate.discovery import criteria, hints, select, walk
from evalgate.discovery.agents import AgentChoices
from evalgate.discovery.criteria import CriteriaFinder, Sources
from evalgate.discovery.select import Files, Selection
from evalgate.discovery.walk import Tree
from evalgate.errors import Problem, Severity
from evalgate.formats import FileKind
from evalgate.model import ConfigOrigin, EvalSet, Suite
from evalgate.text import decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The suites in the order of their paths, and everything that is wrong with what was found.

    A file that cannot be read has problems and no suite; `unread`: what is known of such files all the same, their
    criteria and agents.
    """

    suites: tuple[Suite, ...]
    problems: tuple[Problem, ...]
    unread: tuple[Suite, ...] = ()


def discover(
    root: Path,
    *,
    selections: Sequence[str] = (),
    grep: str = "",
    gate_file: GateFile | None = None,
    places: Locator | None = None,
    criteria_file: Path | None = None,
    specs: Mapping[str, CriterionSpec],
    tree: Tree | None = None,
) -> Discovery:
    """Find what is to be evaluated; nothing is imported or run.

    `places`: of what stands in the gate file. `criteria_file`: for every suite, relative to `root` unless absolute.
    `tree`: the walk of `root`, where it is known.
    Raises NothingToDo where no file or case is left and no problem explains it.
    """
    rules = gate_file or GateFile()
    seen, chosen, unmatched = _select(root, [_relative(text, root) for text in selections], rules.exclude, tree)
    keys = {key for each in chosen for key in each.keys} if selections else set(seen.evaluation_files)
    read = _read_sets(root, sorted(keys), named=_named(chosen))
    sets, unknown = select.pick_cases(read.sets, chosen)
    if grep:
        sets = select.grep_cases(sets, grep)
    problems = (*unmatched, *seen.problems, *read.problems, *unknown)
    outside = tuple(each for each in unmatched if each.code == "outside-root")
    if not sets and not _any_error((*seen.problems, *read.problems, *outside)):
        cases = sum(len(each.cases) for each in read.sets.values())
        raise hints.nothing_found(seen, cases=cases, files=len(read.sets), grep=grep, problems=problems)

    finder = CriteriaFinder(
        sources=Sources(
            root=root, config_files=seen.config_files, explicit=criteria_file, gate_file=rules, places=places
        ),
        specs=specs,
    )
    agents = discovery_agents.choose_agents(
        sets, gate_file=rules, files=seen.agent_files, read=lambda path: walk.read_source(root, path)
    )
    # the configs of files that cannot be read may be wrong as well: all is told at once
    empty = {key: EvalSet(eval_set_id="", cases=()) for key in read.failed}
    known = discovery_agents.choose_agents(
        empty, gate_file=rules, files=seen.agent_files, read=lambda path: walk.read_source(root, path)
    )
    unread = _suites(empty, read, finder=finder, agents=known)
    suites = _suites(sets, read, finder=finder, agents=agents)
    on_defaults = [suite.key for suite in suites if suite.criteria_source.origin is ConfigOrigin.DEFAULTS]
    defaults = criteria.defaults_problems(on_defaults, seen.config_files)
    found = (*problems, *finder.problems, *defaults, *agents.problems)
    unheeded = (
        *hints.ignored_files(seen, within=_ignored_within(seen, selections), run=keys, exclude=rules.exclude),
        *hints.copied_configs(seen, suites),
        *hints.misnamed_configs(seen, (*suites, *unread)),
        *(() if selections or grep else hints.misnamed_files(seen, run=keys, exclude=rules.exclude)),
        *_idle_patterns(rules, places, seen, keys=keys, strangers=read.strangers, root=root),
    )
    names = () if selections or grep else _idle_names(rules, places, (*suites, *unread), known=specs)
    return Discovery(suites=suites, problems=(*found, *unheeded, *names), unread=unread)


def _idle_patterns(
    rules: GateFile, places: Locator | None, seen: Tree, *, keys: Collection[str], strangers: frozenset[str], root: Path
) -> Iterator[Problem]:
    named = {name for name in hints.exact_names(rules) if (root / name).is_file()}
    return hints.pattern_problems(
        rules,
        places=places,
        found={*seen.evaluation_files, *keys, *named} - strangers,
        left_out=(*seen.excluded, *seen.ignored, *strangers),
    )


def _idle_names(
    rules: GateFile, places: Locator | None, suites: Iterable[Suite], *, known: Iterable[str]
) -> tuple[Problem, ...]:
    used = {use.name for suite in suites for use in suite.criteria}
    return tuple(hints.name_problems(rules, places=places, known=known, used=used))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Evaluation sets by key; `failed`: keys that could not be read; `datasets`: those that are agents-cli's.

    `strangers`: files that are called like evaluation files and are none.
    """

    sets: dict[str, EvalSet]
    failed: frozenset[str]
    datasets: frozenset[str]
    strangers: frozenset[str]
    problems: tuple[Problem, ...]


def _select(
    root: Path, texts: Sequence[str], exclude: Sequence[str], tree: Tree | None
) -> tuple[Tree, list[Selection], tuple[Problem, ...]]:
    """The tree, walked a second time where a selection names a folder that was passed over, and the selections."""
    seen = walk.walk(root, exclude=exclude) if tree is None else tree
    files = _files(root, seen)
    passed_over = select.folders_named(texts, files=files)
    if passed_over:
        seen = walk.walk(root, exclude=exclude, also=passed_over)
        files = _files(root, seen)
    parsed = [select.parse_selection(text, files=files) for text in texts]
    chosen = [each for each in parsed if isinstance(each, Selection)]
    beside = {(PurePosixPath(key).parent / name).as_posix() for key in _named(chosen) for name in walk.CONFIG_NAMES}
    unseen = {path for path in beside - seen.config_files if _is_within(path, root) and (root / path).is_file()}
    seen = dataclasses.replace(seen, config_files=seen.config_files | unseen)
    return seen, chosen, tuple(each for each in parsed if isinstance(each, Problem))


def _files(root: Path, seen: Tree) -> Files:
    return Files(
        found=seen.evaluation_files,
        is_file=lambda path: (root / path).is_file(),
        is_folder=lambda path: _is_within(path, root) is True and (root / path).is_dir(),
        is_outside=lambda path: _is_within(path, root) is False,
    )


def _is_within(path: str, root: Path) -> bool | None:
    """Whether a path leads to the root or below, links followed; None for what cannot be a path."""
    try:
        return (root / path).resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # such as loops of links
        return None


def _named(chosen: Iterable[Selection]) -> set[str]:
    """The files that are named exactly."""
    return {key for each in chosen if each.is_file for key in each.keys}


def _ignored_within(seen: Tree, selections: Sequence[str]) -> set[str]:
    """The evaluation files that git ignores, of those that are selected by folder or glob; without selections all."""
    if not selections or not seen.ignored:
        return set(seen.ignored)
    files = dataclasses.replace(_files(seen.root, seen), found=seen.ignored, is_file=lambda _: False)
    parsed = (select.parse_selection(_relative(text, seen.root), files=files) for text in selections)
    return {key for each in parsed if isinstance(each, Selection) for key in each.keys}


def _relative(text: str, root: Path) -> str:
    """A selection with an absolute path within the root, relative to it; also where a link leads to the root."""
    path = Path(text.strip())
    try:
        if not path.is_absolute():
            return text.strip()
        whole, folder = path.resolve(), path.parent.resolve()
    except (OSError, RuntimeError, ValueError):
        return text.strip()
    if whole == root.resolve():
        return "."
    inside = folder.is_relative_to(root.resolve())
    return (folder.relative_to(root.resolve()) / path.name).as_posix() if inside else text.strip()


def _read_sets(root: Path, keys: Sequence[str], *, named: set[str]) -> _Read:
    """Read the files; those that are evaluation files by nothing but their name are passed over unless `named`."""
    sets: dict[str, EvalSet] = {}
    failed: set[str] = set()
    datasets: set[str] = set()
    strangers: set[str] = set()
    problems: list[Problem] = []
    for key in keys:
        data = walk.read_bytes(root, key)
        text = data if isinstance(data, Problem) else decoding.decode(data, file=key)
        if isinstance(text, Problem):
            told = _of_common_name(text, key, data) if key not in named and not walk.is_certain_name(key) else text
            if told is not None:
                problems.append(told)
            (failed if told is not None and told.severity is Severity.ERROR else strangers).add(key)
            continue
        kind = formats.recognise(text, file=key)
        if kind is FileKind.DATASET:
            datasets.add(key)
        elif kind is not FileKind.EVAL_SET and key not in named and not walk.is_certain_name(key):
            strangers.add(key)
            continue
        read = formats.parse_eval_set(text, file=key)
        problems.extend(read.problems)
        if read.eval_set is None:
            failed.add(key)
        else:
            sets[key] = read.eval_set
    return _Read(
        sets=sets,
        failed=frozenset(failed),
        datasets=frozenset(datasets),
        strangers=frozenset(strangers),
        problems=tuple(problems),
    )


def _of_common_name(problem: Problem, key: str, data: bytes | Problem) -> Problem | None:
    """The problem of a file whose name others use too: as grave as any where its content is ADK's, else none.

    A warning where nobody can tell.
    """
    if isinstance(data, Problem):
        return dataclasses.replace(problem, severity=Severity.WARNING)
    kind = formats.recognise(data.decode("utf-8", errors="replace"), file=key)
    return problem if kind in formats.CASE_FILES else None


def _suites(
    sets: Mapping[str, EvalSet], read: _Read, *, finder: CriteriaFinder, agents: AgentChoices
) -> tuple[Suite, ...]:
    suites = []
    for key in sorted(sets):
        found = finder.criteria_of(key, is_dataset=key in read.datasets)
        suite = Suite(
            key=key,
            eval_set=sets[key],
            criteria=found.criteria,
            criteria_source=found.source,
            agent=agents.by_key[key],
            simulator=found.simulator,
        )
        suites.append(suite)
    return tuple(suites)


def _any_error(problems: Sequence[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)
