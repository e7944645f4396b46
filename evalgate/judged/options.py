"""The options of criteria that ask a judge, as ADK names them, and the few that are ours."""

from __future__ import annotations

from pydantic import Field

from evalgate.judging.options import ADK_MODEL, ADK_SAMPLES, JudgeOptions
from evalgate.wire.generation_config import GenerationConfig
from evalgate.wire.invocations import RubricWire
from evalgate.wire.shapes import Wire


class JudgeModelOptions(Wire):
    """ADK's JudgeModelOptions. `parallelism_limit` is accepted and not needed: the governor sets the pace."""

    judge_model: str = ADK_MODEL
    judge_model_config: GenerationConfig | None = None
    num_samples: int = Field(default=ADK_SAMPLES, ge=1)
    parallelism_limit: int = Field(default=1, ge=1)


class JudgedOptions(Wire):
    """The object form of a judged criterion without its threshold. `exhaustive` is ours: no early stop."""

    judge_model_options: JudgeModelOptions = JudgeModelOptions()
    exhaustive: bool = False

    def written(self) -> JudgeOptions:
        """What was said of the judge, for `judging.options.choose`; what was not said is None."""
        own = self.judge_model_options
        said = own.model_fields_set
        return JudgeOptions(
            model=own.judge_model if "judge_model" in said else None,
            config=own.judge_model_config if "judge_model_config" in said else None,
            num_samples=own.num_samples if "num_samples" in said else None,
            exhaustive=self.exhaustive if "exhaustive" in self.model_fields_set else None,
        )


class AnswerOptions(JudgedOptions):
    """Options of a criterion that judges the final answer."""

    include_intermediate_responses_in_final: bool = False


class RubricOptions(JudgedOptions):
    """Options of a criterion that judges by rubrics; `include_intermediate_responses_in_final` is ADK's for all."""

    rubrics: list[RubricWire] = Field(default_factory=list)
    include_intermediate_responses_in_final: bool = False
