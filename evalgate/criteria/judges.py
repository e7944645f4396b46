"""Which judge a criterion asks once the gate's own file has had its say, and who that is for a calibration.

It is written into the criterion, where it counts for the address of a grade: another judge never inherits a grade.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from evalgate.criteria.base import CriterionSpec
from evalgate.criteria.judged import JudgedOptions, Source, VertexOptions
from evalgate.judges import base
from evalgate.judges.base import JudgeDefaults
from evalgate.model import CriterionUse, JudgeIdentity


def settle(use: CriterionUse, spec: CriterionSpec, defaults: JudgeDefaults) -> CriterionUse:
    """The use with the judge that will be asked; a criterion that asks none stays as it is."""
    if not issubclass(spec.options, JudgedOptions):
        return use
    options = spec.options.model_validate(dict(use.options))
    chosen = base.choose_judge(use.name, options.written(), defaults)
    judge: dict[str, Any] = {"judge_model": chosen.model, "num_samples": chosen.num_samples}
    if chosen.config:
        judge["judge_model_config"] = dict(chosen.config)
    own: dict[str, Any] = {"judge_model_options": judge, "exhaustive": chosen.exhaustive}
    settled = dataclasses.replace(use, options={**use.options, **own})
    by_service = isinstance(options, VertexOptions) and options.judge is not Source.LLM  # which is always Google's own
    return dataclasses.replace(settled, endpoint="" if by_service else defaults.base_url)


def judge_of(use: CriterionUse, spec: CriterionSpec | None) -> JudgeIdentity | None:
    """The judge of a settled criterion; None where no judge model says yes or no, so that people cannot either."""
    if spec is None or use.code is not None or spec.verdicts is None or not issubclass(spec.options, JudgedOptions):
        return None
    options = spec.options.model_validate(dict(use.options))
    if isinstance(options, VertexOptions) and options.judge is not Source.LLM:
        return None
    asked = options.judge_model_options
    return JudgeIdentity(
        model=asked.judge_model,
        prompt_version=spec.verdicts.prompt_version,
        num_samples=asked.num_samples,
        config=asked.judge_model_config or {},
    )
