"""`python -m etcompile`, the same as the `etcompile` command."""

from etcompile.cli import main

main()
