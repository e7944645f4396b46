"""The first files of a repository; evaluation files made from conversations and by a model."""

from evalgate.extensions import Command

COMMANDS = (
    Command(
        "init",
        "Write a workflow for the evaluation files and agents that are found.",
        "evalgate.wings.author.cli:init",
        comes_first=True,
    ),
    Command(
        "record",
        "Add a recorded conversation (session, trace) as a case.",
        "evalgate.wings.author.cli:record",
    ),
    Command(
        "generate",
        "Generate conversation scenarios for an agent, for review.",
        "evalgate.wings.author.cli:generate",
    ),
    Command(
        "migrate",
        "Write an evaluation file of an old format in ADK's current one.",
        "evalgate.wings.author.cli:migrate",
    ),
)
