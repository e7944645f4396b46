"""The `.env` file of an agent: its variables that judges use too, and its copy for the base's agent
if git does not track it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from pathlib import Path

from evalgate import agents
from evalgate.agents.base import folder_of
from evalgate.config import variables
from evalgate.config.gate_file import JudgeRule
from evalgate.config.variables import PROVIDERS
from evalgate.errors import UnavailableError
from evalgate.model import AgentUse
from evalgate.system import git, python_needs
from evalgate.text import words
from evalgate.values import Environ, frozen_dataclass, without

NAME = ".env"
LARGEST_BYTES = 256 * 1024
CREDENTIALS = variables.CLOUD_FILE

_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)")


@frozen_dataclass
class JudgeEnvironment:
    """The environment of judges."""

    environ: Environ
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of variables by the file that sets them."""
    unused: tuple[str, ...] = ()
    """A sentence about each file with values that do not count."""
    keys: frozenset[str] = frozenset()
    """Names of variables with keys of judges."""


def of_judges(
    environ: Environ, judge: JudgeRule, uses: Iterable[AgentUse], *, root: Path
) -> JudgeEnvironment:
    """`environ` with keys and settings of models that are set only in files of the agents at
    `root`.

    In a workflow, files that are part of the commit are not used. Files never decide the address of
    a model: addresses are not used, and neither are keys beside them."""
    variable_names = {
        CREDENTIALS,
        judge.api_key_env,
        *(name for provider in PROVIDERS.values() for name in (*provider.keys, *provider.settings)),
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
        for provider in PROVIDERS.values() if not judge.base_url else ():
            addresses = [
                name
                for name in provider.endpoints
                if values.get(name) and values[name] != environ.get(name)
            ]
            if addresses and not file_values.keys().isdisjoint(provider.keys):
                unused.append(
                    f"`{file}` sets {words.listed(addresses)}, which never decides the judges' address, so the key beside "
                    "it does not count either; set both in the environment."
                )
                file_values = without(file_values, provider.keys)
        new_values = without(file_values, judge_values)  # the first of two agents' files counts
        if new_values:
            judge_values |= new_values
            used[file] = tuple(new_values)
    return JudgeEnvironment(environ={**judge_values, **environ}, used=used, unused=tuple(unused))


def lend(
    pairs: Iterable[tuple[AgentUse, AgentUse]], *, root: Path, base: Path, environ: Environ
) -> tuple[str, ...]:
    """Copy the files of head's agents at `root` that are not part of the commit to the base's
    agents, whose checkout is at `base`. Returns their paths. `pairs`: head's agent and the
    base's."""
    paths = []
    for head_use, base_use in pairs:
        for path in _files([head_use], root):
            relative = path.relative_to(root)
            copy = base / relative
            if not copy.parent.is_dir():  # the change moved the agent
                copy = folder_of(base_use.options, base) / NAME
            # no symbolic link leads out of the checkout
            is_inside = copy.parent.resolve() == base.resolve() / copy.parent.relative_to(base)
            if is_inside and not os.path.lexists(copy) and not _commit_reason(path, root, environ):
                shutil.copyfile(path, copy)
                paths.append(relative.as_posix())
    return tuple(dict.fromkeys(paths))


def of_agent(use: AgentUse, root: Path) -> dict[str, str]:
    """The variables in the nearest file of an agent."""
    return {name: value for path in _files([use], root) for name, value in read(path).items()}


def read(path: Path) -> dict[str, str]:
    """The variables in a file, as written there. Values that refer to other variables are left
    out."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            values = parse(file.read(LARGEST_BYTES))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in values.items() if "${" not in value}


def parse(text: str) -> dict[str, str]:
    """The variables in a file with this text, without quotes and comments."""
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
        for place in python_needs.upward(folder_of(use.options, root), root):
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
        return "without a git checkout it may be part of the commit"
    return "git tracks it" if git.first_committed([path], root, environ) else ""
