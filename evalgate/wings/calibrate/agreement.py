"""The agreement of a judge with people (agreement, Cohen's kappa, TPR, TNR), whether a run may rely
on the judge, and calibration.json, which has the agreement for later runs. Its JSON schema is
published.

Labels of one case are not independent. Each interval is computed for the equivalent number of
independent labels."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import NormalDist

from pydantic import TypeAdapter, ValidationError

from evalgate import errors
from evalgate.config.settings import Settings
from evalgate.criteria import judges
from evalgate.discovery import walk
from evalgate.errors import Place, Problem
from evalgate.formats.base import Format
from evalgate.model import (
    Calibration,
    Confusion,
    ConfusionKind,
    CriterionCalibration,
    CriterionJudge,
    Example,
    JudgedCriterion,
    JudgeIdentity,
    Rate,
    Suite,
)
from evalgate.model.calibration import SCHEMA_VERSION
from evalgate.text import plain, words
from evalgate.values import JsonObject, grouped
from .labels import LabelledVerdict

DRAWS = 10_000
ALPHA = 0.05
MAX_WIDTH = 0.3
"""With a wider interval of kappa, the labels are too few for a gate."""


def confusion(verdicts: Sequence[LabelledVerdict]) -> Confusion:
    """The confusion matrix of the decided labels."""
    cells = [(verdict.label.human, verdict.passed) for verdict in verdicts]
    return Confusion(
        true_positive=cells.count((True, True)),
        false_negative=cells.count((True, False)),
        false_positive=cells.count((False, True)),
        true_negative=cells.count((False, False)),
    )


# --- intervals ---


def wilson(successes: float, total: float) -> tuple[float, float]:
    """Both ends of Wilson's score interval of a share, at 95 % confidence. It is sound for small
    counts, and never has width 0.

    Counts may be fractions, because effective counts are. Without observations the share may be
    anything. Source: Wilson 1927; Brown, Cai and DasGupta 2001."""
    if total <= 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)  # 1.96
    share = min(max(successes / total, 0.0), 1.0)
    center = share + z * z / (2 * total)
    half_width = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if share == 0 else max(0.0, (center - half_width) / scale)
    high = 1.0 if share == 1 else min(1.0, (center + half_width) / scale)
    return low, high


def design_effect(clusters: Iterable[tuple[int, int]]) -> float:
    """The factor by which clusters raise the number of observations that are needed; at least 1.

    `clusters`: hits and total of each. It is the variance of the share by clusters (with C / (C -
    1)) over that of independent observations, at most its value for clusters with equal members. A
    share of 0 or 1 gives 1. Source: Kish 1965; the use with Wilson's interval: Korn and Graubard
    1998."""
    groups = [(total_hits, total) for total_hits, total in clusters if total]
    total_hits = sum(group[0] for group in groups)
    total = sum(group[1] for group in groups)
    if len(groups) < 2 or len(groups) == total or not 0 < total_hits < total:
        return 1.0
    share = total_hits / total
    residuals = math.fsum((group_hits - count * share) ** 2 for group_hits, count in groups)
    clustered_variance = len(groups) / (len(groups) - 1) * residuals / total**2
    max_effect = math.fsum(count * count for _, count in groups) / total
    return min(max(clustered_variance / (share * (1 - share) / total), 1.0), max_effect)


def agreement_rate(
    verdicts: Iterable[LabelledVerdict], *, human: bool | None = None
) -> Rate | None:
    """The share of decided labels with the judge's agreement, with Wilson's interval. `human`: only
    labels that are yes (TPR) or no (TNR)."""
    clusters = _counts_by_case(
        verdict for verdict in verdicts if human in (None, verdict.label.human)
    )
    hits, total = (sum(counts) for counts in zip(*clusters, strict=True)) if clusters else (0, 0)
    if not total:
        return None
    effect = design_effect(clusters)
    low, high = wilson(hits / effect, total / effect)
    return Rate(value=hits / total, low=low, high=high)


def kappa_rate(
    verdicts: Sequence[LabelledVerdict], *, seed: int, draws: int = DRAWS
) -> Rate | None:
    """Cohen's kappa: agreement beyond that of two raters who guess with the same habits.

    None if both only ever use the same verdict. The interval is that of the posterior of the four
    cells under Jeffreys' prior (`draws` draws), widened to include the estimate. With 15 labels it
    covers 93% to 95%; the asymptotic interval and the bootstrap cover 42% to 78%, and both have
    width 0 if everything agrees. Source: Cohen 1960; Basu, Banerjee and Sen 2000."""
    matrix = confusion(verdicts)
    cells = (
        matrix.true_positive,
        matrix.false_negative,
        matrix.false_positive,
        matrix.true_negative,
    )
    value = kappa(*cells)
    if value is None:
        return None
    effect = design_effect(_counts_by_case(verdicts))
    shapes = [cell / effect + 0.5 for cell in cells]
    random = Random(seed)  # noqa: S311 - draws of a posterior, no secret
    draws_of_kappa = (
        kappa(*(random.gammavariate(shape, 1.0) for shape in shapes)) for _ in range(draws)
    )
    sorted_draws = sorted(draw for draw in draws_of_kappa if draw is not None)
    low = sorted_draws[math.floor(ALPHA / 2 * len(sorted_draws))]
    high = sorted_draws[math.ceil((1 - ALPHA / 2) * len(sorted_draws)) - 1]
    return Rate(value=value, low=min(low, value), high=max(high, value))


def kappa(yes_yes: float, yes_no: float, no_yes: float, no_no: float) -> float | None:
    """(observed - expected) / (1 - expected) agreement, or None if it is undefined. The person's
    verdict comes first."""
    total = yes_yes + yes_no + no_yes + no_no
    if not total:
        return None
    by_chance = (yes_yes + yes_no) * (yes_yes + no_yes) + (no_yes + no_no) * (yes_no + no_no)
    denominator = total * total - by_chance
    return None if denominator <= 0 else (total * (yes_yes + no_no) - by_chance) / denominator


def _counts_by_case(verdicts: Iterable[LabelledVerdict]) -> list[tuple[int, int]]:
    """For each case, the number of agreements and the number of decided labels."""
    agreements = grouped(
        (verdict.cluster, verdict.passed is verdict.label.human)
        for verdict in verdicts
        if verdict.passed is not None
    )
    return [(sum(hits), len(hits)) for hits in agreements.values()]


def judge_changes(new: JudgeIdentity, old: JudgeIdentity) -> tuple[str, ...]:
    """The differences between two judges, in words: model and prompt version first, then the
    settings."""
    pairs = {
        "model": (old.model, new.model),
        "prompt version": (old.prompt_version or "unknown", new.prompt_version or "unknown"),
        "samples": (old.num_samples, new.num_samples),
        "options": (dict(old.config), dict(new.config)),
    }
    return tuple(
        f"{name} {old_setting} -> {new_setting}"
        for name, (old_setting, new_setting) in pairs.items()
        if old_setting != new_setting
    )


MAX_EXAMPLES = 5
"""Examples of each kind of confusion."""
MAX_CHARACTERS = 400


def calibrate(
    criterion_judge: CriterionJudge,
    verdicts: Sequence[LabelledVerdict],
    *,
    seed: int,
    draws: int = DRAWS,
) -> CriterionCalibration:
    """All figures of one judge on one criterion, from the criterion's labels."""
    verdicts_by_kind = grouped((confusion_of(verdict), verdict) for verdict in verdicts)
    return CriterionCalibration(
        criterion=criterion_judge.criterion,
        judge=criterion_judge.judge,
        labels=len(verdicts),
        undecided=len(verdicts_by_kind.get(ConfusionKind.UNDECIDED, ())),
        clusters=len({verdict.cluster for verdict in verdicts}),
        matrix=confusion(verdicts),
        agreement=agreement_rate(verdicts),
        kappa=kappa_rate(verdicts, seed=seed, draws=draws),
        tpr=agreement_rate(verdicts, human=True),
        tnr=agreement_rate(verdicts, human=False),
        examples=tuple(
            _example(verdict, kind)
            for kind in ConfusionKind
            for verdict in verdicts_by_kind.get(kind, ())[:MAX_EXAMPLES]
        ),
    )


def confusion_of(verdict: LabelledVerdict) -> ConfusionKind | None:
    """The kind of disagreement between judge and person, or None if they agree."""
    if verdict.passed is None:
        return ConfusionKind.UNDECIDED
    if verdict.passed is verdict.label.human:
        return None
    return ConfusionKind.FALSE_POSITIVE if verdict.passed else ConfusionKind.FALSE_NEGATIVE


def _example(verdict: LabelledVerdict, kind: ConfusionKind) -> Example:
    line = verdict.label.line
    return Example(
        kind=kind,
        line=verdict.label.place.line or 0,
        where="" if line.trial_key is None else f"{line.trial_key}, turn {line.turn or 1}",
        subject=_clip(line.subject),
        human=line.word,
        judge=verdict.word,
        shown=_clip(verdict.judged_text),
        rationale=_clip(verdict.message),
        note=_clip(line.note),
    )


def _clip(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def doubts_of_figures(criterion: CriterionCalibration) -> list[str]:
    """Warnings for a reader of the figures, a sentence each."""
    if not criterion.matrix.total:
        return ["the judge decided none of the labels, so its agreement is unknown"]
    sentences: list[str] = []
    if not criterion.matrix.negatives or not criterion.matrix.positives:
        missing_answer = "no" if not criterion.matrix.negatives else "yes"
        sentences.append(
            f"no label is a {missing_answer}: add some for kappa and the judge's other error rate"
        )
    kappa = criterion.kappa
    if kappa is not None and kappa.high - kappa.low > MAX_WIDTH:
        # the width shrinks with the root of their number
        widths = (kappa.high - kappa.low) / MAX_WIDTH
        label_count = math.ceil(criterion.matrix.total * widths**2)
        span = f"from {kappa.low:.2f} to {kappa.high:.2f}"
        sentences.append(
            f"too few labels: kappa may be anything {span}; about {label_count:,} labels are needed"
        )
    if criterion.undecided:
        total = words.counted(criterion.labels, "label")
        sentences.append(f"{criterion.undecided} of {total} undecided by the judge (excluded)")
    return sentences


def of_judge(
    criterion: str, judge: JudgeIdentity, calibration: Calibration | None
) -> CriterionCalibration | None:
    """The calibration of this judge on this criterion, or None. Prefers equal options, but accepts
    others."""
    candidates = _of_criterion(criterion, calibration)
    identity = (judge.model, judge.prompt_version)
    same_model = [
        candidate
        for candidate in candidates
        if (candidate.judge.model, candidate.judge.prompt_version) == identity
    ]
    same_options = [candidate for candidate in same_model if candidate.judge == judge]
    return next(iter(same_options or same_model), None)


def _of_criterion(criterion: str, calibration: Calibration | None) -> list[CriterionCalibration]:
    criteria = calibration.criteria if calibration else ()
    return [candidate for candidate in criteria if candidate.criterion == criterion]


UNCERTAIN = "calibration-uncertain"


def doubts(
    criterion: str,
    judge: JudgeIdentity,
    calibration: Calibration | None,
    *,
    min_kappa: float | None,
) -> Iterator[tuple[str, str]]:
    """The reason why a run may not rely on this judge, otherwise the weaknesses of its calibration
    (UNCERTAIN): codes of docs/validate.md, each with a sentence."""
    figures = of_judge(criterion, judge, calibration)
    if figures is None:
        candidates = _of_criterion(criterion, calibration)
        if not candidates:
            yield "calibration-missing", f"there are no labels for {_judge_label(judge)}"
        else:
            changes = "; ".join(judge_changes(judge, candidates[0].judge)[:2])
            message = f"it was calibrated with a different judge: {changes}"
            yield "calibration-of-another-judge", message
        return
    kappa = figures.kappa
    if min_kappa is not None and (kappa is None or kappa.value < min_kappa):
        reason = f"kappa of {_judge_label(judge)} cannot be computed from its labels"
        if kappa is not None:
            decided = words.counted(figures.matrix.total, "label")
            kappa_text = words.score(kappa.value, beside=min_kappa)
            interval = f"{kappa.low:.2f} to {kappa.high:.2f}, {decided}"
            reason = f"{_judge_label(judge)} has a judge-human kappa of {kappa_text} ({interval})"
        yield "calibration-below-minimum", f"{reason}; at least {min_kappa:g} is required"
        return
    if judge != figures.judge:
        changes = "; ".join(judge_changes(judge, figures.judge))
        yield UNCERTAIN, f"it was calibrated with different options: {changes}"
    if min_kappa is not None and kappa is not None and kappa.low < min_kappa:
        low = words.score(kappa.low, beside=min_kappa)
        reached = f"kappa {kappa.value:.2f} reaches {min_kappa:g}"
        yield UNCERTAIN, f"{reached}, but with so few labels it could be {low}"


def _judge_label(judge: JudgeIdentity) -> str:
    return f"`{judge.model}` (prompt {judge.prompt_version or 'unknown'})"


# --- the terminal's view -----------------------------------------------------------------------

NAME_WIDTH = 60
TEXT_WIDTH = 160
KINDS = {
    ConfusionKind.FALSE_POSITIVE: "the judge says yes, people say no (it would let these through)",
    ConfusionKind.FALSE_NEGATIVE: "the judge says no, people say yes (it would stop these)",
    ConfusionKind.UNDECIDED: "the judge could not decide",
}


def render(calibration: Calibration, *, notes: Iterable[str] = ()) -> str:
    """A table of figures, their caveats, and examples of disagreement. The text cannot command a
    terminal or a runner."""
    figures: list[tuple[str, ...]] = [
        ("criterion", "judge", "labels", "agreement", "kappa", "TPR", "TNR")
    ]
    counts: list[tuple[str, ...]] = [
        ("criterion", "both yes", "both no", "only judge yes", "only people yes", "undecided")
    ]
    for criterion in calibration.criteria:
        name = plain.label(criterion.criterion, NAME_WIDTH)
        matrix = criterion.matrix
        judge = criterion.judge
        version = plain.label(judge.prompt_version, 20) if judge.prompt_version else "unknown"
        samples = words.counted(judge.num_samples, "sample")
        rate_texts = [
            f"{rate.value:.2f} ({rate.low:.2f} to {rate.high:.2f})" if rate else "-"
            for rate in (criterion.agreement, criterion.kappa, criterion.tpr, criterion.tnr)
        ]
        judge_text = f"{plain.label(judge.model, NAME_WIDTH)}, prompt {version}, {samples}"
        figures.append((name, judge_text, f"{criterion.labels:,}", *rate_texts))
        agreements = (matrix.true_positive, matrix.true_negative)
        disagreements = (matrix.false_positive, matrix.false_negative)
        counts.append(
            (name, *(f"{count:,}" for count in (*agreements, *disagreements, criterion.undecided)))
        )
    lines = [
        *plain.table(figures),
        "",
        *plain.table(counts),
        *(
            f"{plain.label(criterion.criterion, NAME_WIDTH)}: {caveat}"
            for criterion in calibration.criteria
            for caveat in doubts_of_figures(criterion)
        ),
        *(f"note: {note}" for note in notes),
        *(line for criterion in calibration.criteria for line in _example_lines(criterion)),
    ]
    return plain.disarm("\n".join(lines)) + "\n"


def _example_lines(criterion: CriterionCalibration) -> Iterator[str]:
    for kind, title in KINDS.items():
        examples = [example for example in criterion.examples if example.kind is kind]
        if not examples:
            continue
        yield ""
        yield f"{plain.label(criterion.criterion, NAME_WIDTH)}: {title}"
        for example in examples:
            place = f" ({plain.label(example.where, NAME_WIDTH * 2)})" if example.where else ""
            judge_text = f"; the judge: {plain.label(example.judge, 40)}" if example.judge else ""
            yield f"  line {example.line}{place}: people: {plain.label(example.human, 40)}{judge_text}"
            texts = {
                "of": example.subject,
                "text": example.shown,
                "why": example.rationale,
                "note": example.note,
            }
            for name, text in texts.items():
                if text.strip():
                    yield f"    {name:<5}{plain.label(text, TEXT_WIDTH)}"


# --- calibration.json -----------------------------------------------------------------------------

LABELS = "labels.jsonl"
_FILE = TypeAdapter(Calibration)


def schema() -> JsonObject:
    """The JSON schema of calibration.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _FILE.json_schema()


def render_file(calibration: Calibration) -> str:
    """The file's text, without nulls."""
    document = _FILE.dump_python(calibration, mode="json", exclude_none=True)
    return json.dumps(document, indent=1) + "\n"


def parse(text: str) -> Calibration:
    """Read a file of this or an earlier schema version. Raises ValueError with the reason for
    anything else."""
    try:
        calibration = _FILE.validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"]) or "the file"
        raise ValueError(f"`{location}`: {first_error['msg']}") from None
    if calibration.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"its schema version is {calibration.schema_version}, this evalgate reads {SCHEMA_VERSION}"
        )
    return calibration


def find_problems(settings: Settings, suites: Iterable[Suite]) -> list[Problem]:
    """Reasons not to rely on the judges of the settled suites. Errors if `min_kappa` requires a
    calibration, notices if one is only named. Nothing is required if no judge is used."""
    rule = settings.gate_file.judge
    if settings.skip_judged or not (rule.calibration or rule.min_kappa is not None):
        return []
    if not rule.calibration:
        hint = f"Write `calibration: calibration.json` beside it, then {_repair(settings, None)}"
        message = (
            f"`judge: min_kappa` is {rule.min_kappa:g}, and `judge: calibration` names no file"
        )
        return [errors.error("calibration-missing", message, hint=hint)]
    calibration, problem = _calibration_of(settings)
    if problem is not None:
        return [problem]
    problems = []
    report = errors.note if rule.min_kappa is None else errors.error
    pairs: list[tuple[str, JudgeIdentity | None]] = []
    for use in (use for suite in suites for use in suite.criteria if use.is_judged):
        judge = judges.judge_of(use)
        if (use.name, judge) in pairs:
            continue
        pairs.append((use.name, judge))
        if judge is None:
            message = f"`{use.name}` gives no yes or no to label, so it cannot be calibrated"
            problems.append(errors.note("label-without-verdict", message, use.place))
            continue
        for code, doubt in doubts(use.name, judge, calibration, min_kappa=rule.min_kappa):
            message = f"`{use.name}`: {doubt}"
            problems.append(
                errors.note(code, message, use.place)
                if code == UNCERTAIN
                else report(code, message, use.place, _repair(settings, calibration))
            )
    return problems


def calibrations(settings: Settings, suites: Iterable[Suite]) -> tuple[JudgedCriterion, ...]:
    """The calibration of each judged criterion, if evalgate.yml names a file."""
    if not settings.gate_file.judge.calibration or settings.skip_judged:
        return ()
    calibration, _ = _calibration_of(settings)
    return tuple(
        JudgedCriterion(
            suite=suite.key,
            criterion=use.name,
            judge=judge,
            calibration=of_judge(use.name, judge, calibration),
        )
        for suite in suites
        for use in suite.criteria
        if (judge := judges.judge_of(use)) is not None
    )


def _calibration_of(settings: Settings) -> tuple[Calibration | None, Problem | None]:
    """The calibration, or None if the file is missing, and the problem of an unreadable file."""
    rule = settings.gate_file.judge
    path = Path(settings.root, rule.calibration)
    if not path.exists():
        return None, None
    content = walk.read_user_file(path, label=rule.calibration)
    if isinstance(content, Problem):
        message = f"the calibration {str(content.message).removeprefix('the file ')}"
    else:
        try:
            return parse(content.decode("utf-8", "replace")), None
        except ValueError as error:
            message = f"{rule.calibration} is not a calibration: {error}"
    report = errors.warning if rule.min_kappa is None else errors.error
    return None, report(
        "calibration-unreadable", message, Place(rule.calibration), _repair(settings, None)
    )


def _repair(settings: Settings, calibration: Calibration | None) -> str:
    labels = (
        calibration.labels_file if calibration is not None and calibration.labels_file else LABELS
    )
    file_name = settings.gate_file.judge.calibration or "calibration.json"
    return f"Run `evalgate calibrate {labels}` and commit {file_name} (docs/calibration.md)."


class CalibrationFormat(Format):
    """calibration.json, which evalgate.yml names."""

    name = "calibration"
    find_problems = staticmethod(find_problems)
    calibrations = staticmethod(calibrations)


FORMAT = CalibrationFormat()
