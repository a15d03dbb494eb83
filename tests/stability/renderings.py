"""Renders many times with the etcompile of one source tree: `python renderings.py TREE CASES OUT`.

Run with `PYTHONPATH=TREE`, so that it is that etcompile which is imported, whatever is installed.
It goes by the command line alone, which is what versions have in common. What is imported is
imported once; each case is a process of its own that begins from there.

CASES is a JSON list of `{"name": ..., "arguments": [...]}`. Of each case OUT gets `NAME.out`,
`NAME.err` and `NAME.code`; an argument `{OUT}` becomes the folder `NAME.d` there. With
`ETCOMPILE_AS_VERSION` it says of itself that it is that version.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> None:
    tree, cases, out = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]
    version = importlib.import_module("etcompile._version")
    version.__version__ = os.environ.get("ETCOMPILE_AS_VERSION", version.__version__)
    cli = importlib.import_module("etcompile.cli")
    importlib.import_module("etcompile.cli.render")
    importlib.import_module("etcompile.compiler")
    found = Path(sys.modules["etcompile"].__file__ or "")
    if not found.is_relative_to(tree):
        raise SystemExit(f"{found} is not of {tree}")
    for case in cases:
        if not (child := os.fork()):
            _render(cli, Path(out), **case)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (Path(out) / f"{case['name']}.code").write_text(str(code))


def _render(cli: object, out: Path, name: str, arguments: list[str]) -> NoReturn:
    for number, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(out / f"{name}.{kind}", os.O_WRONLY | os.O_CREAT), number)
    folder = str(out / f"{name}.d")
    sys.argv = ["etcompile", *(folder if word == "{OUT}" else word for word in arguments)]
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        code = 99
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
