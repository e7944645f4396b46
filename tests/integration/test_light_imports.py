"""What must not be loaded: an import is paid by every run."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


def test_the_stemmer_loads_without_the_packages_above_it() -> None:
    script = (
        "import sys; from evalgate.criteria import response_match; assert response_match.split('running') == ['run'];"
        "print([name for name in sys.modules if name.split('.')[0] in ('nltk', 'numpy', 'scipy')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_nltk_itself_still_imports_after_the_stemmer() -> None:
    script = (
        "from evalgate.criteria import response_match; response_match.split('running');"
        "from nltk.stem.porter import PorterStemmer; import nltk;"
        "print(PorterStemmer().stem('running'), nltk.edit_distance('a', 'b'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["run", "1"]


def test_a_run_that_asks_nobody_loads_no_client() -> None:
    script = (
        "import sys, evalgate.cli.commands;"
        "from evalgate.comparison import compare; from evalgate.model import ThresholdRule;"
        "assert compare._simulate((0.9,), (0.05, 0.9, ThresholdRule.CONFIRMED), rounds=1, tries=9)[0];"
        "print([name for name in ('google.genai', 'numpy', 'openai', 'requests', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
