"""The `.env` of an agent: its variables that judges use as well, and how the base's agent gets one
that git does not keep."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from evalgate import agents
from evalgate.agents.base import folder_of
from evalgate.config import variables
from evalgate.config.gate_file import JudgeRule
from evalgate.config.variables import PROVIDERS
from evalgate.errors import UnavailableError
from evalgate.model import AgentUse
from evalgate.system import git
from evalgate.text import words
from evalgate.values import Environ, frozen_dataclass

NAME = ".env"
LARGEST_BYTES = 256 * 1024
CREDENTIALS = variables.CLOUD_FILE

_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)")


@frozen_dataclass
class JudgeEnvironment:
    """What judges use."""

    environ: Environ
    # names of variables by the file that sets them
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # a sentence on each file that sets a key which does not count
    keys: frozenset[str] = frozenset()  # names of the variables that have keys of judges


def of_judges(
    environ: Environ, judge: JudgeRule, uses: Iterable[AgentUse], *, root: Path
) -> JudgeEnvironment:
    """`environ` with the keys and settings of models that files of the agents at `root` set and
    nothing else does.

    In a workflow a file that the commit brings along does not count, and none says whom to ask:
    neither addresses, nor a key beside the address that it is for."""
    variable_names = {
        CREDENTIALS,
        judge.api_key_env,
        *(name for provider in PROVIDERS.values() for name in provider.keys_and_settings),
    }
    judge_values: dict[str, str] = {}
    used: dict[str, tuple[str, ...]] = {}
    unused: list[str] = []
    for path in _files(uses, root):
        values = read(path)
        file = path.relative_to(root).as_posix()
        file_values = {
            name: value
            for name, value in values.items()
            if value and name not in environ and name in variable_names
        }
        if (
            file_values
            and not variables.is_terminal(environ)
            and (reason := _commit_reason(path, root, environ))
        ):
            unused.append(
                f"`{file}` sets {words.listed(file_values)}, but {reason}, so it does not count in a workflow."
            )
            continue
        for addresses, keys in _foreign_addresses(values, environ) if not judge.base_url else ():
            if keys & file_values.keys():
                unused.append(
                    f"`{file}` sets {words.listed(addresses)}, which never says whom judges ask, so the key beside "
                    "it does not count either; set both in the environment."
                )
                file_values = {
                    name: value for name, value in file_values.items() if name not in keys
                }
        new_values = {
            name: value for name, value in file_values.items() if name not in judge_values
        }  # of two agents' the first counts
        if new_values:
            judge_values |= new_values
            used[file] = tuple(new_values)
    return JudgeEnvironment(environ={**judge_values, **environ}, used=used, unused=tuple(unused))


def _foreign_addresses(
    values: Mapping[str, str], environ: Environ
) -> Iterator[tuple[list[str], set[str]]]:
    """The addresses that a file sets and the environment does not, each provider's with the names
    of its keys."""
    for provider in PROVIDERS.values():
        addresses = [
            name
            for name in provider.endpoints
            if values.get(name) and values[name] != environ.get(name)
        ]
        if addresses:
            yield addresses, set(provider.keys)


def lend(
    pairs: Iterable[tuple[AgentUse, AgentUse]], *, root: Path, base: Path, environ: Environ
) -> tuple[str, ...]:
    """Give the base's agents, whose checkout is at `base`, the files of head's at `root` that the
    commit does not bring along; their paths. `pairs`: head's agent and the base's."""
    paths = []
    for head_use, base_use in pairs:
        for path in _files([head_use], root):
            relative = path.relative_to(root)
            to = base / relative
            if not to.parent.is_dir():  # the change moved the agent
                to = folder_of(base_use.options, base) / NAME
            is_inside = to.parent.resolve() == base.resolve() / to.parent.relative_to(base)
            if is_inside and not os.path.lexists(to) and not _commit_reason(path, root, environ):
                shutil.copyfile(path, to)
                paths.append(relative.as_posix())
    return tuple(dict.fromkeys(paths))


def of_agent(use: AgentUse, root: Path) -> dict[str, str]:
    """What the nearest file of an agent sets."""
    return {name: value for path in _files([use], root) for name, value in read(path).items()}


def read(path: Path) -> dict[str, str]:
    """The variables that a file sets, as written there: values that refer to others are left
    out."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            values = parse(file.read(LARGEST_BYTES))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in values.items() if "${" not in value}


def parse(text: str) -> dict[str, str]:
    """What a file with this text sets, quotes and comments taken off."""
    values = {}
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line)) is not None:
            name = match[1]
            value = match[2].strip()
            if value[:1] in ("'", '"'):
                value = value[1:].partition(value[0])[0]
            else:
                value = re.split(r"\s#", f" {value}", maxsplit=1)[0].strip()
            values[name] = value
    return values


def _files(uses: Iterable[AgentUse], root: Path) -> Collection[Path]:
    """The nearest file of each agent, as its worker finds it: from its folder up to `root`."""
    files: dict[Path, None] = {}
    for use in uses:
        if use.is_absent or agents.is_remote(use):
            continue
        folder = folder_of(use.options, root)
        for place in (folder, *folder.parents):
            if not place.is_relative_to(root):
                break
            if (place / NAME).is_file():
                files[place / NAME] = None
                break
    return files.keys()


def _commit_reason(path: Path, root: Path, environ: Environ) -> str:
    """Why a file may be part of the commit; "" if it is not."""
    if path.resolve() != root.resolve() / path.relative_to(root):
        return "a symbolic link leads there"
    try:
        git.find_source(root)
    except UnavailableError:
        return "this is no git checkout, which would tell that it is not part of the commit"
    return "git tracks it" if git.first_committed([path], root, environ) else ""
