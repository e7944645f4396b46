"""Where head's conversation with a simulated user parts from the base's, in words."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import parting
from evalgate.exhibits import calls, conversation
from evalgate.exhibits.cases import CaseExhibit
from evalgate.markup import plain
from evalgate.model import Invocation, Parting, Report, TrialKey

QUOTE_WIDTH = 160


def sentence(exhibit: CaseExhibit, report: Report) -> str:
    """Where the run that is shown parts from the base's run with the same number, and what either agent said there;
    "" for a case whose user's words are written down, and where either side has nothing."""
    both = sides(exhibit, report)
    if both is None:
        return ""
    base, head = both
    found = parting.compare(base, head, hears_calls=exhibit.suite.simulator.include_function_calls)
    if found is None:
        return "The base had the same conversation."
    if found.answers is None:
        heard_alike = "says something else than the base's, having heard the same"
        return f"From turn {found.users} on the simulated user {heard_alike}."
    left, right = base[found.answers - 1], head[found.answers - 1]
    quotes = _quote(left, right), _quote(right, left)
    said = f"the base's agent {quotes[0]}, head's {quotes[1]}"
    if quotes[0] == quotes[1]:
        said = "the agents answered the same, but said or were given something else on the way"
    return f"The conversations part in turn {found.answers}: {said}; {_after(found, base, head)}."


def sides(exhibit: CaseExhibit, report: Report) -> tuple[Sequence[Invocation], Sequence[Invocation]] | None:
    """The base's and head's turns of the same repeat of a scenario; None where either is not known."""
    comparison, shown = report.comparison, exhibit.shown
    led = exhibit.case is not None and exhibit.case.scenario is not None
    if not led or shown is None or comparison is None or comparison.base is None:
        return None
    key = TrialKey(suite=exhibit.verdict.suite, case_id=exhibit.verdict.case_id, repeat=shown.key.repeat)
    base, head = comparison.base.transcripts.find(key), report.run.transcripts.find(key)
    if base is None:
        return None
    if head is not None:
        return base.invocations, head.invocations
    return None if shown.failure is None else (base.invocations, shown.failure.partial)


def _quote(turn: Invocation, other: Invocation) -> str:
    """What an agent said in a turn, or what it called where it said the same as the other."""
    said, compared = (conversation.answer_text(each.final_response) for each in (turn, other))
    if said == compared:
        spelled = ", ".join(calls.spell(call) for call in turn.tool_calls)
        return f"called {plain.clip_end(spelled, QUOTE_WIDTH)}" if spelled else "called no tool"
    if said is None:
        return "said nothing"
    quoted = plain.clip_end(plain.flat(said), QUOTE_WIDTH)
    return f"said \N{LEFT DOUBLE QUOTATION MARK}{quoted}\N{RIGHT DOUBLE QUOTATION MARK}"


def _after(found: Parting, base: Sequence[Invocation], head: Sequence[Invocation]) -> str:
    if found.users is None:
        return "the user says the same to both"
    if found.users > min(len(base), len(head)):
        longer = "the base's" if len(base) > len(head) else "head's"
        return f"from turn {found.users} on only {longer} goes on"
    return f"from turn {found.users} on their users say different things"
