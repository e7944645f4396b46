"""The CES files of a checkout, told by their content: in an export's folders first, then wherever they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from evalgate import agents, errors
from evalgate.config import places
from evalgate.config.settings import Settings
from evalgate.criteria import base as criteria_base
from evalgate.criteria.base import CriterionSpec
from evalgate.discovery import criteria, walk
from evalgate.discovery.walk import Tree
from evalgate.errors import Place, Problem
from evalgate.model import AgentUse, ConfigOrigin, CriteriaSource, CriterionUse, EvalSet, SimulatorUse, Suite
from evalgate.simulation import user
from evalgate.text import plain, words
from evalgate.wings.ces import cases, read
from evalgate.wings.ces.read import Kind, Library

MOST_SNIFFED = 2000
"""How many files are looked into, those in folders of CES first."""
HEAD_BYTES = 65_536
LARGEST_BYTES = 16 * 1024 * 1024
FOLDERS = frozenset({*read.COLLECTIONS, "evals"})


def files_of(tree: Tree, *, exclude: Iterable[str], named: Iterable[str] = ()) -> tuple[str, ...]:
    """The CES files of the tree, and those of the files that the user named: by what they say; among the evaluations of
    an app also by their place, so that a typing error takes none away."""
    patterns, listed = tuple(exclude), dict.fromkeys((*named, *tree.other_yaml, *tree.other_json))
    first_in_folders = sorted(listed, key=lambda path: FOLDERS.isdisjoint(path.split("/")))
    looked = [path for path in first_in_folders[:MOST_SNIFFED] if not places.matches(path, patterns)]
    known = {path for path in looked if _is_of_ces(tree, path)}
    homes = _homes(known)
    at_home = (path for path in listed if read.kind_by_folder(path) is not None and read.app_folder(path) in homes)
    return tuple(sorted(known.union(path for path in at_home if not places.matches(path, patterns))))


def _homes(known: Iterable[str]) -> set[str]:
    """The folders of apps that have evaluations of CES or settings for them."""
    return {
        read.app_folder(path) for path in known if read.stem(path) == "app" or read.kind_by_folder(path) is not None
    }


def unknown_files(tree: Tree, known: Collection[str], *, exclude: Iterable[str]) -> Iterator[Problem]:
    """A warning for each file among the evaluations of an app that is none. `known`: the CES files."""
    patterns, homes = tuple(exclude), _homes(known)
    for path in sorted({*tree.other_yaml, *tree.other_json} - {*known}):
        is_among = "evaluations" in path.split("/")[:-1] and read.app_folder(path) in homes
        if is_among and not places.matches(path, patterns):
            message = "it lies among an app's evaluations and is none, so nothing of it is run"
            hint = "An evaluation `x` is evaluations/x/x.yaml (or .json), with `golden` or `scenario`; or `exclude` it."
            yield errors.warning("ces-unknown-file", message, Place(file=path), hint)


def left_out(tree: Tree, *, exclude: Iterable[str]) -> tuple[str, ...]:
    """The CES files that `exclude` leaves out."""
    patterns = tuple(exclude)
    named = [path for path in (*tree.other_yaml, *tree.other_json) if patterns and places.matches(path, patterns)]
    return tuple(path for path in named[:MOST_SNIFFED] if _is_of_ces(tree, path))


def _is_of_ces(tree: Tree, path: str) -> bool:
    head = walk.read_head(tree.root, path, size=HEAD_BYTES)
    return read.kind_of(head.decode("utf-8", errors="replace"), file=path) is not None


def library(tree: Tree, files: Iterable[str], *, chosen: Collection[str]) -> Library:
    """What stands in the `chosen` files and is wrong with them and with what applies to them; what they refer to may be
    in any of the `files`."""
    texts, problems = dict[str, str](), list[Problem]()
    for key in files if chosen else ():
        data = tree.read(key, largest=LARGEST_BYTES)
        text = plain.decode(data, file=key)
        if isinstance(text, Problem):
            problems.append(text)
        else:
            texts[key] = text
    found = read.library(texts, folders=lambda folder: walk.folder_names(tree.root, folder))
    apps = {read.app_folder(file) for file in chosen}
    applies = {
        file
        for file, reading in found.readings.items()
        if reading.kind in read.APPLIES and read.app_folder(file) in apps
    }
    told = {*chosen, *applies}
    return Library(
        readings={file: reading for file, reading in found.readings.items() if file in chosen},
        problems=tuple(each for each in (*problems, *found.problems) if each.place and each.place.file in told),
        beside={file: reading for file, reading in found.readings.items() if file not in chosen},
    )


def not_run(found: Library) -> tuple[Problem, ...]:
    """What is found and is not run: tool tests, since no driver has a tool alone."""
    tests = found.of(Kind.TOOL_TESTS)
    if not tests:
        return ()
    message = f"{words.counted(len(tests), 'tool test')} found and not run: evalgate runs agents, not their tools alone"
    return (errors.warning("ces-not-run", message, tests[0].place, HINT),)


def suites_of(
    sets: Mapping[str, EvalSet], uses: Mapping[str, AgentUse], *, specs: Mapping[str, CriterionSpec], settings: Settings
) -> tuple[Suite, ...]:
    """A suite for each file of evaluations, scored as the evaluations say."""
    made = []
    for key, eval_set in sets.items():
        named = [
            CriterionUse(name=name, threshold=None, informational=True)
            if name == cases.RUBRICS
            else CriterionUse(name=name, threshold=1.0)
            for name in cases.decisive(eval_set.cases)
        ]
        if any(case.scenario is not None for case in eval_set.cases):  # CES lets a conversation be cut
            named.append(CriterionUse(name=user.ENDED, threshold=None, informational=True))
        decide = [criteria_base.with_facts(use, specs[use.name]) for use in named]
        made.append(
            Suite(
                key=key,
                eval_set=eval_set,
                criteria=(*decide, *criteria.informational_uses(specs, beside=decide)),
                criteria_source=CriteriaSource(origin=ConfigOrigin.EVALUATION, file=key),
                agent=agents.with_defaults(uses[key], settings),
                simulator=SimulatorUse(max_turns=None),
            )
        )
    return tuple(made)


HINT = "`evalgate list` shows them, `evalgate validate` checks them."


def counted(found: Library) -> str:
    """`3 CES evaluations in 2 files`."""
    files = len({each.file for each in found.tests}) or len(found.readings)
    return f"{words.counted(len(found.tests), 'CES evaluation')} in {words.counted(files, 'file')}"
