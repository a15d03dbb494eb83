"""What the API server adds to Pods, and refuses, before a scheduler sees them."""

from capacity.clusters import node, pod
from etcompile.capacity import answers, snapshot


def verdict(pods, nodes, **others):
    shot = snapshot.of_objects(nodes, (), others)
    return answers.fit(snapshot.of_document(snapshot.to_document(shot)), pods).verdict


def test_a_runtime_class_adds_its_overhead_its_node_selector_and_its_tolerations():
    runtime = {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "500m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"operator": "Exists"}]},
    }
    plain, kata = node("a"), node("b", labels={"kata": "yes"}, taints=[("kata", "NoSchedule")])
    classes = {"RuntimeClass": [runtime]}
    fitting = pod("p", cpu="7500m", runtimeClassName="kata")
    assert verdict([fitting], [plain, kata], **classes) == "fits"
    assert verdict([fitting], [plain], **classes) == "never"
    larger = pod("p", cpu="7600m", runtimeClassName="kata")
    assert verdict([larger], [plain, kata], **classes) == "never"
    assert verdict([fitting], [plain, kata]) == "unknown"


def test_a_limit_range_may_change_or_refuse_pods():
    metadata = {"namespace": "ml", "name": "limits"}
    limits = {"metadata": metadata, "spec": {"limits": [{"type": "Container"}]}}
    assert verdict([pod("p")], [node("a")], LimitRange=[limits]) == "unknown"
    assert verdict([pod("p", cpu="9")], [node("a")], LimitRange=[limits]) == "never"


def test_each_container_must_name_what_a_quota_limits():
    quota = {
        "metadata": {"namespace": "ml", "name": "team"},
        "spec": {"hard": {"requests.memory": "10Gi"}},
        "status": {"hard": {"requests.memory": "10Gi"}, "used": {"requests.memory": "0"}},
    }
    first = {"name": "first", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}
    good, bad = pod("p", initContainers=[first]), pod("p", initContainers=[{"name": "first"}])
    assert verdict([good], [node("a")], ResourceQuota=[quota]) == "fits"
    assert verdict([bad], [node("a")], ResourceQuota=[quota]) == "over-quota"


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
    assert verdict(pods, nodes, **cluster({})) == "fits"
    assert verdict(pods, nodes, **cluster({"whenCanBorrow": "TryNextFlavor"})) == "unknown"
