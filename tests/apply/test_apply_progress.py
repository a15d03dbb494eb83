"""What a person sees of a rollout on a real API server, and of a job that has not started."""

import re

from apply.kubelet import unschedulable, waiting


def test_terminal_shows_what_apply_waits_for_in_one_line_that_changes(job, kubelet, on_terminal):
    job(replicas=3)
    kubelet.let("mnist-worker-1", unschedulable("0/3 nodes are available"))
    code, shown = on_terminal("apply", "jobs", "--timeout", "5s", COLUMNS="200")
    assert code == 3
    assert b"\x1b[32mcreated\x1b[0m" in shown
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    live = re.findall(r"done, waiting [\d:]+ for Pod \S+ ?\S*: [^\r]*", text)
    assert any("mnist-worker-1: cannot be scheduled: 0/3 nodes" in line for line in live), text
    assert text.count("cannot be scheduled") - len(live) == 2, (
        text
    )  # once above it, once at the end
    assert shown.rstrip().endswith(b"0/3 nodes are available")  # nothing is left of that line


def test_logs_say_why_no_container_has_started(run, job, kubelet):
    job(replicas=2)
    kubelet.let("*", unschedulable("0/3 nodes are available"))
    kubelet.let("mnist-launcher", waiting("ContainerCreating"))
    run("apply", "jobs", "--wait", "none", code=0)
    done = run("logs", "mnist", code=2)
    assert done.stdout == ""
    for name in ("mnist-launcher", "mnist-worker-0", "mnist-worker-1"):
        assert re.search(rf"^not started yet: .*{name}.*: Pending", done.stderr, re.MULTILINE)
