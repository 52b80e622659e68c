"""`python -m taskyard_cli` is the `taskyard` command."""

from taskyard_cli.main import main

main()
