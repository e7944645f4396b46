"""A copy of the project to which a test adds something as a newcomer would, and with which it then
runs the gate."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from builders import forked_command
from builders.zygotes import Zygote

PROJECT = Path(__file__).parents[2]
COPIED = (
    "evalgate",
    "docs",
    "tests/builders",
    "tests/contract",
    "tests/golden",
    "tests/data",
    "tests/conftest.py",
)
COPIED += (
    "action.yml",
    "gate",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
)
COPIED += ("examples",)
COPIED += (".importlinter", "entrypoint.py", "LICENSE", "bench")


class ScratchTree:
    """The copy, and a repository beside it whose agent is a Python function that greets."""

    def __init__(self, folder: Path, *, copied: tuple[str, ...] = COPIED) -> None:
        self.root = folder / "tree"
        self.repository = folder / "repository"
        self.written: set[str] = set()
        self.zygote: Zygote | None = None
        """What has imported the copy's evalgate, once nothing is added any more."""
        for name in copied:
            source, target = PROJECT / name, self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                # with what is compiled: the times of the files are kept
                shutil.copytree(source, target)
            else:
                shutil.copyfile(source, target)

    def beside(self, folder: Path) -> ScratchTree:
        """The same copy, with another repository beside it."""
        other = copy.copy(self)
        other.repository = folder / "repository"
        return other

    def write(self, path: str, text: str) -> None:
        """A new file."""
        assert not (self.root / path).exists()
        (self.root / path).write_text(text, encoding="utf-8")
        self.written.add(path)

    def replace(self, path: str, *changes: tuple[str, str]) -> None:
        """Each text that stands once in a file, by another one."""
        text = (self.root / path).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
            text = text.replace(old, new)
        (self.root / path).write_text(text, encoding="utf-8")
        self.written.add(path)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Python with the copy in the place of the project."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def make_docs(self) -> None:
        """`make docs`."""
        done = self.python("docs/generate.py", PYTHONPATH=str(self.root))
        assert done.returncode == 0, done.stderr

    def contracts(self, *names: str, update_golden: bool = False) -> None:
        """What holds for every row of every table still holds."""
        options = ("-q", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-m", "not integration")
        done = self.python(
            *("-m", "pytest", *options, *names, *(["--update-golden"] if update_golden else [])),
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # to load them takes longer than the tests
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def evaluate(
        self, criteria: dict[str, Any], *, expected: str = "Good morning!", **rest: Any
    ) -> None:
        """Makes the repository: an evaluation file with one case, and its criteria. `rest`: what
        else the case says."""
        self.repository.mkdir(exist_ok=True)
        said, answer = ({"parts": [{"text": text}]} for text in ("good morning", expected))
        turn = {
            "user_content": said,
            "final_response": answer,
            "intermediate_data": {"tool_uses": []},
        }
        case = {"eval_id": "greeting", "conversation": [turn], **rest}
        files = {
            "greeting.py": "def answer(text):\n    return text.capitalize() + '!'\n",
            "greeting.evalset.json": json.dumps({"eval_set_id": "greeting", "eval_cases": [case]}),
            "test_config.json": json.dumps({"criteria": criteria}),
            "evalgate.yml": "agents: [{driver: python, call: 'greeting:answer'}]\n",
        }
        for name, text in files.items():
            (self.repository / name).write_text(text, encoding="utf-8")

    def gate(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`evalgate` in the repository."""
        asked = [*arguments, "--root", str(self.repository)]
        if self.zygote is None:
            return self.python("-m", "evalgate", *asked, **environment)
        return forked_command.run(
            asked, cwd=self.root, env=self._environment(environment), zygote=self.zygote
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GOOGLE_", "GEMINI_"))
        }
        return {**own, **more}

    def report(self, name: str) -> str:
        """A file that the last run wrote."""
        return (self.repository / "evalgate-report" / name).read_text(encoding="utf-8")

    def grades(self) -> dict[str, Any]:
        """The grades of the only trial of the last run, by criterion."""
        results = json.loads(self.report("results.json"))
        (trial,) = (
            trial
            for suite in results["suites"]
            for case in suite["cases"]
            for trial in case["trials"]
        )
        grades: dict[str, Any] = trial["grades"]
        return grades
