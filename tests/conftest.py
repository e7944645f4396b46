"""What all tests share: the option that rewrites golden files, how many run at once, and in which
order."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from builders import certificates, examples, node, simulated
from builders.nightly import NIGHTLY

pytest_plugins = ["builders.groups", "builders.skips"]

examples.load()
simulated.few()
certificates.keep()

# thousands of tests leave little behind, and what is imported stays
gc.set_threshold(100_000, 50, 100)

# as a shell leaves it to what it runs in the background
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the workflow that runs the tests is none that they are about
for name in [name for name in os.environ if name.startswith("GITHUB_") or name == "CI"]:
    del os.environ[name]

node.join_path()

SLOWEST_FIRST = ("parity", "integration", "action", "browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files instead of comparing"
    )


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: many tests wait for a child or a server. Each
    process collects all tests and imports what its own ask for, which more of them do not make
    good."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """By day without those of the night. The slow ones first: what is left to the end of a parallel
    run is then small."""
    if not NIGHTLY:
        left_out = {item for item in items if item.get_closest_marker("nightly")}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]

    def rank(item: pytest.Item) -> int:
        folders = item.path.parts
        return next(
            (place for place, name in enumerate(SLOWEST_FIRST) if name in folders),
            len(SLOWEST_FIRST),
        )

    items.sort(key=rank)
    examples.give(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # to search what was collected for garbage takes a second


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
