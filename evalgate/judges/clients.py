"""The clients of judges: a model's name becomes an opened client with its key, endpoint and its
provider's rate limiter."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Mapping

from evalgate.config.gate_file import JudgeRule
from evalgate.system import redact
from evalgate.values import Environ, Redactor
from . import JUDGES, models, rate_limit
from .base import (
    Judge,
    JudgeDriver,
    JudgeFailed,
    JudgeFailure,
    JudgeFailureKind,
    JudgeSetting,
)
from .models import ENDPOINTS, EVALUATION, ModelHost
from .rate_limit import Clock, RateLimiter, RateLimiters

GOOGLE_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
TRUE_WORDS = ("1", "true", "yes", "on")


class Clients:
    """Opens each model once, with one rate limiter per provider and endpoint. Safe for many
    threads.

    `limiters`: those of the run, shared with all other callers of these providers."""

    def __init__(
        self,
        drivers: Mapping[str, JudgeDriver] = JUDGES,
        *,
        defaults: JudgeRule,
        environment: Environ,
        limiters: RateLimiters | None = None,
    ) -> None:
        self._drivers = drivers
        self._defaults = defaults
        self._environment = environment
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[Judge, RateLimiter]] = {}
        self._limiters = limiters or rate_limit.limiters_for(defaults, Clock())
        key_name = defaults.api_key_env
        secret = environment.get(key_name, "").strip() if key_name else ""
        redact_known = redact.redactor(environment)
        self.redact: Redactor = (
            (lambda text: redact_known(text.replace(secret, "***"))) if secret else redact_known
        )

    def missing(self, model_names: Iterable[str]) -> Mapping[str, str]:
        """The configuration that each of the models lacks, by model, with the next step; complete
        models are left out. Makes no calls."""
        reasons = {model: self._plan(model)[2] for model in model_names}
        return {model: reason for model, reason in reasons.items() if reason}

    def key_names(self, model_names: Iterable[str]) -> frozenset[str]:
        """The variables that contain the keys of these models, or the path of a key file."""
        if self._defaults.client == "replay":
            return frozenset()
        settings = [self._plan(model)[1] for model in model_names]
        secrets = {setting.api_key for setting in settings}
        if any(setting.vertex and not setting.api_key for setting in settings):
            secrets.add(self._environment.get(GOOGLE_FILE, ""))
        return variables_with(secrets, self._environment, secret_names={self._defaults.api_key_env})

    def endpoint(self, model: str) -> str:
        """The address in evalgate.yml that replaces the provider of `model`; "" if none is set."""
        return "" if models.parse_name(model).client == EVALUATION else self._defaults.base_url

    def is_priced(self, model: str) -> bool:
        """True if the price of `model` is known, or it is replayed and costs nothing."""
        return self._defaults.client == "replay" or models.is_price_known(model)

    def client(self, model: str) -> tuple[Judge, RateLimiter]:
        """The opened client of `model`, and its limiter. Raises JudgeFailed(NOT_CONFIGURED)."""
        with self._lock:
            if model not in self._clients:
                driver, setting, reason = self._plan(model)
                if driver is None or reason:
                    raise JudgeFailed(
                        JudgeFailure(kind=JudgeFailureKind.NOT_CONFIGURED, message=reason)
                    )
                provider = models.parse_name(model).provider or setting.base_url
                self._clients[model] = driver.open(setting), self._limiters.of(provider)
            return self._clients[model]

    def call_off(self) -> None:
        """End all waits, now and later."""
        self._limiters.clock.call_off()

    def close(self) -> None:
        """Close every opened client, and end all waits."""
        self.call_off()
        with self._lock:
            for judge, _ in self._clients.values():
                judge.close()
            self._clients.clear()

    # --- settings ---------------------------------------------------------------------------------

    def _plan(self, model: str) -> tuple[JudgeDriver | None, JudgeSetting, str]:
        """The driver of a model, its setting, and what it lacks."""
        name = models.parse_name(model)
        defaults = self._defaults
        environment = self._environment
        client = defaults.client or name.client or ("openai" if defaults.base_url else "")
        own_url = defaults.base_url
        if name.client == EVALUATION and client != "replay":
            # it is not a model: the user's client and endpoint are only for models
            client = EVALUATION
            own_url = ""
        vertex = False
        if client in ("gemini", EVALUATION):
            is_set = environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").strip().lower() in TRUE_WORDS
            vertex = name.vertex or is_set
            variable = "GOOGLE_VERTEX_BASE_URL" if vertex else "GOOGLE_GEMINI_BASE_URL"
            endpoint = ModelHost("", url=variable)
            key_names: tuple[str, ...] = GOOGLE_KEYS
        else:
            endpoint = ENDPOINTS.get(name.provider) or ENDPOINTS["openai"]
            key_names = (endpoint.key,) if endpoint.key else ()
        own_url = own_url or environment.get(endpoint.url, "")
        if endpoint.url == "OLLAMA_API_BASE" and own_url:
            # LiteLLM's variable has the address without it
            own_url = own_url.rstrip("/").removesuffix("/v1") + "/v1"
        if defaults.api_key_env:
            key_names = (defaults.api_key_env,)
        keys = (environment.get(key_name, "").strip() for key_name in key_names)
        key = next(filter(None, keys), "")
        if own_url and not defaults.api_key_env:  # the user's own endpoint may need no key
            key_names = ()
        setting = JudgeSetting(
            model=name.name,
            base_url=own_url or endpoint.base_url,
            api_key=key,
            api_key_env=key_names,
            vertex=vertex,
            environment=environment,
            timeout_s=defaults.timeout,
            path=defaults.replay,
        )
        driver = self._drivers.get(client)
        reason = (
            f"unknown judge model `{model}`; write `gemini-...`, `gpt-...`, `claude-...` or "
            f"`provider/model`, or name an OpenAI-compatible endpoint as the judge's base_url"
        )
        return driver, setting, reason if driver is None else driver.missing(setting)


def variables_with(
    secrets: Iterable[str], environment: Environ, *, secret_names: Container[str]
) -> frozenset[str]:
    """The variables with one of these secrets. For a short one, which may also be an ordinary word,
    only those in `secret_names` and those with the name of a secret."""
    secret_texts = {secret.strip() for secret in secrets} - {""}
    return frozenset(
        name
        for name, text in environment.items()
        if text.strip() in secret_texts
        and (
            len(text.strip()) >= redact.SHORTEST_SECRET
            or redact.is_named(name)
            or name in secret_names
        )
    )
