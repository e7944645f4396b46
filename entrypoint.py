"""The container's door: run as a file, so that the user's repository never gets on sys.path."""

import os
import sys
import traceback

BUG = 70  # evalgate.errors.ExitCode.BUG, spelled out: that module may be what cannot be imported

if __name__ == "__main__":
    try:
        from evalgate import action
    except Exception:  # noqa: BLE001 - Python's own exit code for a crash is 1, which says that the agent failed
        traceback.print_exc()
        sys.exit(BUG)
    sys.exit(action.main(os.environ))
