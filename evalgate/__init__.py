"""evalgate: a pull-request gate for LLM agents. What is in `__all__` is its public API (docs/api.md).

To import evalgate costs nothing: the API comes with the first name of it that is used.
"""

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
        AgentEvaluator,
        Context,
        EvalgateError,
        Project,
        Report,
        Settings,
        VerdictKind,
        compare,
        discover,
        evaluate,
        load_settings,
        run,
    )
else:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("evalgate.api"), name)
