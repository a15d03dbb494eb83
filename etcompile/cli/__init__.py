"""Run the command line: thin commands around the compiler and `etcompile.operations`.

Each command is a module. Data goes to standard output, messages to standard error; exit codes are
those of `etcompile.exitcodes`.
"""

import sys


def main() -> None:
    """Run the command line.

    Its imports are in here, so that Ctrl-C ends it in the same way from the first moment.
    """
    try:
        from etcompile.cli.main import main as run

        run()
    except KeyboardInterrupt:
        from etcompile.exitcodes import INTERRUPTED

        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


def krm_function() -> None:
    """Run `etcompile krm` as a separate program, which a functionConfig can name."""
    sys.argv[1:1] = ["krm"]
    main()


__all__ = ["krm_function", "main"]
