"""A watcher that waits as little as tests do, as a process of its own: one that can be killed.

    python watching_process.py KUBECONFIG NAMESPACE[,NAMESPACE]

It ends when its standard input does, and so with the test that started it.
"""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # what all tests share

from watched import LEASE, QUICK, Running


def main() -> None:
    kubeconfig, namespaces = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    namespace, *more = namespaces.split(",")
    # Tests of several namespaces are about load: their lease is as long as it is by default.
    lease = 15.0 if more else LEASE
    choices = {"leads": True, "timeouts": QUICK, "more": more, "lease": lease}
    running = Running(Path(kubeconfig), namespace, **choices)
    running.begin()
    sys.stdin.read()
    running.stop()


if __name__ == "__main__":
    main()
