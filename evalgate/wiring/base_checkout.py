"""The base's own checkout: which agent serves each suite of head's, and what the base's own files ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evalgate import criteria
from evalgate.errors import ConfigError, NothingToDo, Problem, Severity
from evalgate.model import AgentUse, Policy, Suite
from evalgate.pipeline import fingerprints
from evalgate.project import agent_choice, discovery, reading, tree
from evalgate.wiring import agent_pools, choosing, judging, policies, preparing, simulating
from evalgate.wiring.choosing import Choice

ONE_ENDPOINT = (
    "the agent behind {url} is the same on both sides, so the base cannot be rerun; compare with stored results "
    "(data-branch, baseline-folder), or set `baseline: none`"
)


OF_SELECTIONS = frozenset({"unknown-case", "selection-unmatched"})
"""Codes of problems of what a door selects, not of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a side's own files ask for: its suites with their criteria and cases, and its policy.

    `unread`: suites whose evaluation file cannot be read, so that their cases are not known; `unruled`: those whose
    criteria cannot, or not all of them; `led`: those that have simulated users, though none is among the selected
    cases; `faults`: what is wrong with these files.
    """

    suites: tuple[Suite, ...]
    policy: Policy
    unread: frozenset[str] = frozenset()
    unruled: frozenset[str] = frozenset()
    led: frozenset[str] = frozenset()
    faults: tuple[Problem, ...] = ()

    def is_empty(self) -> bool:
        """Whether it is known that there is no case among them."""
        return not self.unread and not any(suite.eval_set.cases for suite in self.suites)

    def may_have(self, suite: str, *, among: Collection[str]) -> bool:
        """Whether what cannot be read may be this suite of head's, under its own name or under one that is not
        `among` head's any more."""
        return suite in self.unread or any(key not in among for key in self.unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseSide:
    """What the base's files say, for the suites of head.

    `choice`: what its own evalgate.yml and the doors ask for. `agents`: by head's suite keys. `renamed`: the base's
    name of an evaluation file by head's, where they differ. `rules`: None where it has no evaluation file at all.
    """

    choice: Choice
    agents: Mapping[str, AgentUse]
    rules: Rules | None = None
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def own_files(self) -> tuple[str, ...]:
        """Its evaluation files that an agent of its own serves, and those that cannot be read: what it gates."""
        if self.rules is None:
            return ()
        served = {suite.key for suite in self.rules.suites if not is_unknown(suite.agent)}
        return tuple(sorted(served | self.rules.unread))


def read(head: Choice, root: Path, suites: Sequence[Suite], environ: Mapping[str, str]) -> BaseSide:
    """What the base at `root` says. Raises ConfigError where its evalgate.yml cannot be read, or gives values that
    cannot be."""
    choice = _choice(head, root)
    errors = [problem for problem in choice.problems if problem.severity is Severity.ERROR]
    if errors:
        raise ConfigError(told_of(errors))
    rules = _rules(choice, suites, environ, head=head.root)
    renamed = {} if rules is None else renames(rules.suites, suites)
    found = _chosen(choice, suites)
    before = {} if rules is None else {suite.key: _known(suite.agent) for suite in rules.suites}
    agents = {}
    for suite in suites:
        use = before[renamed[suite.key]] if suite.key in renamed else found[suite.key]
        agents[suite.key] = _usable(use, suite)
    agents |= {key: _checked(use) for key, use in before.items() if key not in agents}
    return BaseSide(choice=choice, agents=agents, rules=rules, renamed=renamed)


def told_of(problems: Sequence[Problem]) -> str:
    """The first of several problems with its place, and how many more there are."""
    first = problems[0]
    where = f"{first.place}: " if first.place is not None else ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return f"{where}{first.message}{more}"


def renames(before: Sequence[Suite], now: Sequence[Suite]) -> dict[str, str]:
    """The base's key of each of head's files that is one of the base's under another name: it asks at least half of
    that one's cases the same, and no file asks more of them."""
    old, new = {suite.key for suite in before}, {suite.key for suite in now}
    gone = {suite.key: _questions(suite) for suite in before if suite.key not in new and suite.eval_set.cases}
    found: dict[str, str] = {}
    for suite in now:
        if suite.key in old:
            continue
        asked = _questions(suite)
        shared = {key: len(asked & theirs) for key, theirs in gone.items()}
        best = max(shared, key=lambda key: shared[key], default="")
        if best and shared[best] * 2 >= len(gone[best]) > 0:
            found[suite.key] = best
            del gone[best]
    return found


def _questions(suite: Suite) -> set[tuple[str, str]]:
    return {(case.case_id, fingerprints.of_task(case)) for case in suite.eval_set.cases}


def _choice(head: Choice, root: Path) -> Choice:
    """Head's doors with the base's own evalgate.yml; a file that a door names and the base lacks is none."""
    given = {**head.given, "root": str(root)}
    given["paths"] = [_within(head.root, path) for path in head.settings.paths]
    config = given.get("config")
    if config and not (root / str(config)).is_file():
        given = {name: value for name, value in given.items() if name != "config"}
    return choosing.choose(given)


def _within(root: Path, path: str) -> str:
    """A selection as it can be made in another checkout: an absolute path from the top of this one."""
    name, colon, cases = path.partition(":")
    if not Path(name).is_absolute() or not Path(name).resolve().is_relative_to(root):
        return path
    return f"{Path(name).resolve().relative_to(root).as_posix()}{colon}{cases}"


def _chosen(choice: Choice, suites: Sequence[Suite]) -> dict[str, AgentUse]:
    """The base's agent for every suite of head's: as the base's evalgate.yml says, else as found in its tree."""
    seen = tree.walk(choice.root, exclude=choice.gate_file.exclude)
    chosen = agent_choice.choose_agents(
        {suite.key: suite.eval_set for suite in suites},
        gate_file=choice.gate_file,
        files=seen.agent_files,
        read=lambda path: reading.read_source(choice.root, path),
    )
    return {key: _known(preparing.with_defaults(use, choice.settings)) for key, use in chosen.by_key.items()}


def is_unknown(use: AgentUse) -> bool:
    """Whether none was found."""
    return use.found_by == agent_choice.UNKNOWN.found_by


def _known(use: AgentUse) -> AgentUse:
    return agent_pools.missing() if is_unknown(use) else use


def _usable(use: AgentUse, suite: Suite) -> AgentUse:
    """The agent, unless running it would be running head's: an endpoint has no second side."""
    if use.driver == "http" and use.options.get("url") == suite.agent.options.get("url"):
        return agent_pools.absent(ONE_ENDPOINT.format(url=use.options.get("url")))
    return _checked(use)


def _checked(use: AgentUse) -> AgentUse:
    if use.driver == agent_pools.ABSENT:
        return use
    try:
        preparing.options_of(use)
    except KeyError:
        return agent_pools.absent(f"the base's evalgate.yml names a driver that does not exist: {use.driver}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        return agent_pools.absent(f"the base's evalgate.yml: agent with driver {use.driver}: {where}: {first['msg']}")
    return use


def _rules(choice: Choice, ours: Sequence[Suite], environ: Mapping[str, str], *, head: Path) -> Rules | None:
    """The rules of its own files, of which a door may select cases: those that it has none of are rules all the same,
    where the change asks other cases of them (`ours`) or has moved them."""
    try:
        prepared = preparing.prepare(choice, environ=environ)
        found, unread, problems = prepared.suites, prepared.unread, prepared.of_files
    except NothingToDo:
        found, unread, problems = (), (), ()
    known = {suite.key for suite in (*found, *unread)}
    beside = _unselected(choice, [suite for suite in ours if suite.key not in known], head=head)
    if not known and beside is None:
        return None
    others, led, theirs = beside or ((), frozenset(), ())
    faults = tuple(each for each in (*problems, *theirs) if _is_fault(each))
    wrong = {fault.place.file for fault in faults if fault.place is not None}
    suites = tuple(sorted((*found, *unread, *others), key=lambda suite: suite.key))
    return Rules(
        suites=suites,
        policy=policies.policy_of(choice, suites),
        unread=frozenset(suite.key for suite in unread),
        unruled=frozenset(suite.key for suite in suites if suite.criteria_source.file in wrong),
        led=led,
        faults=faults,
    )


def _is_fault(problem: Problem) -> bool:
    """Whether it is wrong with the base's files; that they lack what head selects is not."""
    return problem.severity is Severity.ERROR and problem.code not in OF_SELECTIONS


def _unselected(
    choice: Choice, ours: Sequence[Suite], *, head: Path
) -> tuple[tuple[Suite, ...], frozenset[str], tuple[Problem, ...]] | None:
    """The base's files that are `ours`: those of the same names, without cases and by the base's rules for those cases,
    and those that are gone from `head` and stand there under another name; which of them have simulated users, and
    what is wrong with their criteria. None where there is no evaluation file at all, whatever is selected."""
    settings = choice.settings
    if not settings.paths and not settings.grep:
        return None
    try:
        whole = discovery.discover(
            choice.root,
            gate_file=choice.gate_file,
            places=choice.places,
            criteria_file=Path(settings.criteria) if settings.criteria else None,
            specs=criteria.CRITERIA,
        )
    except NothingToDo:
        return None
    asked = {suite.key: suite.eval_set for suite in ours}
    gone = [suite for suite in whole.suites if suite.key not in asked and not (head / suite.key).exists()]
    moved = frozenset(renames(gone, ours).values())
    theirs = [suite for suite in whole.suites if suite.key in asked or suite.key in moved]
    led = frozenset(suite.key for suite in theirs if simulating.has_scenarios(suite))
    # what simulated users mean for the criteria counts where head's cases have some
    as_asked = [
        dataclasses.replace(each, eval_set=asked[each.key]) if each.key in led - moved else each for each in theirs
    ]
    settled = judging.settle(simulating.settle(as_asked, choice), judging.defaults_of(choice))
    found = tuple(
        dataclasses.replace(
            suite,
            eval_set=suite.eval_set if suite.key in moved else dataclasses.replace(suite.eval_set, cases=()),
            agent=preparing.with_defaults(suite.agent, settings),
        )
        for suite in settled
    )
    files = {suite.criteria_source.file for suite in found}
    problems = tuple(each for each in whole.problems if each.place is not None and each.place.file in files)
    return found, led, problems
