"""Evaluations of Customer Engagement Suite: their files, their criteria, and live apps."""

from evalgate.extensions import Command

COMMANDS = (
    Command(
        "diff",
        "Compare two versions of CES evaluations by field.",
        "evalgate.wings.ces.cli:diff_command",
    ),
    Command(
        "ces",
        "A live CES app and its files: `ces pull`, `ces push`, `ces drift`, `ces run`.",
        "evalgate.wings.ces.cli:group",
    ),
)
