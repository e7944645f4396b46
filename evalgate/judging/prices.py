"""What a call costs, by the price table of genai-prices; a model that it does not know has no price, which is not 0.

genai-prices (MIT, 2 MB, kept by the makers of pydantic) carries its table along and asks nobody.
"""

from __future__ import annotations

import functools

from evalgate.model import Usage


def cost_usd(*, model: str, provider: str, usage: Usage | None) -> float | None:
    """US dollars of one call; None where the price or the tokens are unknown. `provider`: genai-prices' id."""
    if usage is None or usage.prompt_tokens is None or usage.candidates_tokens is None:
        return None
    return _price(
        model,
        provider,
        usage.prompt_tokens + (usage.tool_use_prompt_tokens or 0),
        usage.cached_tokens or 0,
        usage.candidates_tokens + (usage.thoughts_tokens or 0),
    )


def is_known(*, model: str, provider: str) -> bool:
    """Whether the table has a price for this model of this provider."""
    return _price(model, provider, 1000, 0, 1000) is not None


@functools.lru_cache(maxsize=4096)
def _price(model: str, provider: str, input_tokens: int, cached: int, output_tokens: int) -> float | None:
    import genai_prices  # noqa: PLC0415 - takes a second to load, which a run without judges need not wait for

    if not provider:
        return None
    usage = genai_prices.Usage(input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output_tokens)
    try:
        return float(genai_prices.calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):  # unknown; counts that contradict each other
        return None
