"""What the ADK worker leaves out: here what needs no google-adk."""

from __future__ import annotations

import importlib
import sys

import pytest

from evalgate.agents.worker.adk import Absent


def test_a_module_that_is_known_to_be_absent_gives_the_error_that_it_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModuleNotFoundError("No module named 'a2a'", name="a2a")
    monkeypatch.setattr(sys, "meta_path", [Absent("evalgate_absent_module", error), *sys.meta_path])
    raised = []
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError) as found:
            importlib.import_module("evalgate_absent_module")
        raised.append(found.value)
    assert [(str(each), each.name) for each in raised] == [("No module named 'a2a'", "a2a")] * 2
    assert raised[0] is not raised[1]  # or one would carry the tracebacks of all
    assert importlib.import_module("colorsys").__name__ == "colorsys"
