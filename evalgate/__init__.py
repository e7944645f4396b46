"""evalgate: a pull-request gate for LLM agents. The names in `__all__` are its public API
(docs/api.md).

Importing evalgate costs nothing: the API is loaded at the first use of a name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "AgentEvaluator",
    "Context",
    "EvalgateError",
    "Project",
    "Report",
    "Settings",
    "VerdictKind",
    "compare",
    "discover",
    "evaluate",
    "load_settings",
    "run",
]

if TYPE_CHECKING:
    from evalgate.api import (
        Context,
        EvalgateError,
        Project,
        Report,
        Settings,
        VerdictKind,
        compare,
        discover,
        load_settings,
        run,
    )
    from evalgate.wings.pytest.agent_evaluator import AgentEvaluator, evaluate
else:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "wings.pytest.agent_evaluator" if name in ("AgentEvaluator", "evaluate") else "api"
        return getattr(importlib.import_module(f"evalgate.{module}"), name)
