"""How a criterion's judge is chosen: what the criteria file says, what the gate's own file says above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate.judging.budget import Limits
from evalgate.model import Json

ADK_MODEL = "gemini-2.5-flash"
ADK_SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """What a criterion asks with; None: nothing was said. ADK's `judge_model_options`, and what is ours.

    `config`: `judge_model_config`. ADK's `parallelism_limit` has no place here: the governor sets the pace.
    """

    model: str | None = None
    config: Json | None = None
    num_samples: int | None = None
    exhaustive: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a criterion asks with, all settled."""

    model: str = ADK_MODEL
    config: Json = field(default_factory=dict)
    num_samples: int = ADK_SAMPLES
    exhaustive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDefaults:
    """What `evalgate.yml` says of judges.

    `options`: for every criterion, above the criteria file. `criteria`: for one criterion, above that.
    `client`: a row of JUDGES for every model (`replay`; `openai` for an endpoint of one's own); empty: by the model's
    name. `base_url`, `api_key_env`: where and with whose key, empty: the provider's own. `replay`: absolute path of
    the recordings. `record`: absolute path of a file that replies are recorded in. Times are seconds.
    """

    options: JudgeOptions = JudgeOptions()
    criteria: Mapping[str, JudgeOptions] = field(default_factory=dict)
    client: str = ""
    base_url: str = ""
    api_key_env: str = ""
    replay: str = ""
    record: str = ""
    timeout_s: float = 120.0
    calls_at_once: int = 32
    deadline_s: float | None = None
    limits: Limits = field(default_factory=Limits)


def choose(criterion: str, written: JudgeOptions, defaults: JudgeDefaults) -> Chosen:
    """What `criterion` asks with: the gate's word for it, then for all, then the criteria file's, then ADK's default.

    The configs of the three are merged by key.
    """
    chosen = Chosen()
    for layer in (written, defaults.options, defaults.criteria.get(criterion, JudgeOptions())):
        chosen = Chosen(
            model=chosen.model if layer.model is None else layer.model,
            config={**chosen.config, **(layer.config or {})},
            num_samples=chosen.num_samples if layer.num_samples is None else layer.num_samples,
            exhaustive=chosen.exhaustive if layer.exhaustive is None else layer.exhaustive,
        )
    return chosen
