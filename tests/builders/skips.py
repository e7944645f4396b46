"""Which tests may be skipped, and the one line that tells of them at the end of a run (a plugin of
pytest's)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

ALLOWED = {
    "needs an account": "an account",
    "needs the corpus": "the corpus of public files",
    "needs the history": "commits that a shallow clone lacks",
    "needs cxas": "`make .venv-cxas/.ready`",
    "needs the large frameworks": "`make .venv-frameworks-large/.ready`",
    "needs the oldest frameworks": "`make .venv-frameworks-oldest/.ready`",
    "needs the system": "a right or feature of the system",
}
"""How the reason of a skip begins, and what the line calls it. What packages bring is never a
reason."""
OTHER = "what `make test` brings"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--complete",
        action="store_true",
        help="fail where a test was skipped for what packages bring",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's own summary: below it
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    yield
    found = counted(terminalreporter)
    if found:
        said = (
            f"{count} {'needs' if count == 1 else 'need'} {kind}"
            for kind, count in sorted(found.items())
        )
        terminalreporter.write_line(f"skipped: {', '.join(said)}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # none in a process of xdist's
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--complete") or session.exitstatus:
        return
    if counted(reporter)[OTHER]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def counted(reporter: Any) -> Counter[str]:
    """How many tests, or whole files, were skipped for each kind of reason."""
    found = {report.nodeid: str(report.longrepr[2]) for report in reporter.stats.get("skipped", ())}
    return Counter(_kind(reason.removeprefix("Skipped: ")) for reason in found.values())


def _kind(reason: str) -> str:
    return next((name for start, name in ALLOWED.items() if reason.startswith(start)), OTHER)
