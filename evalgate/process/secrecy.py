"""Keeping the agent, which runs beside the gate as the same user, from reading the gate's environment and memory."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4


def close_to_others() -> bool:
    """Close /proc/PID/environ, /proc/PID/mem and debuggers to other processes without CAP_SYS_PTRACE, which containers
    do not have by default; False where the system knows no such thing.

    Children are open again as soon as they run a program of their own. Source: prctl(2), PR_SET_DUMPABLE.
    """
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError, TypeError):  # no Linux
        return False
