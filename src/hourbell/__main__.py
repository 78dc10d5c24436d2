"""`python -m hourbell` is the command `hourbell`."""

from hourbell.cli.main import main

main()
