"""Whether jobs fit: each filter of the scheduler, and what is said of a job that does not fit."""

import pytest

from capacity.clusters import GPU, node, pod, running, workers
from etcompile.capacity import answers, snapshot


def fit(nodes, pods, others=(), extras=None, **keywords):
    """The answer, which must be the same for a snapshot that was written and read."""
    shot = snapshot.of_objects(nodes, others, extras or {})
    answer = answers.fit(shot, pods, **keywords)
    again = snapshot.of_document(snapshot.to_document(shot))
    assert answers.fit(again, pods, **keywords) == answer
    return answer


def verdict(*args, **keywords):
    return fit(*args, **keywords).verdict


def test_says_the_numbers_of_a_pod_that_is_larger_than_every_node():
    answer = fit([node("a", gpus=4), node("b", gpus=2)], workers(2, gpus=8))
    assert answer.verdict == "never"
    assert answer.reasons[0] == "worker asks nvidia.com/gpu: 8 on one node; the largest node has 4"


def test_fits_now_later_or_never():
    nodes, busy = [node("a", gpus=4), node("b", gpus=4)], [running("a", gpus=3)]
    assert verdict(nodes, workers(2, gpus=4)) == "fits"
    assert verdict(nodes, workers(3, gpus=4)) == "never"
    answer = fit(nodes, workers(2, gpus=4), busy)
    assert answer.verdict == "not-now"
    assert answer.reasons[0] == (
        "1 of 2 worker Pods find a node: of 2 nodes 1 with room,"
        " 1 with too little nvidia.com/gpu left"
    )
    assert answer.would_end[0][GPU] == "4"


def test_names_the_lowest_priority_that_would_have_to_end():
    others = [
        running("a", name="batch", gpus=2, priority=0),
        running("a", name="serving", gpus=2, priority=1000),
    ]
    answer = fit([node("a", gpus=4)], workers(1, gpus=2), others)
    assert [*answer.would_end] == [0]
    assert not answer.preempts
    classes = {"PriorityClass": [{"metadata": {"name": "high"}, "value": 500}]}
    answer = fit([node("a", gpus=4)], workers(1, gpus=2, priorityClassName="high"), others, classes)
    assert answer.preempts


@pytest.mark.parametrize(
    ("nodes", "spec", "expected"),
    [
        ([node("a", taints=[("gpu", "NoSchedule")])], {}, "never"),
        ([node("a", taints=[("gpu", "PreferNoSchedule")])], {}, "fits"),
        (
            [node("a", taints=[("gpu", "NoSchedule")])],
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            "fits",
        ),
        ([node("a", unschedulable=True)], {}, "not-now"),
        ([node("a", labels={"disk": "ssd"}.items())], {"nodeSelector": {"disk": "hdd"}}, "never"),
        ([node("a", pods="1")], {}, "never"),
        ([node("a"), node("b")], {"hostNetwork": True}, "fits"),
        ([node("a"), node("b")], {"overhead": {"cpu": "7500m"}}, "never"),
        ([node("a")], {"schedulerName": "volcano"}, "unknown"),
        ([node("a", cpu="1")], {"schedulerName": "volcano"}, "never"),
        ([node("a")], {"nodeSelector": {"kubernetes.io/hostname": "a"}}, "unknown"),
        (
            [node("a")],
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "unknown",
        ),
    ],
)
def test_filters_nodes_as_the_scheduler_does(nodes, spec, expected):
    assert verdict(nodes, workers(2, **spec)) == expected


def test_counts_sidecars_and_init_containers_by_the_rule_of_kubernetes():
    (job,) = workers(1, cpu="2")
    resources = {"requests": {"cpu": "3"}}
    sidecar = {"name": "s", "image": "s", "restartPolicy": "Always", "resources": resources}
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    job["spec"]["initContainers"] = [sidecar, init]
    assert verdict([node("a", cpu="7")], [job]) == "fits"
    assert verdict([node("a", cpu="6")], [job]) == "never"


def affinity(kind, key, **labels):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key, most=1, **labels):
    constraint = {
        "topologyKey": key,
        "maxSkew": most,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [constraint]}


def zones(*names):
    return [node(f"{i}{name}", labels={"zone": name}.items()) for i, name in enumerate(names)]


def test_keeps_pods_apart_together_and_spread():
    host, job = "kubernetes.io/hostname", {"job": "mnist"}
    apart, together = (
        affinity("podAntiAffinity", host, **job),
        affinity("podAffinity", "zone", **job),
    )
    assert verdict(zones("x", "y"), workers(2, **apart)) == "fits"
    assert verdict(zones("x", "y"), workers(3, **apart)) == "never"
    assert verdict(zones("x", "y"), workers(8, **together)) == "fits"
    assert verdict(zones("x", "y"), workers(9, **together)) == "not-now"
    small = node("small", cpu="500m", labels={"zone": "z"}.items())
    assert verdict([*zones("x", "y"), small], workers(8, **together)) == "fits"
    # If the first goes to the smaller zone, the others do not fit beside it.
    assert verdict(zones("x", "y", "y"), workers(9, **together)) == "depends"
    assert verdict(zones("x", "y", "y"), workers(17, **spread("zone", **job))) == "fits"
    assert verdict(zones("x", "y", "y"), workers(18, **spread("zone", **job))) == "not-now"


def test_does_not_say_that_it_fits_if_the_scheduler_may_choose_badly():
    nodes = [node("a", gpus=4, cpu="4"), node("b", cpu="4")]
    job = [*workers(1, "launcher", cpu="1"), *workers(1, gpus=4, cpu="4")]
    assert verdict(nodes, job) == "depends"
    assert verdict([*nodes, node("c", gpus=4, cpu="5")], job) == "fits"


def test_knows_nothing_of_the_labels_of_others():
    rule = affinity("podAntiAffinity", "kubernetes.io/hostname", app="web")
    other = running("a", labels={"app": "web"}.items())
    assert verdict([node("a"), node("b")], workers(1, **rule)) == "fits"
    assert verdict([node("a"), node("b")], workers(1, **rule), [{**other}]) == "fits"
    other["metadata"]["namespace"] = "ml"
    assert verdict([node("a"), node("b")], workers(1, **rule), [other]) == "unknown"


def test_resources_a_job_already_uses_count_as_free_for_it():
    labels = {"etcompile.dev/job": "mnist"}
    mine = [pod("worker-0", gpus=4, nodeName="a", labels=labels.items())]
    assert verdict([node("a", gpus=4)], workers(1, gpus=4, labels=labels), mine) == "fits"
    assert verdict([node("a", gpus=4)], workers(1, gpus=4), mine) == "not-now"


def test_says_how_many_pods_of_an_elastic_role_fit():
    others = [running("a", cpu="5")]
    answer = fit([node("a")], workers(8), others, elastic={"worker": 2})
    assert (answer.verdict, answer.fewer) == ("not-now", {"worker": 3})


def test_takes_resource_quotas_into_account():
    quota = {
        "metadata": {"namespace": "ml", "name": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
        "status": {
            "hard": {"requests.nvidia.com/gpu": "4"},
            "used": {"requests.nvidia.com/gpu": "3"},
        },
    }
    answer = fit([node("a", gpus=8)], workers(1, gpus=2), extras={"ResourceQuota": [quota]})
    assert answer.verdict == "queue-full"
    assert answer.reasons == (
        "needs requests.nvidia.com/gpu: 2, and the ResourceQuota ml/team has 1 left",
    )


def queues(nominal, used="0", borrowing=None, cohort=None, others=()):
    """A LocalQueue `main`, its ClusterQueue, and others of its cohort."""

    def queue(name, nominal, used, borrowing):
        limit = {} if borrowing is None else {"borrowingLimit": borrowing}
        resources = [{"name": "cpu", "nominalQuota": nominal, **limit}]
        resources.append({"name": "memory", "nominalQuota": "1Ti"})
        flavor = {"name": "default", "resources": resources}
        group = {"coveredResources": ["cpu", "memory"], "flavors": [flavor]}
        reserved = {"name": "default", "resources": [{"name": "cpu", "total": used}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        if cohort:
            spec["cohortName"] = cohort
        return {
            "metadata": {"name": name},
            "spec": spec,
            "status": {"flavorsReservation": [reserved]},
        }

    local = {"metadata": {"namespace": "ml", "name": "main"}, "spec": {"clusterQueue": "gpus"}}
    return {
        "LocalQueue": [local],
        "ClusterQueue": [
            queue("gpus", nominal, used, borrowing),
            *(queue(f"other-{i}", *other, None) for i, other in enumerate(others)),
        ],
        "ResourceFlavor": [{"metadata": {"name": "default"}, "spec": {}}],
    }


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (queues("4"), "fits"),
        (queues("4", used="1"), "queue-full"),
        (queues("3"), "over-quota"),
        (queues("2", cohort="all", others=[("2", "0")]), "fits"),
        (queues("2", cohort="all", others=[("2", "1")]), "queue-full"),
        (queues("2", borrowing="1", cohort="all", others=[("2", "0")]), "over-quota"),
    ],
)
def test_takes_queues_of_kueue_into_account(cluster, expected):
    job = workers(4, labels={"kueue.x-k8s.io/queue-name": "main"})
    assert verdict([node("a")], job, extras=cluster) == expected


# What the API server adds to Pods, and refuses, before a scheduler sees them ---------------------


def test_a_runtime_class_adds_its_overhead_its_node_selector_and_its_tolerations():
    runtime = {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "500m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"operator": "Exists"}]},
    }
    plain, kata = node("a"), node("b", labels={"kata": "yes"}, taints=[("kata", "NoSchedule")])
    classes = {"RuntimeClass": [runtime]}
    fitting = pod("p", cpu="7500m", runtimeClassName="kata")
    assert verdict([plain, kata], [fitting], extras=classes) == "fits"
    assert verdict([plain], [fitting], extras=classes) == "never"
    larger = pod("p", cpu="7600m", runtimeClassName="kata")
    assert verdict([plain, kata], [larger], extras=classes) == "never"
    assert verdict([plain, kata], [fitting]) == "unknown"


def test_a_limit_range_may_change_or_refuse_pods():
    metadata = {"namespace": "ml", "name": "limits"}
    limits = {"metadata": metadata, "spec": {"limits": [{"type": "Container"}]}}
    assert verdict([node("a")], [pod("p")], extras={"LimitRange": [limits]}) == "unknown"
    assert verdict([node("a")], [pod("p", cpu="9")], extras={"LimitRange": [limits]}) == "never"


def test_each_container_must_name_what_a_quota_limits():
    quota = {
        "metadata": {"namespace": "ml", "name": "team"},
        "spec": {"hard": {"requests.memory": "10Gi"}},
        "status": {"hard": {"requests.memory": "10Gi"}, "used": {"requests.memory": "0"}},
    }
    first = {"name": "first", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}
    good, bad = pod("p", initContainers=[first]), pod("p", initContainers=[{"name": "first"}])
    assert verdict([node("a")], [good], extras={"ResourceQuota": [quota]}) == "fits"
    assert verdict([node("a")], [bad], extras={"ResourceQuota": [quota]}) == "over-quota"


def test_kueue_may_prefer_another_flavor_to_borrowing():
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": quota}]}
        for name, quota in (("small", "1"), ("large", "4"))
    ]
    memory = {"name": "small", "resources": [{"name": "memory", "nominalQuota": "1Ti"}]}
    spec = {
        "cohortName": "all",
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["cpu"], "flavors": flavors},
            {"coveredResources": ["memory"], "flavors": [memory]},
        ],
    }
    other = {"metadata": {"name": "other"}, "spec": spec}
    labels = [("kueue.x-k8s.io/queue-name", "main")]
    local = {"metadata": {"namespace": "ml", "name": "main"}, "spec": {"clusterQueue": "own"}}
    named = [
        {
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"size": name}} if name == "large" else {},
        }
        for name in ("small", "large")
    ]

    def cluster(choice):
        queue = {"metadata": {"name": "own"}, "spec": {**spec, "flavorFungibility": choice}}
        return {"LocalQueue": [local], "ClusterQueue": [queue, other], "ResourceFlavor": named}

    pods, nodes = [pod("p", cpu="2", labels=labels)], [node("a")]
    assert verdict(nodes, pods, extras=cluster({})) == "fits"
    assert verdict(nodes, pods, extras=cluster({"whenCanBorrow": "TryNextFlavor"})) == "unknown"
