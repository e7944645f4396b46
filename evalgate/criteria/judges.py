"""The judge of a criterion after evalgate.yml is applied, and the judge of a calibration.

The judge is written into the criterion, and so into the address of a grade: another judge never
reuses a grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from evalgate import criteria, errors
from evalgate.config.gate_file import JudgeOptionsRule, JudgeRule
from evalgate.config.settings import Settings
from evalgate.errors import Place, Problem
from evalgate.judges import models as judges_models, panel, replay
from evalgate.judges.clients import Clients
from evalgate.judges.panel import VotingPanel
from evalgate.judges.rate_limit import RateLimiters
from evalgate.model import CriterionUse, JudgeIdentity, Need, Suite, Suites
from evalgate.simulation import user
from evalgate.text import words
from evalgate.values import Environ, JsonObject, Log, grouped, member
from .judged import JudgedOptions, Source, VertexOptions


def settle(use: CriterionUse, defaults: JudgeRule, *, digest: str = "") -> CriterionUse:
    """The use with the judge that will be asked. Unchanged: a criterion without a judge, and
    invalid options, which the check of criteria reports.

    In order of priority: the gate's options for this criterion, its options for all criteria, the
    criteria file, ADK's defaults. Model configs are merged by key. `digest`: the digest of the
    replayed replies."""
    spec = criteria.pick(use.metric or use.name, use.code)
    if spec is None or not issubclass(spec.options, JudgedOptions):
        return use
    try:
        options = spec.options.model_validate(dict(use.options))
    except ValidationError:
        return use
    written_options = options.judge_model_options
    judge: JsonObject = {
        "judge_model": written_options.judge_model,
        "num_samples": written_options.num_samples,
    }
    exhaustive = options.exhaustive
    config = dict(written_options.judge_model_config or {})
    for rule in (defaults, defaults.criteria.get(use.name, JudgeOptionsRule())):
        given = {"judge_model": rule.model, "num_samples": rule.num_samples}
        judge |= {name: value for name, value in given.items() if value is not None}
        exhaustive = exhaustive if rule.exhaustive is None else rule.exhaustive
        config |= rule.config or {}
    if config:
        judge["judge_model_config"] = config
    # the service is always Google's own
    by_service = isinstance(options, VertexOptions) and options.judge is not Source.LLM
    return criteria.with_facts(
        use,
        spec,
        options={**use.options, "judge_model_options": judge, "exhaustive": exhaustive},
        endpoint=digest if by_service else _endpoint(defaults, digest),
    )


def judge_of(use: CriterionUse, *, prompt_version: str | None = None) -> JudgeIdentity | None:
    """The judge of a settled criterion; None if no judge model gives yes-or-no verdicts, so humans
    cannot either. `prompt_version`: the version of the question; None: the current version.

    Raises pydantic.ValidationError for invalid options."""
    spec = criteria.pick(use.name, use.code)
    if spec is None or spec.verdicts is None or not issubclass(spec.options, JudgedOptions):
        return None
    options = spec.options.model_validate(dict(use.options))
    if isinstance(options, VertexOptions) and options.judge is not Source.LLM:
        return None
    judge_options = options.judge_model_options
    return JudgeIdentity(
        model=judge_options.judge_model,
        prompt_version=spec.verdicts.prompt_version if prompt_version is None else prompt_version,
        num_samples=judge_options.num_samples,
        config=judge_options.judge_model_config or {},
    )


def defaults_of(settings: Settings) -> JudgeRule:
    """The judge defaults of evalgate.yml, with absolute paths; the client is `replay` if there are
    recordings."""
    rule = settings.gate_file.judge
    paths = {"replay": rule.replay, "record": rule.record}
    absolute_paths = {name: str(settings.root / path) for name, path in paths.items() if path}
    return rule.model_copy(
        update={"client": rule.client or ("replay" if rule.replay else ""), **absolute_paths}
    )


def settle_suites(suites: Iterable[Suite], defaults: JudgeRule) -> Suites:
    """The suites with the judge of each criterion in its options, and with the endpoint of the
    simulated user. Criteria with invalid options are unchanged."""
    digest = replay.digest(defaults.replay) if defaults.replay else ""
    endpoint = _endpoint(defaults, digest)
    return tuple(
        suite.with_criteria(
            (settle(use, defaults, digest=digest) for use in suite.criteria),
            replace(suite.simulator, endpoint=endpoint),
        )
        for suite in suites
    )


def _endpoint(defaults: JudgeRule, digest: str) -> str:
    """The address, client or recorded replies that replace a model's usual provider."""
    return " ".join(filter(None, (defaults.base_url, defaults.client, digest)))


def missing(suites: Iterable[Suite], defaults: JudgeRule, environ: Environ) -> list[Problem]:
    """The judges of settled suites that cannot be asked. One problem for each place that names
    criteria, with the judge client's reason; criteria of one place share it.

    It is an error, except for a metric without a threshold that only Google Cloud measures:
    agents-cli writes such metrics into every project, and the others are measured without it."""
    judge_uses = [
        (suite, use, model)
        for suite in suites
        for use in suite.criteria
        if (model := _model(use)) is not None
    ]
    models = dict.fromkeys(model for _, _, model in judge_uses)
    reasons = Clients(defaults=defaults, environment=environ).missing(models)
    names_by_reason = grouped(
        (
            (
                use.place or Place(suite.key),
                reasons[model],
                use.is_compared and Need.VERTEX in use.needs,
            ),
            f"`{use.name}`",
        )
        for suite, use, model in judge_uses
        if model in reasons
    )
    hint = "In a workflow, set variables in the step's `env`. Or use recorded replies "
    hint += "(evalgate.yml: `judge: {replay: FILE}`), or set `skip-judged`."
    problems = []
    for (place, reason, is_optional), names in names_by_reason.items():
        report = errors.warning if is_optional else errors.error
        message = f"{words.listed(dict.fromkeys(names))} can never be measured: {reason}"
        problems.append(report("credentials-missing", message, place, hint))
    return problems


@contextmanager
def open_panel(
    settings: Settings,
    suites: Iterable[Suite],
    *,
    environ: Environ,
    cache: Path,
    say: Log,
    limiters: RateLimiters | None = None,
    moment: datetime | None = None,
) -> Iterator[VotingPanel | None]:
    """Open the judge panel of a run; None if no model is asked to judge or to play a user.
    `moment`: the start of the run; replies older than `reuse_days` before it are not reused. None:
    replies of any age are."""
    models = models_of(settings, suites)
    if not models:
        yield None
        return
    voting_panel = panel.open_panel(
        models,
        defaults=defaults_of(settings),
        environment=environ,
        cache=cache / "verdicts",
        warn=say,
        limiters=limiters,
        oldest_s=0.0 if moment is None else moment.timestamp() - settings.reuse_days * 86_400,
    )
    try:
        yield voting_panel
    finally:
        voting_panel.close()


def models_of(settings: Settings, suites: Iterable[Suite]) -> tuple[str, ...]:
    """All models that a run of settled suites asks, to judge or to play a user."""
    suite_list = tuple(suites)
    uses = (use for suite in suite_list for use in suite.criteria if not settings.skip_judged)
    judges = filter(None, map(_model, uses))
    return tuple(dict.fromkeys((*judges, *user.simulator_models(suite_list))))


def key_names(settings: Settings, suites: Iterable[Suite], environ: Environ) -> frozenset[str]:
    """The environment variables with the keys of all models that a run of settled suites asks."""
    models = models_of(settings, suites)
    if not models:
        return frozenset()
    return Clients(defaults=defaults_of(settings), environment=environ).key_names(models)


def _model(use: CriterionUse) -> str | None:
    if not use.is_judged:
        return None
    if Need.VERTEX in use.needs and use.options.get("judge") != "llm":
        return f"{judges_models.EVALUATION}/{use.name}"
    model = member(use.options.get("judge_model_options"), "judge_model")
    return None if model is None else str(model)
