"""What `approve` answers to google-adk's own questions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evalgate.worker import pipe, tools

CONFIRMATION = {"type": "object", "properties": {"hint": {}, "confirmed": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("name", "schema", "approved", "rejected"),
    [
        ("adk_request_confirmation", None, {"confirmed": True}, {"confirmed": False}),
        ("adk_request_input", None, {"result": "yes"}, {"result": "no"}),
        ("adk_request_input", {"type": "string"}, {"result": "yes"}, {"result": "no"}),
        ("adk_request_input", {"type": "boolean"}, {"result": True}, {"result": False}),
        ("adk_request_input", CONFIRMATION, {"confirmed": True}, {"confirmed": False}),
        # nothing that yes or no could answer
        ("adk_request_input", {"type": "integer"}, None, None),
        ("adk_request_input", {"type": "string", "enum": ["a", "b"]}, None, None),
        ("adk_request_credential", None, None, None),
        ("my_long_running_tool", None, None, None),
    ],
)
def test_answers(name: str, schema: Any, approved: Any, rejected: Any) -> None:
    call = SimpleNamespace(name=name, args={"response_schema": schema})
    assert tools.approval_of(call, is_approved=True) == approved
    assert tools.approval_of(call, is_approved=False) == rejected
    bare = SimpleNamespace(name=name, args=None)
    assert (tools.approval_of(bare, is_approved=True) is None) is (
        name not in (pipe.CONFIRMATION, pipe.INPUT)
    )
