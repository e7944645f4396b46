"""What the agents of one side read of its checkout, and what they ran in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from evalgate import agents as agents_module
from evalgate.agents.base import Agent, AgentFailed
from evalgate.model import AgentUse, Inputs
from evalgate.system import watching
from evalgate.system.inputs import EVERYTHING, GLOB, NAMES, Snapshot, parse, question
from evalgate.system.watching import Watch
from evalgate.values import frozen_dataclass

BYTECODE = (".pyc", "__pycache__")


@frozen_dataclass
class SideInputs:
    """The inputs of a side's agents, as far as they have run; safe to use from many threads.

    Everything that an agent's process read since it began counts for each of its trials: workers
    keep prompts in memory. If reads were not observed, all files count."""

    tree: Snapshot
    uses: Mapping[str, AgentUse]  # by `agent_key`
    agents: Mapping[str, Agent]  # by `agent_key`
    environment_of: Callable[[Agent], str]
    watches: Callable[[], Sequence[Watch]] = tuple
    depends_on: Sequence[str] = ()  # globs: what counts where everything would
    # whether a worker's word is enough: many programs read a person's own checkout
    trusts_workers: bool = False
    inputs_by_agent: dict[str, Inputs] = field(default_factory=dict)

    def of(self, agent: str) -> Inputs:
        """Of one agent, by its key; `environment` is "" before it has started."""
        use = self.uses[agent]
        if use.is_absent or not agents_module.is_asked(use) or self._is_elsewhere(agent):
            return Inputs()
        environment = self._environment(agent)
        if not environment:
            return Inputs()
        answers = self.inputs_by_agent.get(agent, Inputs()).answers
        more = {query: self.tree.answer(query) for query in self._questions(agent) - answers.keys()}
        if more or agent not in self.inputs_by_agent:
            self.inputs_by_agent[agent] = Inputs(
                environment=environment, answers={**answers, **more}
            )
        return self.inputs_by_agent[agent]

    def _is_elsewhere(self, agent: str) -> bool:
        """True if the agent is unknown: a service changes without any file, unless a person names
        the files."""
        return agents_module.is_remote(self.uses[agent]) and not self.depends_on

    def stands(self, agent: str, inputs: Inputs, *, is_continued: bool = False) -> bool:
        """True if an agent that once had these inputs has the same here and today; starts it, to
        learn its environment. `is_continued`: in the run that this one continues."""
        if is_continued and agent in self.agents and self._is_elsewhere(agent):
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
            return False  # its trials say so
        return self._environment(agent) == inputs.environment

    def _environment(self, agent: str) -> str:
        inputs = self.inputs_by_agent.get(agent)
        return inputs.environment if inputs is not None else self.environment_of(self.agents[agent])

    def _questions(self, agent: str) -> frozenset[str]:
        by_hand = question(GLOB, "\n".join(self.depends_on))
        if agents_module.is_remote(self.uses[agent]):
            return frozenset({by_hand})
        claim = self.agents[agent].inputs()
        if claim is not None and not claim.is_opaque and self.trusts_workers:
            return claim.questions
        watches = self.watches()
        is_seen = bool(watches) and not any(watch.why_lost for watch in watches)
        if not is_seen:
            return frozenset({by_hand if self.depends_on else EVERYTHING})
        questions = frozenset[str]() if claim is None else claim.questions
        if claim is None or claim.is_opaque:
            questions |= {NAMES}
        return questions | self._agent_questions(
            agent, frozenset().union(*(watch.accessed_paths() for watch in watches))
        )

    def _agent_questions(self, agent: str, paths: frozenset[str]) -> frozenset[str]:
        """What was opened, as far as it may be of this agent, as questions."""
        inputs = {key: other.inputs() for key, other in self.agents.items()}
        claims = {
            key: _paths(claim.questions) if claim else frozenset[str]()
            for key, claim in inputs.items()
        }
        opaque = [key for key, claim in inputs.items() if claim is None or claim.is_opaque]
        attributed = watching.attribute_opens(paths, claims, opaque)[agent]
        # bytecode is its worker's to tell apart; an import lists folders to find a module, which a
        # worker asks for
        unexplained = (
            path
            for path in attributed - claims[agent]
            if not path.endswith(BYTECODE) or not claims[agent]
        )
        is_folder = {
            path: self.tree.answer(question("name", path)) == "folder" for path in unexplained
        }
        # all names count already for an opaque agent
        folders = (
            ()
            if agent in opaque
            else (question("folder", path) for path, folder in is_folder.items() if folder)
        )
        return frozenset(
            (
                *folders,
                *(question("file", path) for path, folder in is_folder.items() if not folder),
            )
        )


def _paths(questions: Iterable[str]) -> frozenset[str]:
    """The files and folders that a worker looked at when it asked these."""
    paths = set[str]()
    for text in questions:
        with suppress(ValueError):  # a worker may say anything
            kind, path = parse(text)
            paths.add(path if kind != "module" else path.rpartition("/")[0] or ".")
    return frozenset(paths)
