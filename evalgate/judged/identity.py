"""Who judges a criterion as configured: what a calibration must have been made with to hold for it."""

from __future__ import annotations

from typing import Final

from evalgate.judged.options import JudgedOptions
from evalgate.judged.vertex import Source, VertexOptions
from evalgate.model import CriterionUse, JudgeIdentity
from evalgate.plugins import CriterionSpec

AS_ADK: Final = "-adk"
"""Behind the version of a prompt that asks for ADK's reply format."""


def judge_of(use: CriterionUse, spec: CriterionSpec | None, *, adk_compat: bool) -> JudgeIdentity | None:
    """The judge of a settled criterion; None where no judge model says yes or no, so that people cannot either."""
    if spec is None or use.code is not None or spec.verdicts is None or not issubclass(spec.options, JudgedOptions):
        return None
    options = spec.options.model_validate(dict(use.options))
    if isinstance(options, VertexOptions) and options.judge is not Source.LLM:
        return None
    asked = options.judge_model_options
    version = spec.verdicts.prompt_version + (AS_ADK if adk_compat else "")
    return JudgeIdentity(
        model=asked.judge_model,
        prompt_version=version,
        num_samples=asked.num_samples,
        config=asked.judge_model_config or {},
    )
