"""`etcompile why` against a real API server: each form, from the command line."""

import json
import subprocess
import sys

from browsers.pages import check_page
from specs import training_job

SAID = "RuntimeError: <b>no</b> loss"


def test_each_form_names_the_same_first_cause(deployed, pod_is, control_plane, namespace) -> None:
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
        line = [sys.executable, "-m", "etcompile", "why", "mnist", *more]
        line += ["--kubeconfig", str(control_plane.kubeconfig(namespace=namespace))]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert f"    | {SAID}\n" in why()
    assert SAID in why("--output", "markdown")
    assert json.loads(why("--output", "json"))["first"]["tail"] == SAID
    page = why("--output", "html")
    check_page(page)
    assert "RuntimeError: &lt;b&gt;no&lt;/b&gt; loss</pre>" in page
    assert '<p class="lead">mnist-launcher' in page
    assert "<pre" not in why("--output", "html", "--lines", "0")
