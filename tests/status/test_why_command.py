"""`etcompile why` against a real API server: each form, from the command line."""

import json

from browsers.pages import check_page
from commandline import etcompile
from specs import training_job

SAID = "RuntimeError: <b>no</b> loss"


def test_each_form_names_the_same_first_cause(deployed, pod_is, kubeconfig) -> None:
    deployed(training_job())
    pod_is("mnist-worker-0", "Running", ready=True)
    ended = {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:01:00Z",
        "message": SAID,
    }
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    failed = {**container, "state": {"terminated": ended}}
    pod_is("mnist-launcher", "Failed", containerStatuses=[failed])

    def why(*more: str) -> str:
        done = etcompile("why", "mnist", "--kubeconfig", kubeconfig, *more, code=0)
        assert done.stderr == ""
        return done.stdout

    assert f"    | {SAID}\n" in why()
    assert SAID in why("--output", "markdown")
    assert json.loads(why("--output", "json"))["first"]["tail"] == SAID
    page = why("--output", "html")
    check_page(page)
    assert "RuntimeError: &lt;b&gt;no&lt;/b&gt; loss</pre>" in page
    assert '<p class="lead">mnist-launcher' in page
    assert "<pre" not in why("--output", "html", "--lines", "0")
