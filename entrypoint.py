"""The container's door: run as a file, so that the user's repository never gets on sys.path."""

import os
import signal
import sys
import traceback

# evalgate.errors.ExitCode, spelled out: that module may be what cannot be imported
BUG, INTERRUPTED = 70, 130


def leave(*_: object) -> None:
    """A run that is cancelled while it is loaded has nothing to tidy up; `action` has handlers of
    its own."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    # a container's first process ignores what it does not handle
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    try:
        from evalgate.system import process

        process.keep_streams()  # a log that nobody takes any more is no reason to fail
        process.collect_garbage_rarely()
        from evalgate import action
    except Exception:  # noqa: BLE001 - Python's own exit code for a crash is 1, which says that the agent failed
        traceback.print_exc()
        sys.exit(BUG)
    sys.exit(action.main(os.environ))
