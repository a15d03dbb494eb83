"""The command line: thin commands around `etcompile.compile`, a module each.

Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 `render
--check` found differences, 2 usage or refused input, 130 interrupted.
"""

from etcompile.cli.main import main

__all__ = ["main"]
