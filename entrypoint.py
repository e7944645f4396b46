"""The container's door: run as a file, so that the user's repository never gets on sys.path."""

import os

from evalgate import action

if __name__ == "__main__":
    raise SystemExit(action.main(os.environ))
