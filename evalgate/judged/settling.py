"""Which judge a criterion asks, and where, once the gate's own file has had its say: written into the criterion.

There it counts for the address of a grade, so that another judge never inherits a grade.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from evalgate.judged.options import JudgedOptions
from evalgate.judged.vertex import Source, VertexOptions
from evalgate.judging import options as choosing
from evalgate.judging.options import JudgeDefaults
from evalgate.model import CriterionUse
from evalgate.plugins import CriterionSpec


def settle(use: CriterionUse, spec: CriterionSpec, defaults: JudgeDefaults) -> CriterionUse:
    """The use with the judge that will be asked; a criterion that asks none stays as it is."""
    if not issubclass(spec.options, JudgedOptions):
        return use
    options = spec.options.model_validate(dict(use.options))
    chosen = choosing.choose(use.name, options.written(), defaults)
    judge: dict[str, Any] = {"judge_model": chosen.model, "num_samples": chosen.num_samples}
    if chosen.config:
        judge["judge_model_config"] = dict(chosen.config)
    own: dict[str, Any] = {"judge_model_options": judge, "exhaustive": chosen.exhaustive}
    settled = dataclasses.replace(use, options={**use.options, **own})
    by_service = isinstance(options, VertexOptions) and options.judge is not Source.LLM  # which is always Google's own
    return dataclasses.replace(settled, endpoint="" if by_service else defaults.base_url)
