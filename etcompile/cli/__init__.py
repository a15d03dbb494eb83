"""The command line: thin commands around the compiler and `etcompile.operations`, a module each.

Data goes to standard output, talk to standard error; exit codes are those of
`etcompile.exitcodes`.
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
        from etcompile.exitcodes import INTERRUPTED

        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


def krm_function() -> None:
    """Runs `etcompile krm` as a program of its own, which is what a functionConfig can name."""
    sys.argv[1:1] = ["krm"]
    main()


__all__ = ["krm_function", "main"]
