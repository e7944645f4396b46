"""The base of nearly all our types: immutable values, sentences, and JSON."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
import json
import pkgutil
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeAlias, TypeGuard, TypeVar, dataclass_transform

K = TypeVar("K")
T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]
"""A JSON object that is read."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that is built."""
Environ: TypeAlias = Mapping[str, str]
"""Environment variables by name."""


Redactor: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""
Log: TypeAlias = Callable[[str], None]
"""Takes a line for users."""


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The second members of pairs by the first, in the order in which these first occur."""
    groups: dict[K, list[T]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def digest_of(text: str, length: int | None = None) -> str:
    """The hex digits of a text's SHA-256 digest; the first `length` of them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


canonical_text = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str
).encode
"""A JSON value as a text that is always the same: without blanks, with sorted keys."""


def digest(value: Any) -> str:
    """16 hex digits of the canonical JSON of a value."""
    return digest_of(canonical_text(value), 16)


def member(document: Any, key: str) -> Any:
    """A member of a JSON object; None if it is missing, or if the value is no object."""
    return document.get(key) if isinstance(document, Mapping) else None


def elements(document: Any, key: str) -> list[Any]:
    """The elements of a list in a JSON object; none if there is no such list."""
    value = member(document, key)
    return value if isinstance(value, list) else []


def is_list_of(value: Any, kind: type[T]) -> TypeGuard[list[T]]:
    """True for a list, all of whose elements are of this kind."""
    return isinstance(value, list) and all(isinstance(element, kind) for element in value)


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """True if the name matches a glob; `*` and `?` are wildcards, and case matters."""
    return _any_of(tuple(globs)).match(name) is not None


@functools.lru_cache(maxsize=256)
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for all of these globs; without any it matches no name."""
    return re.compile("|".join(map(fnmatch.translate, globs)) or r"\Z.")


def without(mapping: Mapping[K, T], keys: Container[K]) -> dict[K, T]:
    """The mapping without these keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def only(mapping: Mapping[K, T], keys: Container[K]) -> dict[K, T]:
    """The mapping with only these keys, in its own order."""
    return {key: value for key, value in mapping.items() if key in keys}


def with_keys(mapping: Mapping[K, T], keys: Iterable[K]) -> dict[K, T]:
    """Those of these keys that the mapping has, with their values, in the order of the keys."""
    return {key: mapping[key] for key in keys if key in mapping}


def json_text(document: Any, *, indent: int = 2) -> str:
    """A JSON value as a file for people has it."""
    return json.dumps(document, ensure_ascii=False, indent=indent) + "\n"


def mapped_json(
    document: Any, change: Callable[[Any], Any], *, key: Callable[[str], str] = str
) -> Any:
    """The same JSON with `change` applied to every leaf, and `key` to every key."""
    if isinstance(document, Mapping):
        return {
            key(str(name)): mapped_json(member, change, key=key)
            for name, member in document.items()
        }
    if isinstance(document, list | tuple):
        return [mapped_json(member, change, key=key) for member in document]
    return change(document)


def mapped_texts(document: Any, change: Callable[[str], str]) -> Any:
    """The same JSON with `change` applied to every text and key."""
    return mapped_json(
        document, lambda leaf: change(leaf) if isinstance(leaf, str) else leaf, key=change
    )


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(dataclasses.field, dataclasses.Field),
)
def frozen_dataclass(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots and keyword-only fields."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)


class Sentence:
    """A sentence of a result as a value: its name among those of reports' templates, and its facts.

    `str` asks reports for the text, once; it raises AttributeError for an unknown name. Files keep
    the text, so a sentence equals its text. Facts must not change later."""

    def __init__(self, name: str, /, *facts: object) -> None:
        """`facts`: the arguments of the macro."""
        self.name = name
        self.facts = facts

    @functools.cached_property
    def _text(self) -> str:
        """The words of the macro."""
        # by name: reports are above every room that has something to say
        phrase: Callable[..., str] = pkgutil.resolve_name("evalgate.reports.phrases:phrase")
        return phrase(self.name, *self.facts)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Sentence({self.name!r}, {self.facts!r})"

    def __bool__(self) -> bool:
        """False for a sentence whose macro gives no words."""
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        """Compares texts; another type is not compared."""
        return self._text == str(other) if isinstance(other, str | Sentence) else NotImplemented

    def __hash__(self) -> int:
        """The hash of its text, which it equals."""
        return hash(self._text)

    def __contains__(self, part: str) -> bool:
        """True if the part is in its text."""
        return part in self._text

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Callable[[Any], Any]) -> Any:
        """For pydantic it is a text, which `str` writes."""
        return {**handler(str), "serialization": {"type": "to-string"}}


Wording: TypeAlias = str | Sentence
"""Words for people: a sentence of ours, or text that came from elsewhere."""


def mapped_wording(wording: Any, change: Callable[[str], str]) -> Any:
    """The same words with `change` applied to text from elsewhere, also in a sentence's facts."""
    if isinstance(wording, Sentence):
        return Sentence(wording.name, *(mapped_wording(fact, change) for fact in wording.facts))
    return change(wording) if isinstance(wording, str) else wording
