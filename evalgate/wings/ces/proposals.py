"""Changes that an assistant may not make by itself (`--no-relaxing`): they wait until a person
accepts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from evalgate.errors import ConfigError, Place
from evalgate.results import kept, output
from evalgate.text import words
from evalgate.values import JsonObject, frozen_dataclass
from evalgate.wings.ces import read

FOLDER: Final = f"{kept.FOLDER}/ces/proposals"


@frozen_dataclass
class ProposedChange:
    """A change of one resource or case. `content`: all of it after the change; None: delete it.
    `etag`: of what it changes."""

    name: str  # of the resource, or FILE:CASE
    kind: str  # of the resource; "" for a case
    etag: str
    content: JsonObject | None
    reasons: tuple[str, ...]
    diff: str

    @property
    def id(self) -> str:
        """What a person calls it: the last part of its name."""
        return read.file_name(self.name.rpartition("/")[2])

    def json(self) -> JsonObject:
        """As its file has it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "etag": self.etag,
            "content": self.content,
            "reasons": list(self.reasons),
            "diff": self.diff,
        }


def keep(root: Path, proposal: ProposedChange) -> None:
    """Write a proposal, in place of an older one for the same resource."""
    output.make_folder(root / FOLDER)
    text = json.dumps(proposal.json(), indent=2, ensure_ascii=False) + "\n"
    output.write_file(root / FOLDER / f"{proposal.id}.json", [text])


def waiting(root: Path) -> Iterator[ProposedChange]:
    """The proposals below a root. Raises ConfigError for a broken file."""
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            raw: Any = json.loads(path.read_text("utf-8"))
            raw["reasons"] = tuple(map(str, raw["reasons"]))
            yield ProposedChange(**raw)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                "not a proposal", place=Place(file=str(path)), hint="Delete the file."
            ) from error


def named(root: Path, name: str) -> ProposedChange:
    """A proposal by what a person calls it. Raises ConfigError."""
    proposals = {proposal.id: proposal for proposal in waiting(root)}
    if name not in proposals:
        hint = words.suggest(name[:100], proposals) or "`evalgate ces accept` lists them."
        raise ConfigError(f"no proposal {name[:100]!r} is waiting", hint=hint)
    return proposals[name]


def drop(root: Path, proposal: ProposedChange) -> None:
    """Delete a proposal."""
    (root / FOLDER / f"{proposal.id}.json").unlink(missing_ok=True)
