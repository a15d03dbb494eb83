"""Run the command line: thin commands around the compiler and `etcompile.operations`.

Each command is a module. Data goes to standard output, messages to standard error; exit codes are
those of `etcompile.exitcodes`.
"""

import sys


def main() -> None:
    try:
        from etcompile.cli.main import main as run

        run()
    except KeyboardInterrupt:
        from etcompile.exitcodes import INTERRUPTED

        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)


def krm_function() -> None:
    sys.argv[1:1] = ["krm"]
    main()


__all__ = ["krm_function", "main"]
