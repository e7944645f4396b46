"""An ADK agent without evalgate: what ADK's own runner makes of the turns that an evaluation file
says.

    AGENT'S-PYTHON bench/plain_run.py FOLDER-OF-AGENT turns.json

`turns.json` holds a list of cases: `{"id": "a", "turns": ["Hi"], "state": {}}`. Prints a line of
JSON for each: its id, and how it failed, if it did. The control of strangers.py: a failure that is
here as well is the agent's own."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from google.adk.runners import InMemoryRunner
from google.genai import types


def said_of(error: BaseException) -> str:
    """The error, or the first of its group that is none."""
    while isinstance(inner := getattr(error, "exceptions", None), tuple) and inner:
        error = inner[0]
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


async def run(agent: Any, case: dict[str, Any]) -> None:
    """Say the turns of a case, one after the other, in one session."""
    runner = InMemoryRunner(agent=agent, app_name="plain")
    session = await runner.session_service.create_session(
        app_name="plain", user_id="user", state=case["state"]
    )
    for text in case["turns"]:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
            pass


def main(folder: Path, file: Path) -> None:
    cases = json.loads(file.read_text(encoding="utf-8"))
    sys.path[:0] = [
        str(above) for above in folder.resolve().parents if above.is_relative_to(Path.cwd())
    ]
    try:
        package = importlib.import_module(folder.name)
        module = (
            package.agent
            if hasattr(package, "agent")
            else importlib.import_module(f"{folder.name}.agent")
        )
        agent = module.root_agent
    except BaseException as error:  # noqa: BLE001 - SystemExit too: a settings module may leave
        print(json.dumps({"id": "import", "error": said_of(error)}), flush=True)
        return
    for case in cases:
        failure = None
        try:
            asyncio.run(run(agent, case))
        except BaseException as error:  # noqa: BLE001 - CancelledError too
            failure = said_of(error)
        print(json.dumps({"id": case["id"], "error": failure}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
