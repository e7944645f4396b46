"""Evaluation files made from conversations and by a model."""

from evalgate.extensions import Command

COMMANDS = (
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
