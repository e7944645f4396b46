"""Model names as ADK and LiteLLM write them: their client, endpoint, key variable, and the cost of
a call.

Prices are those of genai-prices (MIT, 2 MB, maintained by the makers of pydantic), which contains
its table and makes no calls. An unknown model has no price, which is not 0."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from evalgate.model import Usage
from evalgate.values import frozen_dataclass

_NAME_PATTERNS = {
    "gemini": re.compile(r"(gemini|gemma|model-optimizer)-"),
    "openai": re.compile(r"gpt-|o\d+(-|$)|chatgpt-"),
    "anthropic": re.compile(r"claude-"),
}
"""The beginnings of names without a prefix, by their prefix."""
_VERTEX_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/(endpoints|publishers)/.+")


EVALUATION = "vertex_evaluation"
"""Google Cloud's evaluation service: a prefix of its metrics, and a row of JUDGES."""


@dataclass(frozen=True, slots=True)
class ModelHost:
    """The address of an OpenAI-compatible provider."""

    base_url: str
    key: str = ""
    """The environment variable with its key."""
    url: str = ""
    """The environment variable with another address."""
    priced_as: str = ""
    """Its id in genai-prices; "" if no price table covers it."""


ENDPOINTS: Mapping[str, ModelHost] = MappingProxyType(
    {
        "openai": ModelHost(
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            url="OPENAI_BASE_URL",
            priced_as="openai",
        ),
        "anthropic": ModelHost(
            "https://api.anthropic.com/v1/",
            "ANTHROPIC_API_KEY",
            priced_as="anthropic",
        ),
        "groq": ModelHost("https://api.groq.com/openai/v1", "GROQ_API_KEY", priced_as="groq"),
        "mistral": ModelHost("https://api.mistral.ai/v1", "MISTRAL_API_KEY", priced_as="mistral"),
        "deepseek": ModelHost("https://api.deepseek.com", "DEEPSEEK_API_KEY", priced_as="deepseek"),
        "openrouter": ModelHost(
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            priced_as="openrouter",
        ),
        "together_ai": ModelHost(
            "https://api.together.xyz/v1", "TOGETHERAI_API_KEY", priced_as="together"
        ),
        "xai": ModelHost("https://api.x.ai/v1", "XAI_API_KEY", priced_as="x-ai"),
        "perplexity": ModelHost(
            "https://api.perplexity.ai", "PERPLEXITYAI_API_KEY", priced_as="perplexity"
        ),
        "ollama": ModelHost("http://localhost:11434/v1", url="OLLAMA_API_BASE"),
        "ollama_chat": ModelHost("http://localhost:11434/v1", url="OLLAMA_API_BASE"),
        "lm_studio": ModelHost(
            "http://localhost:1234/v1", "LM_STUDIO_API_KEY", url="LM_STUDIO_API_BASE"
        ),
        "hosted_vllm": ModelHost(
            "http://localhost:8000/v1",
            "HOSTED_VLLM_API_KEY",
            url="HOSTED_VLLM_API_BASE",
        ),
    }
)
"""Providers with OpenAI's protocol, by LiteLLM's prefix."""


_HOSTS_OF_GOOGLE = r"generativelanguage\.googleapis\.com|([a-z0-9-]+-)?aiplatform\.googleapis\.com"
_HOSTS = "|".join(
    re.escape(endpoint.base_url.split("/")[2])
    for endpoint in ENDPOINTS.values()
    if "https:" in endpoint.base_url
)
_OF_PROVIDER = re.compile(rf"https://({_HOSTS}|{_HOSTS_OF_GOOGLE})(/[A-Za-z0-9._~/-]*)?")


def is_of_provider(base_url: str) -> bool:
    """True if an endpoint is the known address of a provider, or empty. False if parsers could read
    the address in two ways."""
    return not base_url or _OF_PROVIDER.fullmatch(base_url) is not None


@frozen_dataclass
class ModelName:
    """A parsed model name."""

    client: str
    """A row of JUDGES; "" if no row fits."""
    provider: str
    """Its models share a rate limit."""
    name: str
    """At the provider."""
    priced_as: str = ""
    """The provider's id in genai-prices."""
    vertex: bool = False
    """True: use Google Cloud."""


def parse_name(text: str) -> ModelName:
    """Parse a model name: `gemini-2.5-flash`, `gpt-4.1`, `claude-sonnet-4-5`, `provider/model`, a
    Vertex resource name.

    An unknown prefix has no client: it may be part of a model's name at the user's endpoint
    (`Qwen/Qwen3`)."""
    short_name = text.removeprefix("models/")
    prefix, _, name = short_name.partition("/")
    if _VERTEX_NAME.fullmatch(text):
        prefix = "vertex_ai"
        name = text
    elif not name:
        name = short_name
        prefixes = (prefix for prefix, pattern in _NAME_PATTERNS.items() if pattern.match(name))
        prefix = next(prefixes, "")
    if prefix == EVALUATION:
        return ModelName(client=EVALUATION, provider=EVALUATION, name=name, vertex=True)
    if prefix in ("gemini", "google"):
        return ModelName(client="gemini", provider="google", name=name, priced_as="google")
    if prefix in ("vertex_ai", "vertexai"):
        return ModelName(
            client="gemini", provider="vertex", name=name, priced_as="google", vertex=True
        )
    if prefix in ENDPOINTS:
        return ModelName(
            client="openai", provider=prefix, name=name, priced_as=ENDPOINTS[prefix].priced_as
        )
    return ModelName(client="", provider="", name=text)


def cost_usd(model: str, usage: Usage | None) -> float | None:
    """US dollars of one call; None if the price or the tokens are unknown."""
    if usage is None or usage.prompt_tokens is None or usage.candidates_tokens is None:
        return None
    return _price(
        model,
        usage.prompt_tokens + (usage.tool_use_prompt_tokens or 0),
        usage.cached_tokens or 0,
        usage.candidates_tokens + (usage.thoughts_tokens or 0),
    )


def is_price_known(model: str) -> bool:
    """True if the table has a price for this model of its provider."""
    return _price(model, 1000, 0, 1000) is not None


@lru_cache(maxsize=4096)
def _price(model: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> float | None:
    import genai_prices  # noqa: PLC0415 - takes a second to load, only if judges are used

    name = parse_name(model)
    if not name.priced_as:
        return None
    usage = genai_prices.Usage(
        input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens
    )
    try:
        price = genai_prices.calc_price(usage, name.name, provider_id=name.priced_as)
        return float(price.total_price)
    except (LookupError, ValueError):  # an unknown model, or contradictory counts
        return None
