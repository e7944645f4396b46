"""The agents for the first case of a repository, and the file of that case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from evalgate import agents
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    CriteriaSource,
    EvalSet,
    SessionInput,
    Suite,
)
from evalgate.system import python_needs
from evalgate.values import Json
from . import agent_source, agents as discovery_agents
from .agent_source import ImportGraph, place_of
from .agents import AgentFolders
from .walk import Tree

QUESTION = "What can you do?"
FOLDER = "evals"
NAME = "first"
FILE = f"{NAME}.evalset.json"


def folder_of(settings: Settings) -> str:
    """The folder of the first case: in the folder that the user named, else at the root."""
    parent = settings.paths[0].strip("/") if settings.paths else "."
    return (PurePosixPath(parent) / FOLDER).as_posix()


def suite_of(use: AgentUse, settings: Settings, state: Json | None = None) -> Suite:
    """A suite with one case without turns, with this state of its session."""
    case = Case(case_id=NAME, conversation=(), session=SessionInput(state=state) if state else None)
    return Suite(
        key=f"{folder_of(settings)}/{FILE}",
        eval_set=EvalSet(eval_set_id=NAME, cases=(case,)),
        criteria=(),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=agents.with_defaults(use, settings),
    )


def find_agents(settings: Settings) -> list[AgentUse]:
    """The agents for a first case, the likeliest first: the one that a run would use; else agents
    of ADK, agents of other frameworks, programs that ask one, and functions that answer, or else
    programs that talk at the terminal. Those whose framework is not among their requirements come
    later, those below examples and tests last."""
    tree = Tree(settings.root, exclude=settings.gate_file.exclude)
    suite = suite_of(discovery_agents.UNKNOWN, settings)
    uses_by_key, _ = discovery_agents.choose_agents(
        {suite.key: suite.eval_set}, gate_file=settings.gate_file, tree=tree
    )
    use = uses_by_key[suite.key]
    if use.found_by.startswith("evalgate.yml"):
        return [use]
    uses = [] if use == discovery_agents.UNKNOWN else [use]
    folders = AgentFolders(tree.agent_files, tree.read_source)
    found_agents = discovery_agents.find_agent(suite.key, folders=folders)
    if not uses and not found_agents.folder:
        uses += [
            AgentUse(driver=agents.DEFAULT, options={"path": path}, found_by="one of several")
            for path in found_agents.folders
        ]
    files = list(discovery_agents.code_files(settings.root))
    graph = ImportGraph(discovery_agents.reader(settings.root))
    # a module makes its main agent last, and the main module imports those of programs
    made_uses = [*agent_source.find_frameworks(files, graph)][::-1]
    uses += sorted(made_uses, key=lambda use: -_import_count(use, made_uses, graph))
    uses = [use for use in uses if _is_below(use, settings)]
    functions = [] if uses else agent_source.find_functions(files, graph)
    known_options = [use.options for use in uses]
    programs = [*agent_source.find_programs(files, graph), *functions]
    if not (uses or programs):
        programs = [*agent_source.find_conversations(files, graph)]
    # a maker may lack what a program gives it
    uses[LIKELIEST:LIKELIEST] = [
        use for use in programs if use.options not in known_options and _is_below(use, settings)
    ]
    return sorted(
        uses,
        key=lambda use: (
            agent_source.is_example(place_of(use)),
            not _is_declared(use, settings),
        ),
    )


LIKELIEST = 3
"""The number of agents before the first program."""


MOST_RANKED = 20
"""The number of modules with agents up to which their imports decide the order."""


def _import_count(use: AgentUse, other_uses: Sequence[AgentUse], graph: ImportGraph) -> int:
    """The number of other agents' modules that an agent's module imports."""
    places = {place_of(other_use) for other_use in other_uses} - {place_of(use)}
    if not places or len(places) > MOST_RANKED:
        return 0
    reached = graph.reached([f"{place_of(use)}.py"])
    return len(places & {file.removesuffix(".py") for file in reached})


def _is_declared(use: AgentUse, settings: Settings) -> bool:
    """True if the agent's requirements name its framework, or are unknown."""
    driver = agents.DRIVERS[use.driver]
    needs = python_needs.nearest_needs(settings.root / place_of(use), settings.root)
    text = "" if needs is None else needs.text.lower().replace("_", "-")
    names = {driver.name, *driver.modules}
    return not text or any(name.replace("_", "-") in text for name in names)


def _is_below(use: AgentUse, settings: Settings) -> bool:
    """True if an agent lies below a path that the user named."""
    file = (settings.root / place_of(use)).resolve()
    places = [(settings.root / path).resolve() for path in settings.paths]
    return not places or any(file.is_relative_to(place) for place in places)


def no_agent() -> ConfigError:
    """The error if no agent was found."""
    hint = "Name it: --agent adk:FOLDER, --agent python:MODULE:FUNCTION, or another driver (docs/agents)."
    return ConfigError("no agent was found", hint=hint)
