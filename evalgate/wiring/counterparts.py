"""What the base has of head's suites: their agents, which cases are new or gone, in which environment it ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence

from evalgate.agents import opening
from evalgate.gate.pairing import CaseKey
from evalgate.model import Run, Standing, Suite
from evalgate.pipeline import trials
from evalgate.wiring.bases import Base

ENVIRONMENT = ("framework_version", "python", "requirements")
"""What workers tell of their environment that may change what an agent does though its files are the same."""


def unpaired(base: Base, suites: tuple[Suite, ...], *, plan: Sequence[Suite]) -> dict[CaseKey, Standing]:
    """New and deleted cases. `suites`: head's, of this machine; `plan`: all that are measured, here or elsewhere."""
    here = {(suite.key, case.case_id) for suite in plan for case in suite.eval_set.cases}
    gone = sorted(_own_cases(base) - here)
    return dict.fromkeys(gone, Standing.REMOVED) | dict.fromkeys(new_cases(suites, base), Standing.NEW)


def environments(base: Base, head: Run, rerun: Run, *, reused: Container[str]) -> Iterator[str]:
    """A note for each agent that ran in another environment: of one that was rerun, if it is the same agent on both
    sides, since another one may have changed it; of stored results always, since nobody knows what the time between
    has changed as well. `reused`: the suites of which stored trials are used."""
    notes: list[str] = []
    then = _stored_agents(base)
    for ours, theirs in zip(head.suites, rerun.suites, strict=True):
        code = head.codes.get(trials.agent_key(ours.agent))
        now = head.agents.get(trials.agent_key(ours.agent), {})
        key = trials.agent_key(theirs.agent)
        if code and rerun.codes.get(key) == code:
            notes += _differences("the same agent ran", rerun.agents.get(key, {}), now)
        if ours.key in reused and ours.key in then:
            notes += _differences("the agent ran", then[ours.key][1], now)
    yield from dict.fromkeys(notes)


def told(base: Base, run: Run) -> dict[str, Mapping[str, str]]:
    """What every agent of the base's run told of its environment, by `trials.agent_key`; what did not run, as it was
    stored."""
    found = dict(run.agents)
    then = _stored_agents(base)
    for suite in run.suites:
        key, about = then.get(suite.key, ("", {}))
        for each in (key, trials.agent_key(suite.agent)):
            if each and about and not found.get(each):
                found[each] = about
    return found


def _stored_agents(base: Base) -> dict[str, tuple[str, Mapping[str, str]]]:
    """By head's name of a suite, what its agent is called in the stored results, and told when they were measured."""
    if base.stored is None:
        return {}
    stored, ours = base.stored.run, {theirs: ours for ours, theirs in base.renamed.items()}
    keys = {ours.get(suite.key, suite.key): trials.agent_key(suite.agent) for suite in stored.suites}
    return {suite: (key, stored.agents.get(key, {})) for suite, key in keys.items() if suite in base.reusable}


def _differences(what: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in ENVIRONMENT:
        before, after = then.get(name, ""), now.get(name, "")
        if before and after and before != after:
            said = name.replace("_", " ")
            yield f"{what} with another {said} on the base ({before}) than on head ({after})"


def with_agents(suites: tuple[Suite, ...], base: Base) -> tuple[Suite, ...]:
    """Head's suites, to be run by the base's agents."""
    none = opening.missing()
    return tuple(dataclasses.replace(suite, agent=base.agents.get(suite.key, none)) for suite in suites)


def _own_suites(base: Base) -> tuple[Suite, ...]:
    """The suites as the base has them; none where that is not known."""
    if base.rules is not None:
        return base.rules.suites
    return base.stored.run.suites if base.root is None and base.stored is not None else ()


def _own_cases(base: Base) -> set[CaseKey]:
    """The base's cases, under head's names of their files."""
    ours = {theirs: ours for ours, theirs in base.renamed.items()}
    return {
        (ours.get(suite.key, suite.key), case.case_id) for suite in _own_suites(base) for case in suite.eval_set.cases
    }


def new_cases(suites: tuple[Suite, ...], base: Base) -> list[CaseKey]:
    """Cases that cannot have become worse: the base's files do not have them, or it has no agent for their suite.

    Where the base has no evaluation file at all, or its file of them cannot be read, its agent can be asked all the
    same: these are none."""
    before = _own_cases(base)
    keys = {suite.key for suite in suites} | set(base.renamed.values())
    had = {key for key, _ in before}

    def may_be_old(suite: str) -> bool:
        if base.rules is None:
            return not before
        return suite not in had and base.rules.may_have(suite, among=keys)

    return [
        (suite.key, case.case_id)
        for suite in suites
        for case in suite.eval_set.cases
        if base.lacks_agent(suite.key) or ((suite.key, case.case_id) not in before and not may_be_old(suite.key))
    ]
