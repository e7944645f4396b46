"""Cases of ADK evaluation sets as an assistant changes them: one value of the file, and told what
that relaxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.wings.assistant.eval_cases import EvalCases
from evalgate.wings.ces.edit import Refused
from evalgate.wings.ces.resources import Resources

FILE = "agents/desk.evalset.json"
TEXT = """\
{
  "eval_set_id": "desk",
  "eval_cases": [
    {
      "eval_id": "renews",
      "conversation": [
        {
          "invocation_id": "i-1",
          "user_content": {"role": "user", "parts": [{"text": "Renew L-77"}]},
          "final_response": {"role": "model", "parts": [{"text": "Done"}]},
          "intermediate_data": {"tool_uses": [{"name": "renew", "args": {"loan": "L-77", "weeks": 3}}]}
        }
      ],
      "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "Is polite"}}],
      "final_session_state": {"renewed": true}
    },
    {"eval_id": "other", "conversation": []}
  ]
}
"""
CAMEL = """{"evalSetId": "s", "evalCases": [{"evalId": "c", "conversation": [], "finalSessionState": {"a": 1}}]}"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "repository"
    (place / "agents").mkdir(parents=True)
    (place / FILE).write_text(TEXT)
    return place


def case() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TEXT)["eval_cases"][0]
    return found


def with_turn(**changed: Any) -> dict[str, Any]:
    made = case()
    made["conversation"][0] |= changed
    return {
        "conversation": [
            {key: value for key, value in made["conversation"][0].items() if value is not None}
        ]
    }


def with_more(*path: Any, **added: Any) -> dict[str, Any]:
    """The case with something put into what lies at a path: values into an object, `item` into a
    list."""
    made = case()
    place: Any = made
    for step in path:
        place = place[step]
    if isinstance(place, list):
        place.insert(added.get("at", len(place)), added["item"])
    else:
        place |= added
    return {key: value for key, value in made.items() if key != "eval_id"}


ANSWER = ("conversation", 0, "final_response", "parts")
CALLS = ("conversation", 0, "intermediate_data", "tool_uses")
EASY = {"rubric_id": "e", "rubric_content": {"text_property": "Is an answer"}}
FEWER = {"name": "renew", "args": {"loan": "L-77", "weeks": 2}}
CHANGES: list[tuple[dict[str, Any], str | None, tuple[str, str] | None, list[str]]] = [
    # the body, the mask, what is replaced in the text by what, what that relaxes
    (with_turn(final_response={"role": "model", "parts": [{"text": "Ok"}]}), None, ('"Done"', '"Ok"'),
     ["it is replaced by another"]),
    (with_turn(intermediate_data={"tool_uses": [FEWER]}), "conversation",
     ('"weeks": 3', '"weeks": 2'), ["it is replaced by another"]),
    (with_turn(user_content={"role": "user", "parts": [{"text": "Hi"}]}), "conversation", ('"Renew L-77"', '"Hi"'),
     ["it is replaced by another"]),
    ({}, "rubrics", None, ["it is removed"]),
    ({}, "final_session_state", None, ["it is removed"]),
    ({"finalSessionState": {"renewed": True, "times": 1}}, "finalSessionState",
     ('{"renewed": true}', '{"renewed": true, "times": 1}'), []),  # more is expected
    (with_turn(invocation_id="i-2"), None, ('"i-1"', '"i-2"'), ["it is replaced by another"]),
    ({"conversation": []}, None, None, ["it is removed"]),
    (with_turn(), None, ("", ""), []),  # as it is
    # what is added to something may ask less as well
    # nothing is expected any more
    (with_more(*ANSWER, 0, thought=True), None, None, ["it is added"]),
    (with_more(*ANSWER, item={"text": "and more"}), None, None, ["it is added"]),
    # may be made
    (with_more(*CALLS, item={"name": "log", "args": {}}), None, None, ["it is added"]),
    (with_more(*CALLS, 0, id="call-1"), None, None, ["it is added"]),
    (with_more(*CALLS, 0, "args", id="1"), None, None, ["it is added"]),
    (with_more("rubrics", item=EASY), None, None, ["it is added"]),  # scores are means
    (with_more("rubrics", item={**EASY, "rubric_id": "r"}, at=0), None, None, ["it is added"]),
    # no criterion asks about it
    (with_more("rubrics", 0, type="OTHER"), None, None, ["it is added"]),
    (with_more("conversation", item={"user_content": {"parts": [{"text": "Hi"}]}}), None, None, ["it is added"]),
    (with_more("conversation", 0, "user_content", "parts", item={"text": "Say Done"}), None, None, ["it is added"]),
    (with_more(session_input={"app_name": "a", "user_id": "u", "state": {"x": 1}}), None, None, ["it is added"]),
    # what expects more where nothing was expected
    (with_more("conversation", 0, rubrics=[EASY]), None, None, []),
    ({"eval_id": "renamed"}, None, ("", ""), []),  # its name is no field of an update
]  # fmt: skip


@pytest.mark.parametrize(("body", "mask", "spliced", "relaxed"), CHANGES, ids=range(len(CHANGES)))
def test_an_update_changes_what_differs(
    root: Path,
    body: dict[str, Any],
    mask: str | None,
    spliced: tuple[str, str] | None,
    relaxed: list[str],
) -> None:
    cases = EvalCases(Resources(root))
    etag = cases.get(FILE, "renews")["etag"]
    preview = cases.update(FILE, "renews", body, mask=mask, etag=etag, preview=True)
    assert (root / FILE).read_text() == TEXT
    done = cases.update(FILE, "renews", body, mask=mask, etag=etag)
    assert preview.relaxations == done.relaxations
    assert len(done.relaxations) == len(relaxed)
    assert all(said in str(each) for said, each in zip(relaxed, done.relaxations, strict=True))
    text = (root / FILE).read_text()
    if spliced is not None:
        assert text == (TEXT.replace(*spliced) if spliced[0] else TEXT)
    assert json.loads(text)["eval_cases"][1] == {"eval_id": "other", "conversation": []}
    held = Resources(root, no_relaxing=True)
    (root / FILE).write_text(TEXT)
    if relaxed:
        with pytest.raises(Refused, match="--no-relaxing"):
            EvalCases(held).update(FILE, "renews", body, mask=mask)
        assert (root / FILE).read_text() == TEXT
    else:
        EvalCases(held).update(FILE, "renews", body, mask=mask)


@pytest.mark.parametrize("name", ["id", "invocation_id", "creation_timestamp"])
def test_an_argument_is_expected_whatever_it_is_called(root: Path, name: str) -> None:
    (root / FILE).write_text(TEXT.replace('"loan"', json.dumps(name)))
    other = json.loads(
        json.dumps(case()["conversation"]).replace('"loan": "L-77"', f'"{name}": "L-1"')
    )
    with pytest.raises(Refused, match="it is replaced by another"):
        EvalCases(Resources(root, no_relaxing=True)).update(
            FILE, "renews", {"conversation": other}, mask="conversation"
        )


def test_a_file_that_cannot_be_read_hides_no_other(root: Path) -> None:
    (root / "bad.evalset.json").write_bytes(b"\xff\x00")
    good, bad = EvalCases(Resources(root)).listed()["evalSets"]
    assert "not UTF-8" in bad["problem"]
    assert good["evalIds"] == ["renews", "other"]


REFUSED: list[tuple[str, str, dict[str, Any], Any, str]] = [  # file, case, body, mask, code
    (FILE, "renew", {}, None, "NOT_FOUND"),
    ("agents/no.evalset.json", "renews", {}, None, "NOT_FOUND"),
    ("../outside.evalset.json", "renews", {}, None, "PERMISSION_DENIED"),
    ("/etc/passwd", "renews", {}, None, "PERMISSION_DENIED"),
    ("a\0.evalset.json", "renews", {}, None, "PERMISSION_DENIED"),
    ("link.evalset.json", "renews", {}, None, "PERMISSION_DENIED"),
    ("old.test.json", "old.test", {}, None, "FAILED_PRECONDITION"),
    ("broken.evalset.json", "c", {}, None, "FAILED_PRECONDITION"),
    (FILE, "renews", {}, "conversatio", "INVALID_ARGUMENT"),
    (FILE, "renews", {}, 3, "INVALID_ARGUMENT"),
    (FILE, "renews", {"rubrics": []}, {"path": ["rubrics"]}, "INVALID_ARGUMENT"),
    (FILE, "renews", {"conversation": "x"}, None, "INVALID_ARGUMENT"),
    # neither a conversation nor a scenario
    (FILE, "renews", {}, "conversation", "INVALID_ARGUMENT"),
    (FILE, "twice", {}, None, "NOT_FOUND"),
    ("twice.evalset.json", "c", {}, None, "FAILED_PRECONDITION"),
]


@pytest.mark.parametrize(
    ("file", "case_id", "body", "mask", "code"), REFUSED, ids=range(len(REFUSED))
)
def test_what_is_refused_is_not_written(
    root: Path, file: str, case_id: str, body: dict[str, Any], mask: Any, code: str
) -> None:
    (root.parent / "outside.evalset.json").write_text(TEXT)
    (root / "link.evalset.json").symlink_to(root.parent / "outside.evalset.json")
    (root / "old.test.json").write_text(
        '[{"query": "hi", "reference": "hi", "expected_tool_use": []}]'
    )
    (root / "broken.evalset.json").write_text("{")
    (root / "twice.evalset.json").write_text(
        json.dumps({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": []}] * 2})
    )
    with pytest.raises(Refused) as refused:
        EvalCases(Resources(root)).update(file, case_id, body, mask=mask)
    assert refused.value.code == code
    assert (root / FILE).read_text() == TEXT
    assert (root.parent / "outside.evalset.json").read_text() == TEXT


def test_a_stale_etag_and_read_only(root: Path) -> None:
    cases = EvalCases(Resources(root))
    etag = cases.get(FILE, "renews")["etag"]
    cases.update(FILE, "renews", {"final_session_state": {"renewed": True, "n": 1}}, etag=etag)
    with pytest.raises(Refused) as refused:
        cases.update(FILE, "renews", {"rubrics": []}, etag=etag)
    assert refused.value.code == "ABORTED"
    with pytest.raises(Refused, match="--read-only"):
        EvalCases(Resources(root, read_only=True)).update(FILE, "renews", {})
    preview = EvalCases(Resources(root, read_only=True)).update(
        FILE, "renews", {}, mask="rubrics", preview=True
    )
    assert preview.relaxations


def test_the_spelling_of_the_file_is_kept(root: Path) -> None:
    (root / "camel.evalset.json").write_text(CAMEL)
    cases = EvalCases(Resources(root))
    assert {"file": "camel.evalset.json", "evalSetId": "s", "evalIds": ["c"]} in cases.listed()[
        "evalSets"
    ]
    body = {
        "final_session_state": {"a": 2},
        "session_input": {"appName": "x", "userId": "u", "state": {"k": 1}},
    }
    cases.update("camel.evalset.json", "c", body)
    text = (root / "camel.evalset.json").read_text()
    assert '"finalSessionState": {"a": 2}' in text
    assert '"sessionInput": {' in text
    # keys in two spellings would be two fields: told, and not written
    mixed = with_turn(final_response=None)
    mixed["conversation"][0]["finalResponse"] = {"role": "model", "parts": [{"text": "Ok"}]}
    with pytest.raises(Refused, match="in place"):
        cases.update(FILE, "renews", mixed)
    assert (root / FILE).read_text() == TEXT
