"""Changes of objects, and what an API server says about each: one table for two readers.

`test_immutable.py` holds etcompile's rules against it. Run as a program it holds the table itself
against a cluster: `KUBECONFIG=… python tests/plan/immutable_cases.py NAMESPACE` applies both
states of every object, server-side, and prints where the API server disagrees.
"""

import copy
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

ACCEPTED, RESTARTS, REFUSED = "accepted", "restarts", "refused"


@dataclass(frozen=True)
class Case:
    title: str
    old: dict[str, Any]
    new: dict[str, Any]
    verdict: str
    field: str = ""
    """The one field that is reported."""
    silent: bool = False
    """The API server accepts the change and does nothing about it."""


def pod(spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "example/mpi:1", "command": ["sleep", "1"], **container}
    return _object("v1", "Pod", spec={"containers": [main], **(spec or {})})


def _object(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}


def _service(**spec: Any) -> dict[str, Any]:
    return _object("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}, **spec})


def _claim(size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "etcompile-lab"}
    # Bound by name to a volume that the program below makes.
    return _object(
        "v1",
        "PersistentVolumeClaim",
        spec={**modes, "volumeName": "etcompile-lab", "resources": resources, **spec},
    )


def _template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example/mpi:1", "command": ["true"]}]
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": containers, "restartPolicy": "Never", **spec},
    }


def _job(template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return _object("batch/v1", "Job", spec={"template": template or _template(), **spec})


def _binding(role: str) -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    value = _object("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef=ref)
    value["metadata"]["name"] = "etcompile-lab"
    return value


def _relabeled(value: dict[str, Any]) -> dict[str, Any]:
    value = copy.deepcopy(value)
    value["metadata"] |= {"labels": {"c": "d"}, "annotations": {"e": "f"}}
    return value


_GATE = [{"name": "lab/one"}, {"name": "lab/two"}]
_KEY = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
_PROBE = {"exec": {"command": ["true"]}}
_HTTP = {"httpGet": {"port": 80}}
_SOURCE = {"configMap": {"name": "c"}}
_DATA = {"k": "dg=="}
_INIT = {"name": "init", "image": "example/mpi:1", "command": ["true"]}
_SCHEDULING = {
    "nodeSelector": {"a": "b"},
    "tolerations": [_KEY],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    },
}

POD_CASES = [
    Case("its labels and annotations", pod(), _relabeled(pod()), ACCEPTED),
    Case("an image", pod(), pod(image="example/mpi:2"), RESTARTS, "spec.containers[main].image"),
    Case(
        "an init container's image",
        pod({"initContainers": [_INIT]}),
        pod({"initContainers": [{**_INIT, "image": "example/mpi:2"}]}),
        ACCEPTED,
    ),
    Case("a deadline that is set", pod(), pod({"activeDeadlineSeconds": 9}), ACCEPTED),
    Case(
        "a deadline that is lowered",
        pod({"activeDeadlineSeconds": 9000}),
        pod({"activeDeadlineSeconds": 8000}),
        ACCEPTED,
    ),
    Case(
        "a deadline that is raised",
        pod({"activeDeadlineSeconds": 8000}),
        pod({"activeDeadlineSeconds": 9000}),
        REFUSED,
        "spec.activeDeadlineSeconds",
    ),
    Case(
        "a deadline that is taken away",
        pod({"activeDeadlineSeconds": 8000}),
        pod(),
        REFUSED,
        "spec.activeDeadlineSeconds",
    ),
    Case("a toleration that is added", pod(), pod({"tolerations": [_KEY]}), ACCEPTED),
    Case(
        "a toleration's seconds",
        pod({"tolerations": [_KEY]}),
        pod({"tolerations": [{**_KEY, "tolerationSeconds": 5}]}),
        ACCEPTED,
    ),
    Case(
        "a toleration that is changed",
        pod({"tolerations": [_KEY]}),
        pod({"tolerations": [{**_KEY, "key": "b"}]}),
        REFUSED,
        "spec.tolerations",
    ),
    Case(
        "a toleration that is removed",
        pod({"tolerations": [_KEY]}),
        pod(),
        REFUSED,
        "spec.tolerations",
    ),
    Case(
        "a grace period",
        pod(),
        pod({"terminationGracePeriodSeconds": 5}),
        REFUSED,
        "spec.terminationGracePeriodSeconds",
    ),
    Case(
        "a scheduling gate that is removed",
        pod({"schedulingGates": _GATE}),
        pod({"schedulingGates": _GATE[:1]}),
        ACCEPTED,
    ),
    Case(
        "a scheduling gate that is added",
        pod({"schedulingGates": _GATE[:1]}),
        pod({"schedulingGates": _GATE}),
        REFUSED,
        "spec.schedulingGates",
    ),
    Case("a command", pod(), pod(command=["true"]), REFUSED, "spec.containers[main].command"),
    Case(
        "a container more",
        pod(),
        pod({"containers": [*pod()["spec"]["containers"], {**_INIT, "name": "log"}]}),
        REFUSED,
        "spec.containers",
    ),
    Case(
        "containers in another order",
        pod({"containers": [_INIT, {**_INIT, "name": "log"}]}),
        pod({"containers": [{**_INIT, "name": "log"}, _INIT]}),
        REFUSED,
        "spec.containers",
    ),
    Case(
        "a variable",
        pod(env=[{"name": "A", "value": "1"}]),
        pod(env=[{"name": "A", "value": "2"}]),
        REFUSED,
        "spec.containers[main].env[A].value",
    ),
    Case(
        "a variable more",
        pod(env=[{"name": "A", "value": "1"}]),
        pod(env=[{"name": "A", "value": "1"}, {"name": "B"}]),
        REFUSED,
        "spec.containers[main].env",
    ),
    Case(
        "an empty variable's value",
        pod(env=[{"name": "A"}]),
        pod(env=[{"name": "A", "value": ""}]),
        ACCEPTED,
    ),
    Case(
        "resources",
        pod(resources={"limits": {"cpu": 1}}),
        pod(resources={"limits": {"cpu": 2}}),
        REFUSED,
        "spec.containers[main].resources.limits.cpu",
    ),
    Case(
        "a quantity in other words",
        pod(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
        pod(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}}),
        ACCEPTED,
    ),
    Case(
        "requests that equal the limits",
        pod(resources={"limits": {"cpu": 1}}),
        pod(resources={"limits": {"cpu": 1}, "requests": {"cpu": 1}}),
        ACCEPTED,
    ),
    Case("the default restart policy", pod(), pod({"restartPolicy": "Always"}), ACCEPTED),
    Case("a restart policy", pod(), pod({"restartPolicy": "Never"}), REFUSED, "spec.restartPolicy"),
    Case(
        "many defaults",
        pod({"volumes": [{"name": "v", **_SOURCE}, {"name": "e"}]}, livenessProbe=_PROBE),
        pod(
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "c", "defaultMode": 0o644}},
                    {"name": "e", "emptyDir": {}},
                ],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": True,
                "hostNetwork": False,
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "serviceAccountName": "default",
                "terminationGracePeriodSeconds": 30,
            },
            livenessProbe={**_PROBE, "periodSeconds": 10, "timeoutSeconds": 1},
            imagePullPolicy="IfNotPresent",
            resources={},
            stdin=False,
            terminationMessagePolicy="File",
            workingDir="",
        ),
        ACCEPTED,
    ),
    Case(
        "the pull policy of an image without a tag",
        pod(image="example/mpi"),
        pod(image="example/mpi", imagePullPolicy="Always"),
        ACCEPTED,
    ),
    Case(
        "a probe",
        pod(),
        pod(livenessProbe=_HTTP),
        REFUSED,
        "spec.containers[main].livenessProbe",
    ),
    Case(
        "a probe's defaults",
        pod(livenessProbe=_HTTP),
        pod(livenessProbe={"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}),
        ACCEPTED,
    ),
    Case(
        "a volume's source",
        pod({"volumes": [{"name": "v", **_SOURCE}]}),
        pod({"volumes": [{"name": "v", "configMap": {"name": "other"}}]}),
        REFUSED,
        "spec.volumes[v].configMap.name",
    ),
    Case(
        "an item of a volume",
        pod(
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "a"}]}}
                ]
            }
        ),
        pod(
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}}
                ]
            }
        ),
        REFUSED,
        "spec.volumes[v].configMap.items[0].path",
    ),
    Case(
        "a false that is not the default",
        pod(),
        pod(securityContext={"privileged": False}),
        REFUSED,
        "spec.containers[main].securityContext",
    ),
    Case("a node selector", pod(), pod({"nodeSelector": {"a": "b"}}), REFUSED, "spec.nodeSelector"),
    Case("a host name", pod(), pod({"hostname": "h"}), REFUSED, "spec.hostname"),
]

OTHER_CASES = [
    Case(
        "ports and a selector",
        _service(),
        _service(ports=[{"port": 81}], selector={"c": "d"}),
        ACCEPTED,
    ),
    Case(
        "a Service that becomes headless",
        _service(),
        _service(clusterIP="None"),
        REFUSED,
        "spec.clusterIP",
    ),
    Case(
        "a headless Service that is to get an address",
        _service(clusterIP="None"),
        _service(),
        REFUSED,
        "spec.clusterIP",
        silent=True,
    ),
    Case(
        "a headless Service that becomes a NodePort",
        _service(clusterIP="None"),
        _service(type="NodePort"),
        REFUSED,
        "spec.clusterIP",
    ),
    Case("a Service's type", _service(), _service(type="NodePort"), ACCEPTED),
    Case(
        "a Service that becomes a name",
        _service(clusterIP="None"),
        _service(type="ExternalName", externalName="example.com"),
        ACCEPTED,
    ),
    Case(
        "a Service's address family",
        _service(ipFamilies=["IPv4"]),
        _service(ipFamilies=["IPv6"]),
        REFUSED,
        "spec.ipFamilies",
    ),
    Case(
        "a load balancer's class",
        _service(type="LoadBalancer", loadBalancerClass="a/b"),
        _service(type="LoadBalancer", loadBalancerClass="a/c"),
        REFUSED,
        "spec.loadBalancerClass",
    ),
    Case(
        "a ConfigMap",
        _object("v1", "ConfigMap", data={"a": "b"}),
        _object("v1", "ConfigMap", data={"a": "c"}),
        ACCEPTED,
    ),
    Case(
        "an immutable ConfigMap's data",
        _object("v1", "ConfigMap", data={"a": "b"}, immutable=True),
        _object("v1", "ConfigMap", data={"a": "c"}, immutable=True),
        REFUSED,
        "data.a",
    ),
    Case(
        "an immutable ConfigMap's first binary data",
        _object("v1", "ConfigMap", data={"a": "b"}, immutable=True),
        _object("v1", "ConfigMap", data={"a": "b"}, binaryData=_DATA, immutable=True),
        REFUSED,
        "binaryData",
    ),
    Case(
        "a ConfigMap that was immutable",
        _object("v1", "ConfigMap", data={"a": "b"}, immutable=True),
        _object("v1", "ConfigMap", data={"a": "b"}),
        REFUSED,
        "immutable",
    ),
    Case(
        "a ConfigMap that becomes immutable",
        _object("v1", "ConfigMap", data={"a": "b"}),
        _object("v1", "ConfigMap", data={"a": "c"}, immutable=True),
        ACCEPTED,
    ),
    Case(
        "a Secret's data",
        _object("v1", "Secret", data=_DATA),
        _object("v1", "Secret", data={"k": "dw=="}),
        ACCEPTED,
    ),
    Case(
        "an immutable Secret's data",
        _object("v1", "Secret", data=_DATA, immutable=True),
        _object("v1", "Secret", data={"k": "dw=="}, immutable=True),
        REFUSED,
        "data.k",
    ),
    Case(
        "an immutable Secret's data in clear text",
        _object("v1", "Secret", data=_DATA, immutable=True),
        _object("v1", "Secret", data=_DATA, stringData={"k": "v"}, immutable=True),
        ACCEPTED,
    ),
    Case(
        "a Secret that was immutable",
        _object("v1", "Secret", data=_DATA, immutable=True),
        _object("v1", "Secret", data=_DATA),
        REFUSED,
        "immutable",
    ),
    Case(
        "a Secret's default type",
        _object("v1", "Secret", data=_DATA),
        _object("v1", "Secret", data=_DATA, type="Opaque"),
        ACCEPTED,
    ),
    Case(
        "a Secret's type",
        _object("v1", "Secret", data=_DATA),
        _object("v1", "Secret", data=_DATA, type="a/b"),
        REFUSED,
        "type",
    ),
    Case(
        "a claim that shrinks",
        _claim("2Gi"),
        _claim("1Gi"),
        REFUSED,
        "spec.resources.requests.storage",
    ),
    Case("a claim that grows", _claim("1Gi"), _claim("2Gi"), ACCEPTED),
    Case("a claim's size in other words", _claim("1Gi"), _claim("1024Mi"), ACCEPTED),
    Case(
        "a claim's access mode",
        _claim(),
        _claim(accessModes=["ReadWriteMany"]),
        REFUSED,
        "spec.accessModes",
    ),
    Case(
        "a claim's class of attributes",
        _claim(),
        _claim(volumeAttributesClassName="gold"),
        ACCEPTED,
    ),
    Case("a claim's default mode", _claim(), _claim(volumeMode="Filesystem"), ACCEPTED),
    Case(
        "a Job's parallelism", _job(), _job(parallelism=2, backoffLimit=1, suspend=True), ACCEPTED
    ),
    Case("a Job's default completions", _job(), _job(completions=1), ACCEPTED),
    Case(
        "a Job's counts",
        _job(completions=2),
        _job(completions=2, parallelism=2, backoffLimit=1, suspend=True),
        ACCEPTED,
    ),
    Case(
        "a Job's completions", _job(completions=2), _job(completions=3), REFUSED, "spec.completions"
    ),
    Case(
        "an Indexed Job that scales",
        _job(completionMode="Indexed", completions=2, parallelism=2),
        _job(completionMode="Indexed", completions=3, parallelism=3),
        ACCEPTED,
    ),
    Case(
        "an Indexed Job's completions alone",
        _job(completionMode="Indexed", completions=2, parallelism=2),
        _job(completionMode="Indexed", completions=3, parallelism=2),
        REFUSED,
        "spec.completions",
    ),
    Case(
        "a Job's completion mode",
        _job(completions=2),
        _job(completions=2, completionMode="Indexed"),
        REFUSED,
        "spec.completionMode",
    ),
    Case("a Job's default template", _job(), _job(_template(dnsPolicy="ClusterFirst")), ACCEPTED),
    Case(
        "a Job's template",
        _job(),
        _job(_template(nodeSelector={"a": "b"})),
        REFUSED,
        "spec.template.spec.nodeSelector",
    ),
    Case(
        "a suspended Job's scheduling",
        _job(suspend=True),
        _job(_template(**_SCHEDULING), suspend=True),
        ACCEPTED,
    ),
    Case(
        "a suspended Job's host network",
        _job(suspend=True),
        _job(_template(hostNetwork=True), suspend=True),
        REFUSED,
        "spec.template.spec.hostNetwork",
    ),
    Case(
        "a Job's manager",
        _job(suspend=True),
        _job(suspend=True, managedBy="a/b"),
        REFUSED,
        "spec.managedBy",
    ),
    Case(
        "a RoleBinding's role",
        _binding("view"),
        _binding("edit"),
        REFUSED,
        "roleRef.name",
    ),
]


def _gang(version: str, count: int, **spec: Any) -> dict[str, Any]:
    api = f"scheduling.k8s.io/{version}"
    policy = {"gang": {"minCount": count}}
    if version == "v1alpha1":
        return _object(api, "Workload", spec={"podGroups": [{"name": "all", "policy": policy}]})
    return _object(api, "PodGroup", spec={"schedulingPolicy": policy, **spec})


_MINIMUM = "spec.schedulingPolicy.gang.minCount"
_IN_WORKLOAD = "spec.podGroups[0].policy.gang.minCount"
GANG_CASES = [
    Case("a gang's minimum in 1.37", _gang("v1beta1", 2), _gang("v1beta1", 3), ACCEPTED),
    Case(
        "a gang's minimum in 1.36",
        _gang("v1alpha2", 2),
        _gang("v1alpha2", 3),
        REFUSED,
        _MINIMUM,
    ),
    Case(
        "a gang's priority",
        _gang("v1beta1", 2),
        _gang("v1beta1", 2, priorityClassName="high"),
        REFUSED,
        "spec.priorityClassName",
    ),
    Case("a Workload", _gang("v1alpha1", 2), _gang("v1alpha1", 3), REFUSED, _IN_WORKLOAD),
]
"""From the field's own rules: few clusters have the feature on, so none is asked below."""

CASES = [*POD_CASES, *OTHER_CASES, *GANG_CASES]

_VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "etcompile-lab"},
    "spec": {
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "capacity": {"storage": "5Gi"},
        "hostPath": {"path": "/tmp"},
        "storageClassName": "etcompile-lab",
    },
}
_EXPANDABLE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "etcompile-lab"},
    "provisioner": "a/b",
    "allowVolumeExpansion": True,
}


def main(namespace: str) -> None:
    """Prints the cases about which a cluster disagrees."""

    def kubectl(*words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        text = None if given is None else json.dumps(given)
        command = ["kubectl", "-n", namespace, *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def apply(value: Any) -> subprocess.CompletedProcess[str]:
        return kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=value)

    wrong = 0
    asked = [case for case in CASES if case not in GANG_CASES]
    for case in asked:
        claim = case.old["kind"] == "PersistentVolumeClaim"
        made = [_EXPANDABLE, _VOLUME] if claim else []
        for value in (*made, case.old):
            done = apply(value)
            assert done.returncode == 0, f"{case.title}: {done.stderr}"
        if claim:
            bound = "jsonpath={.status.phase}=Bound"
            done = kubectl("wait", "pvc/x", f"--for={bound}", "--timeout=60s")
            assert done.returncode == 0, done.stderr
        done = apply(case.new)
        refused = done.returncode != 0
        wanted = case.verdict == REFUSED and not case.silent
        if refused != wanted:
            wrong += 1
            print(f"DIFFERS {case.title}: {'refused' if refused else 'accepted'}: {done.stderr}")
        for value in (case.old, *reversed(made)):
            kubectl("delete", "--wait", "--grace-period=0", "--force", "-f", "-", given=value)
    print(f"{len(asked)} cases, {wrong} differ")


if __name__ == "__main__":
    main(sys.argv[1])
