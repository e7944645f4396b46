"""Checks of what criteria need from outside: keys of models and of Google Cloud."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from evalgate.errors import Place, Problem
from evalgate.judging import models
from evalgate.judging.options import ADK_MODEL
from evalgate.model import CriterionUse, Suite
from evalgate.plugins import Need
from evalgate.project.linter import finding
from evalgate.project.linter.finding import Setting

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
VERTEX = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


def credentials_missing(suite: Suite, setting: Setting) -> Iterator[Problem]:
    """A criterion that asks a model or Google Cloud, and no credentials are set: it could never be measured."""
    names = setting.environment_names
    served = list(finding.uses_needing(suite, Need.VERTEX, setting))
    for use in finding.uses_needing(suite, Need.JUDGE, setting):
        yield from _model_problem(use, suite, names)
    for use in served:
        if use.options.get("judge") == "llm":
            yield from _model_problem(use, suite, names)
        elif not names.issuperset(VERTEX) and "GOOGLE_API_KEY" not in names:
            hint = f"Set GOOGLE_API_KEY, or {' and '.join(VERTEX)}, in the environment of the job."
            yield _problem(use, suite, "Google Cloud's evaluation service", hint)


def _model_problem(use: CriterionUse, suite: Suite, names: Collection[str]) -> Iterator[Problem]:
    options = use.options.get("judge_model_options")
    written = options.get("judge_model", ADK_MODEL) if isinstance(options, dict) else ADK_MODEL
    hint = _lacking(models.parse(str(written)), names)
    if hint:
        yield _problem(use, suite, f"the model `{written}` as judge", f"{hint} in the environment of the job.")


def _lacking(model: models.ModelName, names: Collection[str]) -> str:
    """What to set for a model to be asked; empty where it may be asked, or where nobody can tell."""
    if model.client == "gemini":
        has_cloud = set(names).issuperset(VERTEX)
        has_key = not model.vertex and not set(names).isdisjoint(KEYS)
        keys = "" if model.vertex else f"{' or '.join(KEYS)}, or "
        return "" if has_cloud or has_key else f"Set {keys}{' and '.join(VERTEX)},"
    endpoint = models.ENDPOINTS.get(model.provider)
    needed = endpoint is not None and endpoint.key and not endpoint.base_url.startswith("http://localhost")
    return f"Set {endpoint.key}" if endpoint and needed and endpoint.key not in names else ""


def _problem(use: CriterionUse, suite: Suite, whom: str, hint: str) -> Problem:
    message = f"`{use.name}` asks {whom}, and no credentials are set"
    hint += " Or judge from recordings (evalgate.yml: `judge: {replay: FILE}`), or leave judges out: --skip-judged."
    return finding.error("credentials-missing", message, place=use.place or Place(file=suite.key), hint=hint)
