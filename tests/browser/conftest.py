"""One Chromium for a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from builders import chromium
from playwright.sync_api import expect, sync_playwright

expect.set_options(timeout=chromium.PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_playwright() as started:
        launched = started.chromium.launch(**chromium.launch_options())
        yield launched
        launched.close()
