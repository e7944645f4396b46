"""The public API: what `import evalgate` gives, fast, typed, and as docs/api.md shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders.scratch_tree import ScratchTree

import evalgate

PAGE = Path(__file__).parents[2] / "docs/api.md"


@pytest.mark.parametrize("name", evalgate.__all__)
def test_every_name_is_there_and_on_the_page(name: str) -> None:
    assert getattr(evalgate, name).__doc__
    assert re.search(rf"^\| `{name}\b", PAGE.read_text("utf-8"), re.MULTILINE)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'assess'"):
        _ = evalgate.assess


@pytest.mark.integration
def test_importing_it_loads_nothing() -> None:
    script = "import sys, evalgate; print([name for name in sys.modules if name.startswith(('evalgate.', 'pydantic'))])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.integration
def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    tree = ScratchTree(tmp_path, copied=())
    tree.evaluate({"response_match_score": 1.0})
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tree.repository,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "suites: ['greeting.evalset.json']",
        "verdict: pass, exit code 0",
        "greeting pass",
        "compared: pass",
    ]
    assert done.stderr == ""
