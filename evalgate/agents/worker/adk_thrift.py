"""What google-adk does in every turn for nobody, left out without changing what an agent does.

It describes each model call for OpenTelemetry though nothing records it (an eighth of a turn's CPU), and imports a
module anew whose package is not installed (a tenth). What was imported is not garbage, and not looked through.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import sys
from typing import Any

COLLECT = (10_000, 10, 10)
OPTIONAL = {"google.adk.agents.remote_a2a_agent": "a2a"}  # imported in each turn, and the package that it needs
DEAF = ("opentelemetry.trace", "opentelemetry._logs")  # where the providers live that record nothing


def begin() -> None:
    """Before the agent is loaded, whose own settings then stand: what is loaded is mostly kept."""
    gc.set_threshold(*COLLECT)


def settle() -> None:
    """After a first turn: what was loaded until now stays."""
    for name, package in OPTIONAL.items():
        if name not in sys.modules and package not in sys.modules and importlib.util.find_spec(package) is None:
            try:
                importlib.import_module(name)
            except ImportError as error:
                sys.meta_path.insert(0, Absent(name, error))
    gc.freeze()


class Absent(importlib.abc.MetaPathFinder):
    """A module that cannot be imported, which is known now: the same error, without looking again."""

    def __init__(self, name: str, error: ImportError) -> None:
        self._name = name
        self._error = error

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002 - the interface's signature
        """See importlib.abc.MetaPathFinder."""
        if fullname == self._name:
            raise type(self._error)(*self._error.args, name=self._error.name, path=self._error.path)


def run_options() -> dict[str, Any]:
    """Further arguments for a turn of the Runner: the shorter description of model calls while nothing records any."""
    from google.adk.agents.run_config import RunConfig

    if "telemetry" not in RunConfig.model_fields or _is_recorded():
        return {}
    from google.adk.telemetry.context import TelemetryConfig

    if "genai_semconv_stability_opt_in" not in TelemetryConfig.model_fields:
        return {}
    return {"run_config": RunConfig(telemetry=TelemetryConfig(genai_semconv_stability_opt_in="stable"))}


def _is_recorded() -> bool:
    from opentelemetry import _logs, trace

    providers = (trace.get_tracer_provider(), _logs.get_logger_provider())
    return not all(type(provider).__module__.startswith(DEAF) for provider in providers)
