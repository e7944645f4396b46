"""How often cases were run, and what that could have told from noise, in words."""

from __future__ import annotations

from evalgate import words
from evalgate.model import Power, Run


def runs_words(head: Run, base: Run | None) -> str:
    """How often every case was run, further runs aside; stored results may have other numbers of runs."""
    runs = words.counted(head.repeats, "run")
    if base is None or base.repeats == head.repeats:
        return f"{runs} a side"
    return f"{runs} a case on head and {base.repeats:,} on the base"


def power_sentence(power: Power | None) -> str:
    """What a green could have missed; "" where nothing is known of it."""
    if power is None:
        return ""
    further = f" and {power.more} more where outcomes differed" if power.more else ""
    theirs = "" if power.base_repeats is None else f" on head and {power.base_repeats} on the base"
    runs = f"{words.counted(power.repeats, 'run')} a case{theirs}{further}"
    if power.drop is None or power.drop > 1:
        said = f"With {runs} no drop of the pass rate could have been told from noise."
    else:
        said = (
            f"With {runs}, a drop of the pass rate by {power.drop * 100:.0f} points or more would have been "
            "found 4 times out of 5."
        )
    best = 101 if power.drop is None else round(power.drop * 100)
    would: list[tuple[int, int]] = []
    for times, drop in power.would:
        if round(drop * 100) < best:
            best = round(drop * 100)
            would.append((times, best))
    if would:
        what = "runs a side" if theirs else "runs"
        better = words.listed((f"{times} {what} would find {points} points" for times, points in would), limit=4)
        said += f" {better[:1].upper()}{better[1:]}."
    return said
