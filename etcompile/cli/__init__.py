"""The command line: thin commands around the compiler and `etcompile.operations`, a module each.

Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 `render
--check` found differences, 2 usage or refused input, 130 interrupted.
"""

import sys


def main() -> None:
    """Runs the command line.

    What it takes is imported here, so that Ctrl-C ends it in the same way from the first moment.
    """
    try:
        from etcompile.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def krm_function() -> None:
    """Runs `etcompile krm` as a program of its own, which is what a functionConfig can name."""
    sys.argv[1:1] = ["krm"]
    main()


__all__ = ["krm_function", "main"]
