"""The container's door: run as a file, so that the user's repository never gets on sys.path.

The gate runs in a child. Its parent only watches it, without threads and with the standard library
alone: a gate that is killed, that holds its interpreter's lock, or that does not end when it is
cancelled is ended, and a second child says so where the verdict would be."""

import ctypes
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress

# evalgate.errors.ExitCode, spelled out: that module may be what cannot be imported
NOT_MEASURED, BUG, INTERRUPTED = 3, 70, 130

SIGNALS = (signal.SIGTERM, signal.SIGINT)
BEAT_S = 1.0
SILENT_S = 300.0
"""The longest time that a gate may hold its interpreter's lock."""
CANCELLED_S = 6.5
"""The time that a cancelled gate has to end: runners kill after ten seconds."""
ENDING_S = 2.0
CONCLUDING_S = 90.0
DUMPABLE, DEATH_SIGNAL = 4, 1
"""Options of prctl(2): close a process to others of its user; end it with its parent."""


def leave(*_: object) -> None:
    """A run that is cancelled while it is loaded has nothing to tidy up; `action` has handlers of
    its own."""
    os._exit(INTERRUPTED)


def control(option: int, argument: int) -> None:
    """prctl(2), where there is one."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def start() -> tuple[int, int]:
    """Fork a child. Returns its process ID (0 in the child), and the pipe to which it writes while
    its interpreter works."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until both know what to do
    beats, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, beats
    control(DEATH_SIGNAL, signal.SIGKILL)
    # a container's first process ignores what it does not handle
    for number in SIGNALS:
        signal.signal(number, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    import threading  # noqa: PLC0415 - not in the parent

    threading.Thread(target=beat, args=(writing,), daemon=True).start()
    return pid, beats


def beat(writing: int) -> None:
    """Write a byte a second, for as long as somebody reads."""
    with suppress(OSError):
        while True:
            os.write(writing, b".")
            time.sleep(BEAT_S)


def run(reason: str = "", *, is_cancelled: bool = False) -> int:
    """In a child: run the gate, or conclude one that was ended for `reason`. Returns its exit
    code."""
    try:
        from evalgate.system import process  # noqa: PLC0415 - in the child alone

        process.keep_streams()  # a log that nobody takes any more is no reason to fail
        process.collect_garbage_rarely()
        from evalgate import action  # noqa: PLC0415 - as above
    except Exception:  # noqa: BLE001 - Python's own exit code for a crash is 1, which says that the agent failed
        traceback.print_exc()
        return BUG
    if reason:
        for number in SIGNALS:  # a runner sends both, seconds apart
            signal.signal(number, signal.SIG_IGN)
        return action.conclude(os.environ, reason, is_cancelled=is_cancelled)
    return action.main(os.environ)


def watch(
    pid: int, beats: int, *, silent_s: float = SILENT_S, cancelled_s: float = CANCELLED_S
) -> tuple[int | None, bool]:
    """The exit code of a child, and whether it was cancelled; None if it was killed, or is ended
    here: `silent_s` after its last sign of life, or `cancelled_s` after a signal."""
    limits = [time.monotonic() + silent_s]

    def forward(number: int, _: object) -> None:
        limits[1:] = [limits[1] if len(limits) > 1 else time.monotonic() + cancelled_s]
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in SIGNALS:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    is_open = True
    while time.monotonic() < min(limits):
        ended, status = os.waitpid(-1, os.WNOHANG)  # orphans too, as a container's first process
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else None, len(limits) > 1
        if ended:
            continue
        if not is_open:
            time.sleep(0.01)
        elif select.select([beats], [], [], 0.2)[0]:
            is_open = bool(os.read(beats, 4096))
            limits[0] = time.monotonic() + silent_s
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None, len(limits) > 1


def end_all() -> None:
    """End all other processes of a container, whose first process this is: nothing of an agent is
    left when the outputs are written."""
    latest = time.monotonic() + ENDING_S
    with suppress(ProcessLookupError, ChildProcessError):  # there is none
        os.kill(-1, signal.SIGKILL)
        while time.monotonic() < latest:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.01)


def main() -> int:
    """Run the gate, watch it, and conclude what it cannot conclude any more."""
    control(DUMPABLE, 0)
    # both children speak for one job: its comment is the same
    os.environ["EVALGATE_JOB"] = os.urandom(4).hex()
    pid, beats = start()
    if not pid:
        return run()
    began = time.monotonic()
    code, is_cancelled = watch(pid, beats)
    if code is not None:
        return code
    seconds = time.monotonic() - began
    if os.getpid() == 1:
        end_all()
    pid, beats = start()
    if not pid:
        reason = f"the gate stood still or was killed, and was ended after {seconds:.0f} s"
        return run("the run was cancelled" if is_cancelled else reason, is_cancelled=is_cancelled)
    watch(pid, beats, silent_s=CONCLUDING_S, cancelled_s=CONCLUDING_S)
    return INTERRUPTED if is_cancelled else NOT_MEASURED


if __name__ == "__main__":
    sys.exit(main())
