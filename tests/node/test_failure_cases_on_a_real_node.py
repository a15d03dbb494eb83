"""What `why` says of the failures that others have listed, as a real kubelet brings them about."""

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from etcompile.kubeapi import connect
from etcompile.status import seen
from etcompile.status.explanations import Explanation, explanations
from etcompile.status.reader import with_logs
from failures.cases import case_of, check, job, names
from node.real_cluster import KUBECONFIG, Cluster
from node.real_gang import Watcher
from waiting import eventually

pytestmark = pytest.mark.node


def script(case: dict[str, Any]) -> list[str]:
    """What each rank runs: its own script, or nothing for ten minutes."""
    if case.get("image") == "DISTROLESS":
        return ["python3", "-c", "import time; time.sleep(600)"]
    ranks = case.get("ranks", {})
    cases = "".join(f"{rank}) {words} ;;\n" for rank, words in ranks.items())
    return ["sh", "-c", f'PEER=train-worker-0\ncase "$RANK" in\n{cases}*) sleep 600 ;;\nesac']


def said(cluster: Cluster) -> Explanation:
    with connect(kubeconfig=KUBECONFIG, namespace=cluster.namespace) as api:
        objects_seen = seen(api, "train", cluster.namespace)
        [why] = explanations(objects_seen.objects.values())
        return with_logs(api, objects_seen, why)


@pytest.mark.parametrize("name", names("node"))
def test_a_failure_is_explained_as_somebody_expected_who_did_not_know_the_rules(
    cluster: Cluster,
    image: Callable[[str], str],
    watched: Watcher,
    name: str,
) -> None:
    case = json.loads(json.dumps(case_of(name)).replace('"IMAGE"', json.dumps(image("TORCH"))))
    files = {"train.py": case.get("program", ""), "run.sh": "#!/bin/sh\r\nexit 0\r\n"}
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": files}
    for value in [code, *case.get("objects", [])]:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(value))
    # JSON knows no numbers as keys.
    case["ranks"] = case_of(name).get("ranks", {})
    document = job(case, image(case.get("image", "TORCH")), command=script(case))
    with contextlib.suppress(AssertionError) if "partial" in case else contextlib.nullcontext():
        cluster.apply(document)
    if "delete" in case:
        cluster.until(lambda phases: list(phases.values()) == ["Running"] * 2)
        cluster.kubectl("delete", "pod", f"train-{case['delete']}", "--wait=false")
    problem = ""

    def is_explained() -> bool:
        nonlocal problem
        try:
            check(case, said(cluster))
        except AssertionError as error:
            problem = str(error)
            return False
        return True

    eventually(is_explained, 90, lambda: problem)
    time.sleep(3)
    check(case, said(cluster))
