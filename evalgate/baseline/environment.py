"""The environment of an agent besides its files: Python, packages, platform, settings and
variables."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import platform
from collections.abc import Mapping

from evalgate import __version__
from evalgate.agents.base import Agent
from evalgate.config import variables
from evalgate.config.settings import Settings, of_agents
from evalgate.formats import fingerprints
from evalgate.system import redact
from evalgate.values import Environ, without

OF_THE_MACHINE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "CI", "*_PROXY", "*_proxy",
    "SSL_CERT_*", "*_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Variables that differ between two runs of one job and do not change answers."""


def variables_of(environment: Environ, key: bytes) -> Mapping[str, str]:
    """The agent's variables that may change its behavior, with hashed values. Without a key, only
    the existence of a secret is recorded, because even its digest must not be stored."""
    return {
        name: _hidden(name, value, key)
        for name, value in environment.items()
        if not variables.matches(name, OF_THE_MACHINE)
    }


def _hidden(name: str, value: str, key: bytes) -> str:
    if key:
        return hmac.new(key, value.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[
            :16
        ]
    is_secret = name in variables.KEYS or redact.is_named(name)
    return ("set" if value else "") if is_secret else variables.USER_INFO.sub("://", value)


def of_agent(
    agent: Agent, settings: Settings, *, environment: Environ, tools: str, key: bytes
) -> str:
    """The fingerprint of an agent's environment, 16 hex digits; "" if it has not started.

    `tools`: the fingerprint of its tool answers. `key`: for the hash of variables. The agent itself
    reported its Python, framework, packages, instructions, models and tools as loaded."""
    about = agent.about()
    description = agent.description()
    if not about:
        return ""
    machine = [platform.system(), platform.machine()]
    loaded_parts = None if description is None else dataclasses.asdict(description)
    # the path of its Python does not identify the content, and head and the base have different
    # folders
    facts = without(about, ("interpreter",))
    return fingerprints.digest(
        [
            of_agents(settings),
            tools,
            variables_of(environment, key),
            facts,
            loaded_parts,
            machine,
            __version__,
        ]
    )
