"""`python -m evalgate` is `evalgate`."""

from evalgate.cli import main

main()
