"""The door for a browser on this machine: the page of report.html, live."""

from evalgate.extensions import Command

COMMANDS = (
    Command(
        "ui",
        "Show results in a browser: run cases, accept, edit, chat with the agent.",
        "evalgate.wings.ui.cli:ui",
    ),
)
