"""Proposed changes of evaluation files that wait for a person: keep them, show their diff, make
them.

The proposer knows the format; here a change is the text of files before and after."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evalgate import errors
from evalgate.config import gate_file, places
from evalgate.errors import ConfigError
from evalgate.formats import fingerprints, rewrite
from evalgate.results import kept, output
from evalgate.text import words
from evalgate.values import digest_of, frozen_dataclass

FOLDER = f"{kept.FOLDER}/proposals"
"""Below the root: a JSON file for each change."""
ENDINGS = (".json", ".yaml", ".yml")
"""Of files that a change may edit."""
_NO_NEWLINE = "\\ No newline at end of file\n"
"""As git writes it after a last line without an end."""


@frozen_dataclass
class WaitingChange:
    """A change that waits."""

    name: str
    """For people."""
    texts: Mapping[str, tuple[str, str | None]]
    """By file, relative to the root: the old and the new text, None for no file."""
    reasons: tuple[str, ...] = ()
    """Why a person has to decide."""

    @property
    def diff(self) -> str:
        """The unified diff of its files."""
        return "".join(difference(old, new, file) for file, (old, new) in self.texts.items())

    @property
    def version(self) -> str:
        """A fingerprint, which changes with any part of the change."""
        return fingerprints.digest([self.name, *self.reasons, self.diff])


_CHANGE = TypeAdapter(WaitingChange)
"""Reads and writes a change as JSON."""


def difference(old: str, new: str | None, file: str) -> str:
    """The unified diff of a file; `new` None: the file is deleted."""
    lines, new_lines = (text.splitlines(keepends=True) for text in (old, new or ""))
    new_name = file if new is not None else "/dev/null"
    diff = difflib.unified_diff(lines, new_lines, file, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in diff)


def keep(root: Path, change: WaitingChange) -> None:
    """Save a change in place of an older one of its name."""
    output.make_folder(root / FOLDER)
    text = _CHANGE.dump_json(change, indent=2).decode() + "\n"
    output.write_file(_path(root, change), [text])


def changes(root: Path) -> dict[str, WaitingChange]:
    """The waiting changes below a root, by name. Raises ConfigError for a broken file."""
    by_name = {}
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            change = _CHANGE.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            message = f"{path} is not a proposed change"
            raise ConfigError(message, hint="Delete the file.") from error
        by_name[change.name] = change
    return dict(sorted(by_name.items()))


def select(root: Path, names: Sequence[str]) -> list[WaitingChange]:
    """The changes of these names. Raises ConfigError."""
    by_name = changes(root)
    for name in names:
        if name not in by_name:
            hint = words.did_you_mean(name[:100], by_name)
            raise ConfigError(f"no change {name[:100]!r} is waiting", hint=hint)
    return [by_name[name] for name in names]


def apply(root: Path, change: WaitingChange) -> dict[str, tuple[rewrite.Source, str | None]]:
    """The current files with their new texts, which keep later changes elsewhere in the files.
    Raises ConfigError if that is not possible."""
    texts = {}
    for file, (old, new) in change.texts.items():
        reason = places.refusal_reason(root, file)
        if reason or not _is_of_evaluations(file) or (root / file).is_symlink():
            raise ConfigError(f"{file} {reason or 'is not an evaluation file'}")
        source = rewrite.read(root / file, shown_as=file)
        texts[file] = (source, _merge(source.text, old, new, file=file))
    return texts


def _is_of_evaluations(file: str) -> bool:
    """False for files that no proposal may change: the proposal may have come with a pull
    request."""
    *folders, name = file.split("/")
    is_hidden = any(part.startswith(".") for part in (*folders[1:], name))
    is_odd = folders[:1] != [kept.FOLDER] and file.startswith(".")
    return file.endswith(ENDINGS) and not is_hidden and not is_odd and file not in gate_file.NAMES


def make(root: Path, change: WaitingChange) -> None:
    """Make a change: only its values change in its files. Raises ConfigError, UnavailableError."""
    for source, text in apply(root, change).values():
        path = source.path
        if text is not None:
            if text != source.text:
                rewrite.save(source, text)
            continue
        with errors.unavailable(f"{path} cannot be deleted"):
            path.unlink()
            # the folder that had only this file
            folder = path.parent
            if folder.name == path.stem and folder != root and not any(folder.iterdir()):
                folder.rmdir()


def accept(root: Path, change: WaitingChange) -> None:
    """Make a waiting change and remove it from the list. Raises ConfigError, UnavailableError."""
    make(root, change)
    drop(root, change)


def drop(root: Path, change: WaitingChange) -> None:
    """Remove a waiting change from the list."""
    _path(root, change).unlink(missing_ok=True)


def _path(root: Path, change: WaitingChange) -> Path:
    """The file of a change; named by a digest, since a name may contain anything."""
    return root / FOLDER / f"{digest_of(change.name, 16)}.json"


def _merge(current: str, old: str, new: str | None, *, file: str) -> str | None:
    """The current text with the difference between the old and the new text."""
    if current == old:
        return new
    old_lines, new_lines = (text.splitlines(keepends=True) for text in (old, new or ""))
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for group in matcher.get_grouped_opcodes():
        old_part = "".join(old_lines[group[0][1] : group[-1][2]])
        new_part = "".join(new_lines[group[0][3] : group[-1][4]])
        if new is None or current.count(old_part) != 1:
            message = f"{file} was changed since, at the same place"
            raise ConfigError(message, hint="Let it be proposed again.")
        current = current.replace(old_part, new_part)
    return current
