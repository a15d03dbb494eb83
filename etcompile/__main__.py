"""Run the `etcompile` command as `python -m etcompile`."""

from etcompile.cli import main

main()
