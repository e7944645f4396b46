"""The process whose forks are google-adk's answers; what it has answered in this test run is not
asked again."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from builders.zygotes import Zygote

SIDE = Path(__file__).parent / "adk_side"
IMPORTED = (
    "google.adk.evaluation.agent_evaluator",
    "google.adk.evaluation.conversation_scenarios",
    "google.adk.evaluation.local_eval_service",
    "google.adk.evaluation.metric_evaluator_registry",
    # the client of agents-cli
    "agentplatform._genai.evals",
)
"""What the scripts import: 4,000 modules, which take longer than the scripts."""
UNUSED = ("-litellm", "-scipy")
"""What those would import where it is installed, and no script asks for: half as long again."""
PATIENCE_S = 570.0

Json = dict[str, Any]


class AdkChild:
    """Scripts in forks of an interpreter that has imported google-adk's evaluation once.

    `shared` is a folder that all processes of a test run know: equal questions are answered once.
    """

    def __init__(self, interpreter: Path, shared: Path) -> None:
        self._interpreter = interpreter
        self._shared = shared

    @functools.cached_property
    def _zygote(self) -> Zygote:
        return Zygote(str(self._interpreter), "worker_zygote.py", *UNUSED, *IMPORTED)

    @property
    def python(self) -> str:
        """Stands in for the interpreter, to run a script."""
        return self._zygote.python

    def ask(self, script: str, requests: Iterable[Json]) -> list[Any]:
        """What a script of adk_side/ answers to each request, in order."""
        text = "".join(f"{json.dumps(each)}\n" for each in requests)
        name = hashlib.sha256(f"{script}\n{text}".encode()).hexdigest()[:24]
        asked, answered = (self._shared / f"{name}.{kind}" for kind in ("requests", "answers"))
        with (self._shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not answered.exists():
                asked.write_text(text, encoding="utf-8")
                partial = answered.with_suffix(".partial")
                self.run(str(SIDE / script), str(asked), str(partial))
                partial.rename(answered)
        return [json.loads(line) for line in answered.read_text("utf-8").splitlines()]

    def run(self, script: str, *arguments: str) -> None:
        """Run a script, which is to end well."""
        done = subprocess.run(
            [self.python, script, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{script}: {done.returncode}\n{done.stderr[-4000:]}"

    def close(self) -> None:
        """Let it go."""
        if "_zygote" in vars(self):
            self._zygote.close()
