"""From the root of a repository to its suites: evaluation files, their criteria, their agents."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evalgate import agents, errors, formats
from evalgate.config import places
from evalgate.config.settings import Settings
from evalgate.criteria import CRITERIA, with_facts
from evalgate.errors import ConfigError, NothingToDo, Place, Problem, errors_in
from evalgate.formats import FileKind
from evalgate.model import (
    Case,
    ConfigOrigin,
    CriteriaSource,
    EvalSet,
    SimulatorUse,
    Suite,
)
from evalgate.model.shapes import to_fields
from evalgate.system import patterns
from evalgate.text import plain, words
from evalgate.values import digest_of, frozen_dataclass
from . import agents as discovery_agents, criteria, lint, walk
from .criteria import CriteriaFinder
from .walk import Tree

SHOWN = "`evalgate list` shows them, `evalgate validate` checks them."


def discover(
    settings: Settings, *, tree: Tree | None = None, unrun_suffices: bool = False
) -> Discovery:
    """Find everything to evaluate below `settings.root`; nothing is imported or run. `tree`: its
    walk, if it exists already.

    Raises NothingToDo if no file or case is left and no problem explains it; with `unrun_suffices`,
    only if there is no library file either."""
    discovery = Discovery(settings, tree)
    if unrun_suffices:
        discovery.drop_without_agent()
    if not (unrun_suffices and discovery.libraries) or discovery.keys or discovery.others:
        discovery.require_evaluations()
        discovery.find_suites()
    return discovery


def suites_of_all(settings: Settings) -> tuple[tuple[Suite, ...], tuple[Problem, ...]]:
    """The suites of the whole repository, whatever is selected, and their problems. Empty if
    nothing is found."""
    try:
        discovery = discover(settings.with_options(paths=(), grep=""))
    except NothingToDo:
        return (), ()
    return discovery.suites, discovery.problems


class Discovery:
    """The suites in the order of their paths, all problems, and the searched tree.

    A file that cannot be read has problems and no suite; `unread`: its criteria and agent, if they
    are known. `libraries`: the files of other formats than ADK's, and which of them run. `tree`:
    walked again if a selection names a skipped folder.

    `keys`: ADK's selected files: `_failed` could not be read, `_datasets` are of agents-cli,
    `_lookalikes` have only the name of an evaluation file; `_all_sets` are the sets of others, and
    `_sets` the selected cases. `others`: the selected sets of libraries; `_unrun`: problems of
    their files, and of files that are not run."""

    suites: tuple[Suite, ...] = ()
    unread: tuple[Suite, ...] = ()

    def __init__(self, settings: Settings, tree: Tree | None) -> None:
        self._settings = settings
        root = settings.root
        exclude = settings.gate_file.exclude
        self._texts = [_relative(text, root) for text in settings.paths]
        tree = tree or Tree(root, exclude=exclude)
        self.tree = tree
        if self._texts:
            folders = unsearched_folders(self._texts, files=Files(root, tree.evaluation_files))
            if folders:
                self.tree = Tree(root, exclude=exclude, extra_folders=folders)
        selections, library_files = self._select()
        exact_keys = {
            key for selection in selections if selection.is_file for key in selection.keys
        } - library_files
        if exact_keys:
            _add_configs(self.tree, exact_keys)
        self.keys = set(self.tree.evaluation_files)
        if settings.paths:
            self.keys = {key for selection in selections for key in selection.keys} - library_files
        self._all_sets: dict[str, EvalSet] = {}
        self._failed: set[str] = set()
        self._datasets: set[str] = set()
        self._lookalikes: set[str] = set()
        self._read_problems: list[Problem] = []
        self._read_sets(exact_keys=exact_keys)
        self._sets, unknown = self._pick(self._all_sets, selections)
        self.problems = (*self._unmatched, *self.tree.problems, *self._read_problems, *unknown)
        self.others, self._unrun = self._read_libraries(selections) if self.libraries else ({}, ())

    def _select(self) -> tuple[list[Selection], set[str]]:
        """The selections, and the files of the libraries."""
        root = self._settings.root
        evaluation_files = self.tree.evaluation_files
        named_files: set[str] = set()
        if self._texts:
            named_files.update(filter(Files(root, evaluation_files).is_file, _paths(self._texts)))
        # no format has files with the names of ADK's, except those that the user names
        is_searched = named_files or self.tree.other_json or self.tree.other_yaml
        rows = formats.FORMATS.values() if is_searched else ()
        files_by_format = [(row, row.find(self.tree, named_files=named_files)) for row in rows]
        library_files = {file for _, files in files_by_format for file in files}
        chosen = library_files
        selections: list[Selection] = []
        self._unmatched: list[Problem] = []
        if self._texts:
            selections, self._unmatched = parse_selections(
                self._texts, files=Files(root, (*evaluation_files, *sorted(library_files)))
            )
            chosen = {key for selection in selections for key in selection.keys}
        libraries = (
            row.read(self.tree, files, chosen=chosen.intersection(files))
            for row, files in files_by_format
            if not chosen.isdisjoint(files)
        )
        self.libraries = tuple(filter(None, libraries))
        return selections, library_files

    def _read_sets(self, *, exact_keys: Collection[str]) -> None:
        """Read the files. Those with only the name of an evaluation file are skipped, unless they
        are in `exact_keys`."""
        scenario_keys: list[str] = []
        for key in sorted(self.keys):
            is_intended = key in exact_keys or key.endswith(walk.OWN_ENDINGS)
            content = self.tree.read(key)
            text = plain.decode(content, file=key)
            if isinstance(text, Problem):
                if isinstance(content, bytes):
                    kind = formats.kind_of(content.decode("utf-8", "replace"), file=key)
                    is_intended = is_intended or kind in formats.CASE_FILES
                if is_intended:
                    self._failed.add(key)
                    self._read_problems.append(text)
                    continue
                self._lookalikes.add(key)  # the file may not be ADK's
                if isinstance(content, Problem):
                    warning = errors.warning(text.code, text.message, text.place, text.hint)
                    self._read_problems.append(warning)
                continue
            kind = formats.kind_of(text, file=key)
            if kind is FileKind.EVAL_SET and key.endswith(SCENARIOS):
                scenario_keys.append(key)
                text = _eval_set_of(text, key, self.tree)
            elif kind is FileKind.DATASET or (
                kind is FileKind.EVAL_SET
                and walk.DATASETS.fullmatch(f"{PurePosixPath(key).parent}/")
            ):
                self._datasets.add(key)
            elif kind is not FileKind.EVAL_SET and not is_intended:
                self._lookalikes.add(key)
                continue
            reading = formats.parse_eval_set(text, file=key)
            self._read_problems.extend(reading.problems)
            if reading.eval_set is None:
                self._failed.add(key)
            else:
                self._all_sets[key] = reading.eval_set
        if scenario_keys:
            self._drop_copies(scenario_keys)

    def _drop_copies(self, scenario_keys: Collection[str]) -> None:
        """Drop cases of scenarios that an evaluation set has, too."""
        case_ids = {
            case.case_id
            for key, eval_set in self._all_sets.items()
            for case in eval_set.cases
            if key not in scenario_keys
        }
        for key in self._all_sets.keys() & {*scenario_keys}:
            cases = tuple(
                case for case in self._all_sets[key].cases if case.case_id not in case_ids
            )
            self._all_sets[key] = self._all_sets[key].with_cases(cases)
            if not cases:
                del self._all_sets[key]
                self._lookalikes.add(key)

    def _pick(
        self, sets: Mapping[str, EvalSet], selections: Sequence[Selection]
    ) -> tuple[dict[str, EvalSet], tuple[Problem, ...]]:
        """The selected cases, and problems with unknown ones."""
        picked_sets, unknown = pick_cases(sets, selections) if selections else (dict(sets), ())
        if self._settings.grep:
            picked_sets = find_cases(picked_sets, self._settings.grep)
        return picked_sets, unknown

    def _read_libraries(
        self, selections: Sequence[Selection]
    ) -> tuple[dict[str, EvalSet], tuple[Problem, ...]]:
        """The selected sets of libraries, and their problems."""
        selected_ids = {
            key: selection.case_ids
            for selection in selections
            if selection.is_file
            for key in selection.keys
        }
        sets: dict[str, EvalSet] = {}
        problems: list[Problem] = []
        for library in self.libraries:
            library_sets, library_problems = library.eval_sets(selected_ids)
            sets |= library_sets
            problems += library_problems
        sets, unknown = self._pick(
            sets, [selection for selection in selections if sets.keys() & {*selection.keys}]
        )
        return sets, (*problems, *unknown)

    def drop_without_agent(self) -> None:
        """Drop the sets of libraries without an agent here, with a note: they may belong to an app
        that runs elsewhere."""
        uses, _ = discovery_agents.choose_agents(
            self.others, gate_file=self._settings.gate_file, tree=self.tree
        )
        keys = [key for key in self.others if uses[key] == discovery_agents.UNKNOWN]
        if not keys:
            return
        noun = next(library.noun for library in self.libraries if library.holds_cases(keys[0]))
        count = words.counted(sum(len(self.others.pop(key).cases) for key in keys), noun)
        message = f"no agent is known for {count}, and `evalgate run` needs one"
        hint = "Name one in evalgate.yml (`agents:`), or `exclude` the files."
        self._unrun = (*self._unrun, errors.note("ces-no-agent", message, Place(keys[0]), hint))

    def require_evaluations(self) -> None:
        """Raise NothingToDo if nothing is left and no problem explains it."""
        library_problems = (problem for library in self.libraries for problem in library.problems)
        is_library_broken = bool(errors_in((*library_problems, *self._unrun)))
        evaluations = [
            words.counted(library.evaluation_count(), library.noun)
            for library in self.libraries
            if library.evaluation_count()
        ]
        if evaluations and not (self.keys or self.others or is_library_broken):
            message = f"nothing that evalgate runs was found, only {words.listed(evaluations)}"
            raise NothingToDo(message, hint=SHOWN, problems=(*self.problems, *self._unrun))
        outside = (problem for problem in self._unmatched if problem.code == "outside-root")
        is_explained = is_library_broken or errors_in(
            (*self.tree.problems, *self._read_problems, *outside)
        )
        if not (self._sets or self.others or is_explained):
            raise lint.nothing_found(
                self.tree,
                cases=sum(len(eval_set.cases) for eval_set in self._all_sets.values()),
                files=len(self._all_sets),
                grep=self._settings.grep,
                other_files=self._lookalikes,
                problems=self.problems,
            )

    def find_suites(self) -> None:
        """Find the criteria and agents of the sets."""
        tree = self.tree
        finder = CriteriaFinder(tree, self._settings, self._datasets)
        # files that cannot be read: their configs may be wrong too, and everything is reported at
        # once; of libraries, those that an error prevents from running
        empty_set = EvalSet(eval_set_id="", cases=())
        broken_files = {
            problem.place.file
            for problem in errors_in(self._unrun)
            if problem.place and problem.code not in CODES
        }
        self.unread, _ = self._suites(
            dict.fromkeys(self._failed, empty_set),
            dict.fromkeys(sorted(broken_files.difference(self.others)), empty_set),
            finder=finder,
        )
        suites, agent_problems = self._suites(self._sets, self.others, finder=finder)
        self.suites = tuple(sorted(suites, key=lambda suite: suite.key))
        notes = []
        if configs := list(finder.other_configs):
            files = words.listed(f"`{path}`" for path in configs)
            message = f"criteria are read from {files}; ADK itself reads only test_config.json beside evaluation files"
            notes.append(errors.note("criteria-elsewhere", message, Place(configs[0])))
        on_defaults = [
            suite for suite in self.suites if suite.criteria_source.origin is ConfigOrigin.DEFAULTS
        ]
        self.problems = (
            *self.problems,
            *self._unrun,
            *finder.problems,
            *notes,
            *(criteria.defaults_problems(on_defaults, tree) if on_defaults else ()),
            *agent_problems,
            *self._unheeded(),
        )

    def _suites(
        self,
        sets: Mapping[str, EvalSet],
        library_sets: Mapping[str, EvalSet],
        *,
        finder: CriteriaFinder,
    ) -> tuple[tuple[Suite, ...], list[Problem]]:
        """A suite for each set; a library scores as its evaluations require. And problems with
        agents."""
        all_sets = {**sets, **library_sets}
        uses, problems = discovery_agents.choose_agents(
            all_sets, gate_file=self._settings.gate_file, tree=self.tree
        )
        agents_by_key = {
            key: agents.with_defaults(use, self._settings) for key, use in uses.items()
        }
        scoring_by_key = {key: finder.criteria_of(key, sets[key].cases) for key in sorted(sets)}
        for library in self.libraries:
            for key in filter(library.holds_cases, library_sets):
                named_uses = library.criteria_of(library_sets[key].cases, agents_by_key[key])
                deciding_uses = tuple(map(with_facts, named_uses))
                scoring_by_key[key] = (
                    (*deciding_uses, *criteria.informational_uses(beside=deciding_uses)),
                    CriteriaSource(origin=ConfigOrigin.EVALUATION, file=key),
                    SimulatorUse(max_turns=None),
                    None,
                )
        suites = (
            Suite(
                key=key,
                eval_set=all_sets[key],
                criteria=criterion_uses,
                criteria_source=source,
                agent=agents_by_key[key],
                simulator=simulator,
                simulator_place=place,
            )
            for key, (criterion_uses, source, simulator, place) in scoring_by_key.items()
        )
        return tuple(suites), problems

    def _unheeded(self) -> Iterator[Problem]:
        """Problems with files, configs and settings that look intended but are not used."""
        tree = self.tree
        settings = self._settings
        rules = settings.gate_file
        all_suites = (*self.suites, *self.unread)
        is_whole = not settings.paths and not settings.grep
        ignored_files = set(tree.ignored)
        if settings.paths and ignored_files:  # those that are selected by folder or glob
            selections, _ = parse_selections(self._texts, files=Files(tree.root, tree.ignored))
            ignored_files = {key for selection in selections for key in selection.keys}
        if ignored_files:
            yield from lint.ignored_files(tree, within=ignored_files, run=self.keys)
        yield from lint.misnamed_configs(tree, all_suites)
        if is_whole and tree.near_names:
            yield from lint.misnamed_files(tree, run=self.keys)
        exact_files = {name for name in lint.exact_names(rules) if (settings.root / name).is_file()}
        library_files = (file for library in self.libraries for file in library.files())
        files = {*tree.evaluation_files, *self.keys, *library_files, *exact_files}
        yield from lint.pattern_problems(settings, files=files - self._lookalikes)
        if is_whole and (rules.compare or rules.judge.criteria):
            names = {*CRITERIA, *(use.name for suite in all_suites for use in suite.criteria)}
            yield from lint.name_problems(settings, names=names)


def _add_configs(tree: Tree, files: Iterable[str]) -> None:
    """Add the configs beside named files, wherever they are."""
    neighbors = {
        (PurePosixPath(key).parent / name).as_posix() for key in files for name in walk.CONFIG_NAMES
    }
    tree.config_files |= {
        path for path in neighbors if _is_within(path, tree.root) and (tree.root / path).is_file()
    }


def _is_within(path: str, root: Path) -> bool | None:
    """True if a path leads to the root or below, with links followed; None if it is not a valid
    path."""
    try:
        return (root / path).resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # such as loops of links
        return None


def _relative(text: str, root: Path) -> str:
    """A selection, relative to the root if its absolute path is within the root, or a link leads to
    the root."""
    text = text.strip()
    path = Path(text)
    if not path.is_absolute():
        return text
    top = root.resolve()
    try:
        if path.resolve() == top:
            return "."
        folder = path.parent.resolve()
    except (OSError, RuntimeError, ValueError):
        return text
    return (folder.relative_to(top) / path.name).as_posix() if folder.is_relative_to(top) else text


SCENARIOS = "conversation_scenarios.json"
"""The end of the name of a file of conversation scenarios, from which `adk eval_set add_eval_case`
makes cases."""
SESSION = "session_input.json"
"""The file beside the scenarios with the initial session of all cases."""


def _eval_set_of(text: str, key: str, tree: Tree) -> str:
    """The evaluation set of a file of scenarios as JSON, with a case for each; its own text if the
    files are not valid."""
    path = PurePosixPath(key)
    session = tree.read(str(path.with_name(SESSION)))
    cases = []
    try:
        context = {}
        if isinstance(session, bytes) and session:
            context["session_input"] = json.loads(session.decode("utf-8", "replace"))
        for scenario in json.loads(text)["scenarios"]:
            # ADK's id, so that a case of both files is run once
            fields = {"user_persona": None, **to_fields(scenario)}
            case_id = digest_of(json.dumps(fields, sort_keys=True), 8)
            cases.append({"eval_id": case_id, "conversation_scenario": scenario, **context})
    except (ValueError, KeyError, TypeError):
        return text
    return json.dumps({"eval_set_id": path.stem, "eval_cases": cases})


# --- the selected files and cases ---------------------------------------------------------------


CODES = frozenset({"unknown-case", "selection-unmatched"})
"""Codes of problems with a selection, not with a file."""


@frozen_dataclass
class Selection:
    """One selection of the user."""

    text: str
    keys: tuple[str, ...]
    """Its files; at least one."""
    case_ids: tuple[str, ...] = ()
    """The cases that it is limited to; empty: all cases."""
    is_file: bool = False
    """It names one file exactly."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files for selections; POSIX paths relative to the root."""

    root: Path
    eval_files: tuple[str, ...]
    """The evaluation files of the walk. Other files can be selected by their names."""

    def is_file(self, path: str) -> bool:
        """True if a path can be selected as a file, walked or not."""
        return path in self.eval_files or os.path.isfile(self.root / path)  # noqa: PTH113 - a list of cases is too long a name for Path

    def is_folder(self, path: str) -> bool:
        """True for a folder within the root."""
        return _is_within(path, self.root) is True and os.path.isdir(self.root / path)  # noqa: PTH112 - as above

    def is_outside(self, path: str) -> bool:
        """True if a path leads out of the root, by itself or by a link."""
        return _is_within(path, self.root) is False


def parse_selection(text: str, *, files: Files) -> Selection | Problem:
    """`PATH`, `FOLDER`, `GLOB`, each optionally with `:case_1,case_2`; split at the last colon with
    a match.

    A file that is named exactly is used whatever its name, even if git ignores it."""
    if not text.strip():
        message = f"{text!r} matches no evaluation file: it is empty"
        hint = "Is a variable not set? Without a selection all evaluation files are used."
        return errors.error("selection-unmatched", message, hint=hint)
    for end in _ends(text):
        keys = _matched(text[:end], files)
        case_ids = tuple(filter(None, map(str.strip, text[end + 1 :].split(","))))
        if keys and (case_ids or end == len(text)):
            is_file = keys == (_path(text[:end]),)
            return Selection(text=text, keys=keys, case_ids=case_ids, is_file=is_file)
    return _unmatched(text, files)


def parse_selections(
    texts: Iterable[str], *, files: Files
) -> tuple[list[Selection], list[Problem]]:
    """The selections in texts, and problems with the others."""
    parsed = [parse_selection(text, files=files) for text in texts]
    selections = [selection for selection in parsed if isinstance(selection, Selection)]
    return selections, [problem for problem in parsed if isinstance(problem, Problem)]


def unsearched_folders(texts: Iterable[str], *, files: Files) -> list[str]:
    """Folders in selections without files from the walk: the walk may have skipped them."""
    folders = filter(files.is_folder, _paths(texts))
    return sorted({folder for folder in folders if not _below(folder, files.eval_files)})


def _paths(texts: Iterable[str]) -> Iterator[str]:
    """The paths that selections may begin with."""
    return filter(None, (_path(text[:end]) for text in texts for end in _ends(text)))


def pick_cases(
    sets: Mapping[str, EvalSet], selections: Sequence[Selection]
) -> tuple[dict[str, EvalSet], tuple[Problem, ...]]:
    """The sets reduced to the selected cases. Sets without cases are dropped.

    A case id that is in no file of its selection is a problem."""
    whole_keys = {
        key for selection in selections if not selection.case_ids for key in selection.keys
    }
    wanted_cases = {
        (key, case_id)
        for selection in selections
        for key in selection.keys
        for case_id in selection.case_ids
    }
    picked_sets: dict[str, EvalSet] = {}
    for key, eval_set in sets.items():
        cases = tuple(
            case for case in eval_set.cases if (key, case.case_id.strip()) in wanted_cases
        )
        if key in whole_keys:
            picked_sets[key] = eval_set
        elif cases:
            picked_sets[key] = eval_set.with_cases(cases)
    problems = (problem for selection in selections for problem in _unknown_cases(selection, sets))
    return picked_sets, tuple(problems)


def find_cases(sets: Mapping[str, EvalSet], pattern: str) -> dict[str, EvalSet]:
    """The sets reduced to cases whose id or first user text matches `pattern`; empty sets are
    dropped.

    The pattern is a regular expression; case is ignored. Raises ConfigError if it cannot be
    searched for."""
    cases = [case for eval_set in sets.values() for case in eval_set.cases]
    texts = [text for case in cases for text in (case.case_id, opening_text(case))]
    try:
        hits = patterns.search(pattern, texts, flags=re.IGNORECASE)
    except ValueError as error:
        message = f"`grep`: {pattern[:200]!r} is not a regular expression: {error}"
        raise ConfigError(
            message, hint="Write `\\` before a character that means itself."
        ) from None
    except patterns.SearchFailed as failure:
        raise ConfigError(f"`grep`: {failure}") from None
    of_cases = iter(zip(hits[::2], hits[1::2], strict=True))
    picked = {
        key: tuple(case for case in eval_set.cases if any(next(of_cases)))
        for key, eval_set in sets.items()
    }
    return {key: sets[key].with_cases(cases) for key, cases in picked.items() if cases}


def opening_text(case: Case) -> str:
    """The user's first text; "" if there is none."""
    if case.scenario is not None:
        return case.scenario.starting_prompt
    if not case.conversation:
        return ""
    return case.conversation[0].user_content.text(with_thoughts=True)


def _matched(text: str, files: Files) -> tuple[str, ...]:
    path = _path(text)
    if not path:
        return ()
    if files.is_file(path):
        return (path,)
    if files.is_folder(path):
        return tuple(_below(path, files.eval_files))
    if any(sign in path for sign in "*?["):
        pattern = f"\\{path}" if path[0] in "!#" else path
        return tuple(key for key in files.eval_files if places.matches(key, (pattern,)))
    return ()


def _path(text: str) -> str:
    path_text = text.strip()
    return posixpath.normpath(path_text) if path_text else ""


def _below(folder: str, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if folder == "." or key.startswith(f"{folder}/")]


def _ends(text: str) -> Iterator[int]:
    """Where a path may end: at the end of the text, then at each colon, the last first."""
    yield len(text)
    yield from reversed([index for index, character in enumerate(text) if character == ":"])


def _unmatched(text: str, files: Files) -> Problem:
    path = text[: [*_ends(text)][:2][-1]]
    if files.is_outside(_path(path)):
        message = f"{text!r} is outside the repository"
        return errors.error(
            "outside-root", message, hint="Use a path within the root, or change `root`."
        )
    is_folder = files.is_folder(_path(path))
    message = (
        f"the folder {text!r} holds no evaluation file"
        if is_folder
        else f"{text!r} matches no evaluation file"
    )
    all_files_text = f"Found {words.counted(len(files.eval_files), 'evaluation file')}: {words.listed(files.eval_files)}."
    hint = words.did_you_mean(
        path, files.eval_files, fallback=all_files_text if files.eval_files else ""
    )
    return errors.error("selection-unmatched", message, hint=hint)


def _unknown_cases(selection: Selection, sets: Mapping[str, EvalSet]) -> Iterator[Problem]:
    """An error for each case id that no readable file of the selection has."""
    keys = [key for key in selection.keys if key in sets]
    known_ids = dict.fromkeys(case.case_id.strip() for key in keys for case in sets[key].cases)
    for case_id in selection.case_ids if keys else ():
        if case_id not in known_ids:
            location = keys[0] if len(keys) == 1 else f"any of {words.counted(len(keys), 'file')}"
            hint = words.did_you_mean(
                case_id, known_ids, fallback=f"Its cases: {words.listed(known_ids, limit=8)}."
            )
            message = f"no case {case_id!r} in {location} (selected by {selection.text!r})"
            yield errors.error("unknown-case", message, Place(keys[0]), hint)
