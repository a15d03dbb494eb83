"""A watcher that waits as little as tests do, as a process of its own: one that can be killed.

    python watching_process.py KUBECONFIG NAMESPACE[,NAMESPACE]

It ends when its standard input does, and so with the test that started it.
"""

import sys
from pathlib import Path

from watched import QUICK, Running


def main() -> None:
    kubeconfig, namespaces = sys.argv[1:]
    namespace, *more = namespaces.split(",")
    running = Running(Path(kubeconfig), namespace, leads=True, timeouts=QUICK, more=more)
    running.begin()
    sys.stdin.read()
    running.stop()


if __name__ == "__main__":
    main()
