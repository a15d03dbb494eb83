"""What can be chosen for a watcher: as an installation, and as values of the chart."""

from typing import Any

from msgspec import structs

from etcompile.integrations.watcher_manifests import Installation

IMAGE = "registry.example/etcompile:1.2.3"
REGISTRY = {"repository": "registry.example/etcompile", "tag": "1.2.3"}
HERE = Installation("nlp", ("nlp",), image=IMAGE)
ALL = Installation("ops", None, image=IMAGE)

RIGHTS = {
    "logs": ("readLogs", "components/read-logs"),
    "removal": ("removeFinished", "components/remove-finished"),
    "gangs": ("removePodGroups", "components/remove-pod-groups"),
}
"""The optional rights of an `Installation`: the value of the chart and the component of each."""

CHOICES: dict[str, tuple[Installation, dict[str, Any]]] = {
    "its own namespace": (HERE, {}),
    "its own namespace, named": (HERE, {"namespaces": ["nlp"]}),
    "several namespaces": (
        structs.replace(HERE, home="ops", namespaces=("ml", "nlp", "ops")),
        {"namespaces": ["ml", "nlp", "ops"]},
    ),
    "all namespaces": (ALL, {"allNamespaces": True}),
    "logs": (structs.replace(HERE, logs=True), {"readLogs": True}),
    **{
        right: (structs.replace(HERE, **{right: True}), {value: True})
        for right, (value, _) in RIGHTS.items()
        if right != "logs"
    },
    "logs of all namespaces": (
        structs.replace(ALL, logs=True),
        {"allNamespaces": True, "readLogs": True},
    ),
    "no policy": (structs.replace(HERE, policy=False), {"policy": {"create": False}}),
    "another name": (structs.replace(HERE, name="night"), {"fullnameOverride": "night"}),
    "more replicas": (structs.replace(HERE, replicas=3), {"replicas": 3}),
    "metrics": (
        structs.replace(HERE, pod_monitor=True, dashboard=True),
        {"podMonitor": {"enabled": True}, "dashboard": {"enabled": True}},
    ),
    "all at once": (
        Installation(*("ops", None, IMAGE, 4, True, False, "night", True, True, True, True)),
        {
            "fullnameOverride": "night",
            "allNamespaces": True,
            "replicas": 4,
            **{value: True for value, _ in RIGHTS.values()},
            "policy": {"create": False},
            "podMonitor": {"enabled": True},
            "dashboard": {"enabled": True},
        },
    ),
}
