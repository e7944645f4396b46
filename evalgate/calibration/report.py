"""A calibration for a terminal: a table of figures, what to know of them, and where judge and people part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evalgate.model import Calibration, ConfusionKind, CriterionCalibration, JudgeIdentity, Rate
from evalgate.text import plain, words, workflow_commands

NAME = 60
TEXT = 160
MINUS = "-"
KINDS = {
    ConfusionKind.FALSE_POSITIVE: "the judge says yes, people say no (it would let these through)",
    ConfusionKind.FALSE_NEGATIVE: "the judge says no, people say yes (it would stop these)",
    ConfusionKind.UNDECIDED: "the judge could not decide",
}


def render(calibration: Calibration, *, caveats: Sequence[tuple[str, str]] = (), notes: Iterable[str] = ()) -> str:
    """All of it as lines. `caveats`: criterion and sentence. Nothing in it can command a terminal or a runner."""
    figures: list[tuple[str, ...]] = [("criterion", "judge", "labels", "agreement", "kappa", "TPR", "TNR")]
    counts: list[tuple[str, ...]] = [
        ("criterion", "both yes", "both no", "only judge yes", "only people yes", "undecided")
    ]
    for each in calibration.criteria:
        name, found = plain.label(each.criterion, NAME), each.matrix
        rates = [rate(known) for known in (each.agreement, each.kappa, each.tpr, each.tnr)]
        figures.append((name, judge(each.judge), f"{found.total + found.undecided:,}", *rates))
        agreed, parted = (found.true_positive, found.true_negative), (found.false_positive, found.false_negative)
        counts.append((name, *(f"{count:,}" for count in (*agreed, *parted, found.undecided))))
    lines = [
        *plain.table(figures),
        "",
        *plain.table(counts),
        *(f"{plain.label(name, NAME)}: {sentence}" for name, sentence in caveats),
        *(f"note: {note}" for note in notes),
        *(line for each in calibration.criteria for line in _examples(each)),
    ]
    return workflow_commands.disarm("\n".join(lines)) + "\n"


def judge(identity: JudgeIdentity) -> str:
    """`gemini-2.5-flash, prompt 1, 5 samples`."""
    version = f"prompt {plain.label(identity.prompt_version, 20)}" if identity.prompt_version else "prompt unknown"
    return f"{plain.label(identity.model, NAME)}, {version}, {words.counted(identity.num_samples, 'sample')}"


def rate(found: Rate | None) -> str:
    """`0.85 (0.71 to 0.93)`; `-` where it is not known."""
    if found is None:
        return MINUS
    return f"{found.value:.2f} ({found.interval.low:.2f} to {found.interval.high:.2f})"


def _examples(each: CriterionCalibration) -> Iterator[str]:
    for kind, title in KINDS.items():
        found = [example for example in each.examples if example.kind is kind]
        if not found:
            continue
        yield ""
        yield f"{plain.label(each.criterion, NAME)}: {title}"
        for example in found:
            where = f" ({plain.label(example.where, NAME * 2)})" if example.where else ""
            said = f"; the judge: {plain.label(example.judge, 40)}" if example.judge else ""
            yield f"  line {example.line}{where}: people: {plain.label(example.human, 40)}{said}"
            texts = {"of": example.subject, "text": example.shown, "why": example.rationale, "note": example.note}
            for name, text in texts.items():
                if text.strip():
                    yield f"    {name:<5}{plain.label(text, TEXT)}"
