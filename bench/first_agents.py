"""The time of the search for a first agent in a large repository.

    python bench/first_agents.py [--files 1200] [--agents 6] [--profile]

Makes a repository of Python modules that import each other, of which `agents` make an agent of a
framework, and every 20th is a program. The last line is JSON: `agents` found, and seconds of CPU
(user + system) of the search, `cpu_s`, and of parsing each file once, `parse_s`."""

from __future__ import annotations

import argparse
import ast
import cProfile
import json
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evalgate.config.settings import Settings
from evalgate.discovery import candidates

MODULES_A_FOLDER = 30
FUNCTION = """
def step_{number}(records: list[dict[str, str]], limit: int = {number}) -> list[str]:
    \"\"\"Names of the records that fit, at most `limit`.\"\"\"
    names = []
    for record in records:
        if record.get("kind") == KINDS["{number}"] and len(names) < limit:
            names.append(f"{{record['first']}} {{record['last']}}".strip())
        elif record.get("hidden"):
            log.debug("left out %s", record["first"])
    return sorted(names, key=lambda name: (len(name), name))
"""
AGENT = """
from strands import Agent

desk = Agent(model="gemini-2.5-flash", tools=[step_0])
"""
PROGRAM = """
if __name__ == "__main__":
    print(step_0([]))
"""


def write(root: Path, files: int, agents: int) -> None:
    """Write the repository."""
    random_source = random.Random(1)
    names = [f"shop/area_{number // MODULES_A_FOLDER}/part_{number}" for number in range(files)]
    with_agent = set(random_source.sample(range(files), agents))
    for number, name in enumerate(names):
        imports = [
            f"from {imported.replace('/', '.')} import step_1 as step_of_{index}"
            for index, imported in enumerate(random_source.sample(names, 4))
        ]
        parts = [
            "import logging\nimport os\n",
            *(f"{line}\n" for line in imports),
            "\nlog = logging.getLogger(__name__)\n",
            "KINDS = {" + ", ".join(f'"{key}": "kind {key}"' for key in range(12)) + "}\n",
            *(FUNCTION.format(number=index) for index in range(12)),
            AGENT if number in with_agent else "",
            PROGRAM if number % 20 == 0 else "",
        ]
        file = root / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(parts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1200)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.files, options.agents)
        before = time.process_time()
        for file in Path(folder).rglob("*.py"):
            ast.parse(file.read_text(encoding="utf-8"))
        parsed = time.process_time()
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        uses = candidates.find_agents(Settings(root=Path(folder)))
        profile.disable()
        after = time.process_time()
    if options.profile:
        profile.print_stats("cumulative")
    figures = {"cpu_s": round(after - parsed, 2), "parse_s": round(parsed - before, 2)}
    print(json.dumps({"agents": len(uses), **figures}))


if __name__ == "__main__":
    main()
