"""Argo CD compiles jobs itself: its repo server runs our plugin, and its controller syncs that.

Needs the plugin installed (docs/argocd.md): `ETCOMPILE_E2E_ARGOCD_PLUGIN=etcompile-v1` says so.
"""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from gitops_place import Source, bert, eventually
from gitops_tools import TOOL_NAMESPACES

import commandline
import etcompile
from specs import training_job, worker

pytestmark = pytest.mark.gitops

Object = dict[str, Any]


@pytest.fixture(scope="module")
def plugin() -> str:
    """The name by which Applications know the plugin."""
    name = "ETCOMPILE_E2E_ARGOCD_PLUGIN"
    return os.environ.get(name) or pytest.skip(f"needs {name}: see the head of {__file__}")


class Compiled(Source):
    """Jobs that an Application has the plugin compile."""

    def commit(self, document: Object, file: str = "bert.yaml") -> None:
        self.push(document, file)
        if self.application():
            self.argocd.refresh(self.name)

    def ask(self, plugin: Object | None) -> None:
        """Creates or changes the Application, as `etcompile argocd application` writes it."""
        words = ["--repository", os.environ["ETCOMPILE_E2E_ARGOCD_REPO"], "-n", self.name]
        words += ["--path", f"{self.name}/jobs", "--plugin"]
        done = commandline.etcompile("argocd", "application", self.name, *words, code=0)
        value = yaml.safe_load(done.stdout)
        value["spec"]["destination"] = self.argocd.destination(self.name)
        value["spec"]["source"].pop("plugin")
        if plugin is not None:
            value["spec"]["source"]["plugin"] = plugin
        value["metadata"]["namespace"] = TOOL_NAMESPACES["argocd"]
        self.kubectl("apply", "-f", "-", stdin=json.dumps(value))
        self.argocd.refresh(self.name)

    def synced(self, *pods: str) -> None:
        """Waits until these Pods, and no others, are there and Argo CD is content."""
        eventually(lambda: self.pods() == sorted(pods), why=lambda: (self.pods(), self.errors()))
        eventually(lambda: self._status("sync") == "Synced", why=self.errors)
        assert self.application()["status"]["sourceType"] == "Plugin"

    def config(self) -> Object:
        """The settings that the job in the cluster was compiled with."""
        resource = self.cluster.resource("v1", "ConfigMap")
        config_map = self.cluster.get(resource, "bert-config", self.name) or {}
        return yaml.safe_load(config_map["data"]["job.yaml"])["settings"]

    def errors(self) -> str:
        conditions = (self.application().get("status") or {}).get("conditions") or ()
        return "\n".join(one["message"] for one in conditions)

    def _status(self, what: str) -> str:
        return str((self.application().get("status") or {}).get(what, {}).get("status", ""))


@pytest.fixture
def source(plugin, argocd, gitops_cluster, gitops_kubectl, tmp_path) -> Iterator[Compiled]:
    running = Compiled(argocd, gitops_cluster, gitops_kubectl, tmp_path)
    yield running
    running.close()


def named(plugin: str, *parameters: Object) -> Object:
    return {"name": plugin, "parameters": [*parameters]}


def test_jobs_in_git_become_what_render_makes_of_them(source, plugin):
    source.commit(training_job("bert"))
    source.ask(named(plugin))
    source.synced(*bert())
    settings = etcompile.Settings(profiles=("argocd",))
    compilation = etcompile.compile(
        [source.jobs], etcompile.Options(namespace=source.name, settings=settings)
    )
    wanted = {(one["kind"], one["metadata"]["name"]) for one in compilation.objects}
    live = {(one["kind"], one["name"]) for one in source.application()["status"]["resources"]}
    assert live == wanted
    assert source.config()["profiles"] == ["argocd"]


def test_a_commit_scales_out_and_a_parameter_begins_a_new_run(source, plugin):
    source.commit(training_job("bert"))
    source.ask(named(plugin, {"name": "services", "string": "shared"}))
    source.synced(*bert())
    source.commit(training_job("bert", replicas=4))
    source.synced(*bert(4))
    images = {"name": "images", "map": {"horovod/horovod": ":0.29.0"}}
    source.ask(named(plugin, {"name": "run", "string": "two"}, images))
    source.synced(*bert(4, "two"))
    assert source.config()["run"] == "two"


def test_a_mistake_is_shown_and_nothing_is_pruned(source, plugin):
    source.commit(training_job("bert"))
    source.ask(named(plugin))
    source.synced(*bert())
    document = training_job("bert", replicas=12)
    worker(document)["maxReplicas"] = 8
    source.commit(document)
    eventually(lambda: "error[ET2003]" in source.errors(), why=source.errors)
    source.ask(named(plugin, {"name": "secrt", "string": "external"}))
    eventually(lambda: "did you mean 'secret'?" in source.errors(), why=source.errors)
    time.sleep(5)
    assert source.pods() == sorted(bert())
    source.commit(training_job("bert", replicas=3))
    source.ask(named(plugin))
    source.synced(*bert(3))


def test_an_application_need_not_name_the_plugin(source):
    source.commit(training_job("bert"))
    source.ask({"env": [{"name": "ETCOMPILE_RUN", "value": "r-$ARGOCD_APP_REVISION_SHORT"}]})
    eventually(lambda: len(source.pods()) == 3, why=source.errors)
    assert {name.split("-")[1] for name in source.pods()} == {"r"}


def test_a_file_name_is_enough(source):
    source.commit(training_job("bert"), "bert.etjob.yaml")
    source.ask(None)
    source.synced(*bert())
