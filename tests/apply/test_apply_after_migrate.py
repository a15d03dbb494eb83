"""The commands of a HANDOVER.md that are etcompile's own, done on what an operator has left."""

import json
import shlex

import pytest
import yaml

from specs import training_job


@pytest.mark.parametrize("there", [True, False])
def test_the_steps_offer_etcompile_itself_and_it_takes_over_without_a_restart(
    run, write, kubelet, objects, ask, namespace, tmp_path, there
):
    document = training_job(replicas=1)
    document["metadata"]["namespace"] = namespace
    write(document)
    live = []
    for value in yaml.safe_load_all(run("render", "jobs").stdout) if there else ():
        # As its operator makes them: in its own name, and without our labels.
        labels = value["metadata"].get("labels") or {}
        preserved = {key: one for key, one in labels.items() if "etcompile" not in f"{key}{one}"}
        value["metadata"]["labels"] = preserved
        created = ask("POST", f"{value['kind'].lower()}s", value, manager="et-operator")
        live.append({"apiVersion": "v1", "kind": value["kind"], **created})
    before = {name: one["metadata"]["uid"] for name, one in objects().items()}
    dump = {"apiVersion": "v1", "kind": "List", "items": [
        {**document, "status": {"phase": "Running" if there else "Pending"}}, *live]}  # fmt: skip
    (tmp_path / "live.json").write_text(json.dumps(dump))
    run("migrate", "live.json", "-d", ".", code=0)
    text = (tmp_path / "HANDOVER.md").read_text()
    block = text.split("**With etcompile**")[1].split("```")[1]
    commands = [line for line in block.splitlines() if line.startswith("etcompile ")]
    assert [shlex.split(one)[1] for one in commands] == ["diff", "apply"]
    assert ("--adopt" in commands[1]) is there
    for command, codes in zip(commands, ((0, 1), (0,)), strict=True):
        done = run(*shlex.split(command)[1:])
        assert done.returncode in codes, done.stdout + done.stderr
    now = {name: one["metadata"]["uid"] for name, one in objects().items()}
    assert before.items() <= now.items()
    assert "ConfigMap/etcompile-mnist" in now
    run("diff", "mnist.yaml", code=0)
