"""The files that the agents of one side read from its checkout, and the environment that they ran
in."""

from __future__ import annotations

import hashlib
import hmac
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field

from evalgate import __version__, agents as agents_module
from evalgate.agents.base import Agent, AgentFailed
from evalgate.config import variables
from evalgate.config.settings import Settings, of_agents
from evalgate.formats import fingerprints
from evalgate.model import AgentUse, Inputs
from evalgate.system import redact, watching
from evalgate.system.inputs import GLOB, Snapshot, parse, question
from evalgate.system.watching import Watch
from evalgate.values import Environ, frozen_dataclass, matches_any, without
from evalgate.worker.inputs import EVERYTHING, NAMES

BYTECODE = (".pyc", "__pycache__")
"""The ends of paths of bytecode, which Python opens while it imports."""
UNREPORTED = frozenset({NAMES})
"""The questions of an agent that reported none: all names count."""


@frozen_dataclass
class SideInputs:
    """The inputs of a side's agents so far. Thread-safe.

    All reads of an agent's process count for each of its trials, because workers keep prompts in
    memory. If reads were not observed, all files count."""

    tree: Snapshot
    """The checkout."""
    uses: Mapping[str, AgentUse]
    """By `AgentUse.key`."""
    agents: Mapping[str, Agent]
    """By `AgentUse.key`."""
    environment_of: Callable[[Agent], str]
    """The fingerprint of an agent's environment; "" before the agent has started."""
    watches: Callable[[], Sequence[Watch]] = tuple
    """The watches of the checkout, or of its copies, so far."""
    depends_on: Sequence[str] = ()
    """Globs, which replace "all files" if reads are unknown."""
    trusts_workers: bool = False
    """True: use the worker's own report, because other programs read a person's checkout too."""
    inputs_by_agent: dict[str, Inputs] = field(default_factory=dict)
    """By `AgentUse.key`, as far as they are known."""

    def of(self, agent: str) -> Inputs:
        """The inputs of one agent, by its key. `environment` is "" before the agent has started."""
        use = self.uses[agent]
        if use.is_absent or not agents_module.is_asked(use) or self._is_unknown_service(agent):
            return Inputs()
        environment = self._environment(agent)
        if not environment:
            return Inputs()
        answers = self.inputs_by_agent.get(agent, Inputs()).answers
        new_answers = {
            query: self.tree.answer(query) for query in self._questions(agent) - answers.keys()
        }
        if new_answers or agent not in self.inputs_by_agent:
            self.inputs_by_agent[agent] = Inputs(
                environment=environment, answers={**answers, **new_answers}
            )
        return self.inputs_by_agent[agent]

    def _is_unknown_service(self, agent: str) -> bool:
        """True if the agent's inputs cannot be known: a remote service changes without any file,
        unless the user names files that it depends on."""
        return agents_module.is_remote(self.uses[agent]) and not self.depends_on

    def stands(self, agent: str, inputs: Inputs, *, is_continued: bool = False) -> bool:
        """True if an agent with these inputs has the same inputs here and today. Starts the agent
        to learn its environment. `is_continued`: the inputs are of the run that this run
        continues."""
        if is_continued and agent in self.agents and self._is_unknown_service(agent):
            return True
        if (
            not inputs.is_known
            or agent not in self.agents
            or self.tree.first_difference(inputs.answers) is not None
        ):
            return False
        try:
            self.agents[agent].start()
        except AgentFailed:
            return False  # its trials report the failure
        return self._environment(agent) == inputs.environment

    def _environment(self, agent: str) -> str:
        """The fingerprint of an agent's environment; the first one that was known stays."""
        inputs = self.inputs_by_agent.get(agent)
        return inputs.environment if inputs is not None else self.environment_of(self.agents[agent])

    def _questions(self, agent: str) -> frozenset[str]:
        """The questions about the checkout whose answers are the agent's inputs, as far as it has
        run."""
        if not agents_module.is_remote(self.uses[agent]):
            questions = self._reported(agent)
            if NAMES not in questions and self.trusts_workers:
                return questions
            watches = self.watches()
            if watches and not any(watch.why_lost for watch in watches):
                paths = frozenset().union(*(watch.accessed_paths() for watch in watches))
                return questions | self._agent_questions(agent, paths)
            if not self.depends_on:
                return frozenset({EVERYTHING})
        return frozenset({question(GLOB, "\n".join(self.depends_on))})

    def _reported(self, agent: str) -> frozenset[str]:
        """The questions of the agent's own worker."""
        questions = self.agents[agent].inputs()
        return UNREPORTED if questions is None else questions

    def _agent_questions(self, agent: str, paths: frozenset[str]) -> frozenset[str]:
        """Opened files and folders that may belong to this agent, as questions."""
        reports = {key: self._reported(key) for key in self.agents}
        explained_paths = {key: _paths(questions) for key, questions in reports.items()}
        opaque_agents = [key for key, questions in reports.items() if NAMES in questions]
        agent_paths = watching.attribute_opens(paths, explained_paths, opaque_agents)[agent]
        questions = set[str]()
        for path in agent_paths - explained_paths[agent]:
            # the worker reports its own bytecode
            if path.endswith(BYTECODE) and explained_paths[agent]:
                continue
            is_folder = self.tree.answer(question("name", path)) == "folder"
            # for an opaque agent all names count already
            if not (is_folder and agent in opaque_agents):
                questions.add(question("folder" if is_folder else "file", path))
        return frozenset(questions)


def _paths(questions: Iterable[str]) -> frozenset[str]:
    """The files and folders that a worker read to ask these questions."""
    paths = set[str]()
    for text in questions:
        with suppress(ValueError):  # a worker may send any text
            kind, path = parse(text)
            paths.add(path if kind != "module" else path.rpartition("/")[0] or ".")
    return frozenset(paths - {""})


# --- the environment ------------------------------------------------------------------------------


OF_THE_MACHINE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "CI", "*_PROXY", "*_proxy",
    "SSL_CERT_*", "*_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Variables that differ between two runs of one job and do not change answers."""


def _hidden(name: str, value: str, key: bytes) -> str:
    """A variable's hashed value. Without a key, only the existence of a secret is recorded, because
    even its digest must not be stored."""
    if key:
        return hmac.new(key, value.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[
            :16
        ]
    is_secret = name in variables.KEYS or redact.is_named(name)
    return ("set" if value else "") if is_secret else variables.USER_INFO.sub("://", value)


def environment_of(
    agent: Agent, settings: Settings, *, environment: Environ, tools: str, key: bytes
) -> str:
    """The fingerprint of an agent's environment, 16 hex digits; "" if it has not started.

    `tools`: the fingerprint of its tool answers. `key`: for the hash of variables. The agent itself
    reported its Python, framework, packages, instructions, models and tools as loaded."""
    about = agent.about()
    description = agent.description()
    if not about:
        return ""
    machine = [platform.system(), platform.machine()]
    loaded_parts = None if description is None else asdict(description)
    # the path of its Python does not identify the content, and head and the base have different
    # folders
    facts = without(about, ("interpreter",))
    agent_variables = {
        name: _hidden(name, value, key)
        for name, value in environment.items()
        if not matches_any(name, OF_THE_MACHINE)
    }
    return fingerprints.digest(
        [
            of_agents(settings),
            tools,
            agent_variables,
            facts,
            loaded_parts,
            machine,
            __version__,
        ]
    )
