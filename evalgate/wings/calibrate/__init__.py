"""Judges against human labels: labels, agreement, and what a run may rely on."""

from evalgate.extensions import Command

COMMANDS = (
    Command(
        "calibrate",
        "Compare the judge with human labels; write calibration.json.",
        "evalgate.wings.calibrate.calibrate:command",
    ),
)
