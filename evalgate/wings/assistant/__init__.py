"""The door for assistants: CES resources and cases of ADK evaluation sets as tools of the Model
Context Protocol."""

from evalgate.extensions import Command

COMMANDS = (
    Command(
        "mcp",
        "Serve evaluations to an assistant (Model Context Protocol).",
        "evalgate.wings.assistant.cli:mcp",
    ),
)
