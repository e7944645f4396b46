"""Changes of a resource: the fields that a mask names, the updated resource, and the text of its
file, in which only the changed values differ."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import yaml as pyyaml

from evalgate.config import yaml
from evalgate.formats.json_source import JsonText, Path
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words
from evalgate.values import Json, JsonObject, canonical_text, is_list_of, member
from . import compare, shapes
from .shapes import Handling, Proto

EVERYTHING = "*"


CODES = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}
"""Of google.rpc."""


class Refused(Exception):  # noqa: N818 - an answer to a caller, not an error of ours
    """A rejected change: a code of google.rpc, the problem, and its places in the request."""

    def __init__(self, code: str, message: str, violations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.violations = tuple(violations)


def refusal(*violations: tuple[str, str]) -> Refused:
    """The rejection of a request whose fields have these problems."""
    return Refused("INVALID_ARGUMENT", ": ".join(violations[0]), violations)


# --- masks ----------------------------------------------------------------------------------------


def mask_of(mask: Any, body: Json, shape: type[Proto]) -> list[Path]:
    """The fields that an update names, as keys of protobuf's JSON: those of the body without a
    mask, and all fields for `*`. Output-only fields and the name are omitted.

    Raises Refused for a path that leads nowhere."""
    paths = paths_of(mask) or [key for key in body if key in shapes.fields_of(shape)]
    if EVERYTHING in paths:
        if len(paths) > 1:
            raise refusal(("updateMask", "`*` stands alone"))
        paths = list(shape.model_fields)
    key_paths = []
    violations = []
    for path in paths:
        try:
            key_paths.append(_keys(path, shape))
        except ValueError as error:
            violations.append(("updateMask", f"`{path[:100]}`: {error}"))
    if violations:
        raise refusal(*violations)
    return list(dict.fromkeys(key_path for key_path in key_paths if key_path))


def paths_of(mask: Any) -> list[str]:
    """The paths of a mask: a text with commas, a list, or `{"paths": [...]}`. Raises Refused for
    any other form."""
    if isinstance(mask, dict) and mask.keys() <= {"paths"}:
        mask = mask.get("paths")
    path_list = mask.split(",") if isinstance(mask, str) else mask
    if path_list is not None and not is_list_of(path_list, str):
        message = "expected text with commas, a list of texts, or {paths: [...]}"
        raise refusal(("updateMask", message))
    return [path.strip() for path in path_list or () if path.strip()]


def _keys(path: str, shape: type[Proto]) -> Path:
    """The keys of a path; empty if it is read-only. Raises ValueError."""
    keys: list[str | int] = []
    here: type[Proto] | None = shape
    is_output = is_list = False
    last_step = ""
    for step in path.split("."):
        if is_list:
            reason = "is a list: it is replaced whole and can only come last"
            raise ValueError(f"`{last_step}` {reason}")
        if here is None:
            raise ValueError(f"`{last_step}` has no fields")
        fields = shapes.fields_of(here)
        field = fields.get(step)
        if field is None:
            hint = words.suggest(
                step[:100],
                [field.key for field in fields.values()],
                prefix="; ",
            )
            raise ValueError(f"`{step[:60]}` is not a field{hint}")
        is_output |= field.handling is Handling.OUTPUT
        keys.append(field.key)
        last_step, here, is_list = step, field.message, field.is_list
    return () if is_output or keys == ["name"] else tuple(keys)


def with_fields(stored: Json, body: Json, mask: Sequence[Path], shape: type[Proto]) -> JsonObject:
    """The stored resource with the masked fields of the body; both as `content_of` writes them.

    A masked field is replaced whole, and cleared if the body lacks it. A field of a group removes
    the other fields of the group."""
    resource: JsonObject = json.loads(json.dumps(stored))
    for path in mask:
        value: Any = body
        for key in path:
            value = member(value, str(key))
        _put(resource, list(path), value, shape)
    return resource


def _put(here: JsonObject, path: list[Any], value: Any, shape: type[Proto]) -> None:
    key = path[0]
    field = shapes.fields_of(shape)[key]
    for other in field.excluded_keys if value is not None else ():
        here.pop(other, None)
    if len(path) > 1:
        if value is not None or key in here:  # an absent field needs no clearing
            _put(here.setdefault(key, {}), path[1:], value, field.message or shape)
    elif value is None:
        here.pop(key, None)
    else:
        here[key] = value


# --- the text of a file ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """A value in a text: text[start:end]. `is_block`: YAML without brackets; `at`: the start of its
    key or its dash."""

    start: int
    end: int
    kind: str  # dict, list, or another type
    at: int
    is_block: bool = False
    members: list[tuple[str, _Node]] = dataclasses.field(default_factory=list)


def edited(text: str, old: Any, new: Any, *, is_json: bool, path: Path = ()) -> str:
    """The text of a file in which `new` replaces the value `old` at `path`; all other text stays as
    it is.

    Raises Refused if that is not possible, for example because of anchors in YAML."""
    tree = _json_tree(text) if is_json else _yaml_tree(text)
    for step in path:
        tree = next(node for name, node in tree.members if name == str(step))
    editor = _FileEditor(text, is_json=is_json)
    editor.change(tree, old, new)
    for start, end, put in sorted(editor.edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + put + text[end:]
    return text


def _json_tree(text: str) -> _Node:
    reader = JsonText(text)

    def node(at: int, start: int) -> _Node:
        kind = {"{": "dict", "[": "list"}.get(text[start], "other")
        parent = _Node(start, 0, kind, at=at)
        if kind == "other":
            reader.value(start)
        else:
            parent.members = [
                (str(key), node(member, value)) for key, member, value in reader.members(start)
            ]
        parent.end = reader.end
        return parent

    top = reader.start()
    return node(top, top)


def _yaml_tree(text: str) -> _Node:
    loader = yaml.JsonLoader(text)
    top = loader.get_single_node()
    if "&" in text and any(
        getattr(event, "anchor", None) for event in pyyaml.parse(text, pyyaml.SafeLoader)
    ):
        raise Refused("FAILED_PRECONDITION", "the file has YAML anchors; edit it by hand")

    def node(value: Any, at: int) -> _Node:
        start = value.start_mark.index
        end = value.end_mark.index
        kinds = {pyyaml.MappingNode: "dict", pyyaml.SequenceNode: "list"}
        parent = _Node(start, end, kinds.get(type(value), "other"), at=at)
        parent.is_block = parent.kind != "other" and not value.flow_style
        if parent.kind == "dict":
            parent.members = [
                (str(key.value), node(child, key.start_mark.index)) for key, child in value.value
            ]
        elif parent.kind == "list":
            for number, child in enumerate(value.value):
                begin = child.start_mark.index
                item = node(child, text.rfind("-", 0, begin) if parent.is_block else begin)
                parent.members.append((str(number), item))
        if parent.is_block and parent.members:  # PyYAML counts the blanks and comments behind to it
            parent.end = parent.members[-1][1].end
        elif parent.kind == "other" and value.style in ("|", ">"):
            parent.end = len(text[:end].rstrip())
        return parent

    return node(top, 0)


class _FileEditor:
    """`edits`: ranges of the text, with the text that replaces each."""

    def __init__(self, text: str, *, is_json: bool) -> None:
        self.edits: list[tuple[int, int, str]] = []
        self._text = text
        self._is_json = is_json
        indent = re.search(r"\n([ \t]+)\S", text)
        self._unit = indent[1] if indent else None

    def change(self, node: _Node, old: Any, new: Any) -> None:
        """Note the edits that turn the value at the node into `new`."""
        if canonical_text(old) == canonical_text(new):
            return
        is_same_kind = type(old) is type(new) and type(new).__name__ == node.kind
        if is_same_kind and new and node.members:
            change = self._change_object if node.kind == "dict" else self._change_list
            change(node, old, new)
        else:
            self.edits.append((node.start, node.end, self._value(new, node)))

    def _change_object(self, node: _Node, old: Json, new: Json) -> None:
        names = [name for name, _ in node.members]
        last_numbers = {name: number for number, name in enumerate(names)}
        removed: set[int] = set()
        additions: list[tuple[str, Any]] = []
        for key in dict.fromkeys((*old, *new)):
            spellings = (key, to_snake(key), to_camel(key))
            name = next((spelling for spelling in spellings if spelling in last_numbers), None)
            if name is None:
                additions += [(key, new[key])] if key in new else []
            elif key in new:
                self.change(node.members[last_numbers[name]][1], old.get(key), new[key])
            else:  # all members of a repeated key
                removed.update(number for number, other in enumerate(names) if other == name)
        remaining = set(range(len(names))) - removed
        if remaining:
            self._remove(node, removed)
            self._add(node, max(remaining), additions)
        else:
            self.edits = [edit for edit in self.edits if not node.start <= edit[0] < node.end]
            self.edits.append((node.start, node.end, self._value(new, node)))

    def _change_list(self, node: _Node, old: Sequence[Any], new: Sequence[Any]) -> None:
        removed: list[int] = []
        for pairs, removed_numbers, added_numbers in compare.differing(old, new):
            for number, new_number in pairs:
                self.change(node.members[number][1], old[number], new[new_number])
            removed += removed_numbers
            items = [("", new[number]) for number in added_numbers]
            self._add(node, removed_numbers.start - 1, items)
        self._remove(node, removed)

    def _remove(self, node: _Node, removed: Container[int]) -> None:
        """Remove members with their comma or their lines; never all members."""
        count = len(node.members)
        remaining = [-1, *(number for number in range(count) if number not in removed), count]
        for before, behind in itertools.pairwise(remaining):
            if behind == before + 1:
                continue
            first = node.members[before + 1][1]
            last = node.members[behind - 1][1]
            start = self._text.rfind("\n", 0, first.at) + 1
            if node.is_block and not self._text[start : first.at].strip():
                end = f"{self._text}\n".index("\n", last.end)
                self.edits.append((start, end + 1, ""))
            # in block YAML `- key: value`: the next member moves up to the dash
            elif behind < count:
                self.edits.append((first.at, node.members[behind][1].at, ""))
            else:
                self.edits.append((node.members[before][1].end, last.end, ""))

    def _add(self, node: _Node, position: int, items: Sequence[tuple[str, Any]]) -> None:
        """Insert members after member number `position`; -1: before all."""
        if not items:
            return
        neighbor = node.members[max(position, 0)][1]
        column = neighbor.at - (self._text.rfind("\n", 0, neighbor.at) + 1)
        lead = self._text[neighbor.at - column : neighbor.at]
        is_on_line = not lead.strip()
        indent = lead if is_on_line else " " * column
        at = neighbor.at if position < 0 else neighbor.end
        if node.is_block:
            blocks = [
                pyyaml.safe_dump({key: value} if key else [value], **_BLOCK).rstrip("\n")
                for key, value in items
            ]
            text = "\n".join(blocks).replace("\n", f"\n{indent}")
            if position < 0:
                text = f"{text}\n{indent}"
            else:
                at = f"{self._text}\n".index("\n", at)
                text = f"\n{indent}{text}"
        else:
            between = f",\n{indent}" if is_on_line else ", "
            text = between.join(
                (f"{json.dumps(key)}: " if key else "")
                + self._flow(value, indent if is_on_line else None)
                for key, value in items
            )
            text = text + between if position < 0 else between + text
        self.edits.append((at, at, text))

    def _value(self, value: Any, node: _Node) -> str:
        line = self._text[self._text.rfind("\n", 0, node.at) + 1 :]
        lead = line.removesuffix(line.lstrip(" \t"))
        if not self._is_json and isinstance(value, str):
            scalar: str = pyyaml.safe_dump(value, **_BLOCK).removesuffix("\n").removesuffix("\n...")
            return scalar if "\n" not in scalar else json.dumps(value, ensure_ascii=False)
        return self._flow(value, lead if "\n" in self._text.strip() else None)

    def _flow(self, value: Any, indent: str | None) -> str:
        """JSON, on several lines if the file has several; `indent` is that of the line in which it
        begins."""
        if indent is None or self._unit is None or not self._is_json:
            return json.dumps(value, ensure_ascii=False)
        unit = "\t" if self._unit.startswith("\t") else len(self._unit)
        return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


_BLOCK: dict[str, Any] = {
    "default_flow_style": False,
    "allow_unicode": True,
    "sort_keys": False,
    "width": 10_000,
}
