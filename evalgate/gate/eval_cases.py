"""The cases of ADK evaluation sets, as an assistant reads and changes them: by file and id, with masks, etags and a
word on what each change relaxes. Of the file only the values change that differ."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from evalgate.ces import compare, edit
from evalgate.ces.compare import MISSING, Change, Relaxation
from evalgate.ces.edit import EVERYTHING, Refused
from evalgate.config import load, places
from evalgate.discovery.walk import Tree
from evalgate.errors import EvalgateError, Severity
from evalgate.formats import eval_set, rewrite
from evalgate.formats.adk_shapes import EvalCaseWire, case_json
from evalgate.formats.json_source import Path
from evalgate.formats.kind import Dialect
from evalgate.gate.resources import Done, Resources
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words

FIELDS: Final = tuple(name for name in EvalCaseWire.model_fields if name not in ("eval_id", "creation_timestamp"))
"""What may be changed of a case."""

_WHAT: Final[Mapping[str, str]] = {
    "conversation": "turn",
    "user_content": "user input",
    "final_response": "expected answer",
    "intermediate_data": "expected tool calls",
    "tool_uses": "expected tool call",
    "invocation_events": "expected tool call",
    "rubrics": "rubric",
    "final_session_state": "expected state",
    "session_input": "session",
    "conversation_scenario": "scenario",
}
_FREE: Final = frozenset({("conversation", "invocation_id"), ("conversation", "creation_timestamp")}) | {
    ("conversation", *above, "id")
    for above in (
        *(("intermediate_data", each) for each in ("tool_uses", "tool_responses")),
        *(
            (*parent, "parts", each)
            for parent in (
                ("user_content",),
                ("final_response",),
                ("intermediate_data", "invocation_events", "content"),
            )
            for each in ("function_call", "function_response")
        ),
    )
}
"""Fields that neither ask nor expect anything, by the keys on the way: an argument may have the same name."""
_STATE: Final = "final_session_state"
_NEW: Final = frozenset(
    {("rubrics",), (_STATE,)} | {("conversation", each) for each in ("final_response", "intermediate_data", "rubrics")}
)
"""Fields that expect more where there was nothing before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A case in its file: its text, the case as it is written, and where that stands."""

    file: str
    source: rewrite.Source
    raw: dict[str, Any]
    path: Path


class EvalCases:
    """The cases below a root. Every method raises Refused for what is not done."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._root = resources.root

    def listed(self) -> dict[str, Any]:
        """Every evaluation set with its cases."""
        settings = load.load_settings({"root": str(self._root)})
        tree = Tree(self._root, exclude=settings.gate_file.exclude)
        made = []
        for file in tree.evaluation_files:
            try:
                reading = eval_set.parse_eval_set(self._read(file).text, file=file)
            except Refused as refused:  # one bad file hides no other
                made.append({"file": file, "problem": refused.message, "evalIds": []})
                continue
            if reading.eval_set is not None:
                found = reading.eval_set
                made.append(
                    {"file": file, "evalSetId": found.eval_set_id, "evalIds": [each.case_id for each in found.cases]}
                )
        return {"evalSets": made}

    def get(self, file: str, eval_id: str) -> dict[str, Any]:
        """A case as it is written, and the etag of its content."""
        held = self._find(file, eval_id)
        return _view(held.file, eval_id, held.raw)

    def update(
        self,
        file: str,
        eval_id: str,
        body: Mapping[str, Any],
        *,
        mask: Any = None,
        etag: str = "",
        preview: bool = False,
    ) -> Done:
        """Write the masked fields of the body; with `preview` only tell what that would be."""
        if not preview:
            self._resources.insist_writable()
        fields = _mask(mask, body)
        with self._resources.locked():
            held = self._find(file, eval_id)
            if etag and etag != _etag(held.raw):
                raise Refused("ABORTED", "the etag is stale: the case was changed since it was read; get it again")
            new = _updated(held.raw, body, fields)
            before, after = _canonical(held.raw), _canonical(new)
            changes = tuple(compare.changes(before, after))
            relaxed = tuple(relaxations(changes))
            text = self._spliced(held, new, after) if changes else held.source.text
            if not preview:
                self._resources.insist_not_relaxing(relaxed)
                if text != held.source.text:
                    _save(held.source, text)
        lines, made = (each.splitlines(keepends=True) for each in (held.source.text, text))
        difference = difflib.unified_diff(lines, made, file, file)
        shown = _view(held.file, eval_id, new)
        return Done(resource=shown, changes=changes, relaxations=relaxed, diff="".join(difference))

    # --- how --------------------------------------------------------------------------------------------

    def _read(self, file: str) -> rewrite.Source:
        why = places.why_not(self._root, file)
        if why:
            raise Refused("PERMISSION_DENIED", f"{file[:200]!r} {why}")
        path = self._resources.inside(file)
        if not path.is_file():
            raise Refused("NOT_FOUND", f"there is no file {file[:200]!r}")
        try:
            return rewrite.read(path, shown_as=file)
        except EvalgateError as error:
            raise Refused("FAILED_PRECONDITION", f"{file}: {error.message}") from error

    def _find(self, file: str, eval_id: str) -> _Held:
        source = self._read(file)
        reading = eval_set.parse_eval_set(source.text, file=file)
        if reading.eval_set is None:
            told = next(each for each in reading.problems if each.severity is Severity.ERROR)
            raise Refused("FAILED_PRECONDITION", str(told))
        if reading.dialect not in (Dialect.ADK, Dialect.ADK_CAMEL):
            message = f"{file} is not in ADK's current format: `evalgate migrate` writes it"
            raise Refused("FAILED_PRECONDITION", message)
        whole = json.loads(source.text.lstrip("\ufeff"))
        key = next(each for each in ("eval_cases", "evalCases") if each in whole)
        cases = whole[key]
        found = [at for at, case in enumerate(cases) if eval_id in (case.get("eval_id"), case.get("evalId"))]
        if len(found) > 1:
            raise Refused("FAILED_PRECONDITION", f"{file} has {len(found)} cases {eval_id!r}")
        if not found:
            near = words.nearest(eval_id[:200], [each.case_id for each in reading.eval_set.cases])
            hint = f"; did you mean `{near}`?" if near else ""
            raise Refused("NOT_FOUND", f"{file} has no case {eval_id[:200]!r}{hint}")
        return _Held(file=file, source=source, raw=cases[found[0]], path=(key, found[0]))

    def _spliced(self, held: _Held, new: Mapping[str, Any], wanted: Any) -> str:
        """The file's text with the case as it is wanted. Raises Refused where that would change anything else."""
        made = edit.spliced(held.source.text, held.raw, new, is_json=True, path=held.path)
        key, at = held.path
        try:
            before, after = (json.loads(text.lstrip("\ufeff")) for text in (held.source.text, made))
            is_wanted = _canonical(after[key][at]) == wanted
            before[key][at] = after[key][at] = None
        except (ValueError, LookupError, TypeError, Refused):
            is_wanted, before, after = False, 0, 1
        if not is_wanted or before != after:
            message = f"{held.file} cannot be changed in place: write keys as the file does, or edit it by hand"
            raise Refused("FAILED_PRECONDITION", message)
        return made


def _save(source: rewrite.Source, text: str) -> None:
    try:
        rewrite.save(source, text)
    except EvalgateError as error:
        raise Refused("ABORTED", error.message) from error


def _view(file: str, eval_id: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"file": file, "evalId": eval_id, "evalCase": dict(raw), "etag": _etag(raw)}


def _etag(raw: Mapping[str, Any]) -> str:
    text = json.dumps(raw, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _mask(given: Any, body: Mapping[str, Any]) -> list[str]:
    """The fields that an update names, as ADK writes them."""
    if isinstance(given, dict):
        given = given.get("paths")
    listed = given.split(",") if isinstance(given, str) else given
    if listed is not None and not (isinstance(listed, list) and all(isinstance(each, str) for each in listed)):
        message = "expected text with commas, a list of texts, or {paths: [...]}"
        raise Refused("INVALID_ARGUMENT", f"updateMask: {message}", [("updateMask", message)])
    paths = [each.strip() for each in listed or () if each.strip()] or list(body)
    if paths == [EVERYTHING]:
        return list(FIELDS)
    wrong = []
    for path in paths:
        if to_snake(path) not in EvalCaseWire.model_fields:
            near = words.nearest(to_snake(path)[:100], FIELDS)
            hint = f"; did you mean `{near}`?" if near else ""
            wrong.append(("updateMask", f"`{path[:100]}` is not a field of a case{hint}"))
    if wrong:
        raise Refused("INVALID_ARGUMENT", f"updateMask: {wrong[0][1]}", wrong)
    return [name for name in dict.fromkeys(map(to_snake, paths)) if name in FIELDS]


def _updated(raw: Mapping[str, Any], body: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The case with the fields of the body, in the spelling of the file."""
    given = {to_snake(key): value for key, value in body.items()}
    made = dict(raw)
    for name in fields:
        spelled = next((each for each in (name, to_camel(name)) if each in made), None)
        if given.get(name) is not None:
            is_camel = "evalId" in raw
            made[spelled or (to_camel(name) if is_camel else name)] = given[name]
        elif spelled is not None:
            del made[spelled]
    return made


def _canonical(raw: Any) -> dict[str, Any]:
    """A case as ADK reads it. Raises Refused where it cannot."""
    try:
        made: dict[str, Any] = json.loads(json.dumps(case_json(EvalCaseWire.model_validate(raw).noun())))
    except ValidationError as error:
        told = []
        for each in error.errors()[:20]:
            where = ".".join(str(step) for step in each["loc"])
            told.append((f"evalCase.{where}" if where else "evalCase", words.fault(each)))
        raise Refused("INVALID_ARGUMENT", f"{told[0][0]}: {told[0][1]}", told) from error
    return made


def relaxations(found: Sequence[Change]) -> Iterator[Relaxation]:
    """Those of the changes of a case after which less may be asked or expected: whatever is removed, replaced or added
    to. A new expectation where there was none is none."""
    for each in found:
        keys = tuple(step for step in each.path if isinstance(step, str))
        is_item = isinstance(each.path[-1], int)
        is_new = each.old is MISSING and not is_item and (keys in _NEW or (len(keys) == 2 and keys[0] == _STATE))
        if keys in _FREE or is_new:
            continue
        what = next((_WHAT[key] for key in reversed(keys) if key in _WHAT), "expectation")
        how = "removed" if each.new is MISSING else "replaced by another"
        if each.old is MISSING and is_item:
            how = "added beside others"  # an easy turn raises a mean, one more call may be made
        yield Relaxation(path=each.path, why=f"the {what} is {how}")
