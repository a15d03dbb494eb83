"""Strategic merge patches, as kubectl and kustomize users expect them."""

from typing import Any

import pytest

from etcompile.k8s.strategic import merged
from etcompile.k8s.traced import PatchError, Traced
from etcompile.load import Document


def traced(value: Any, file: str) -> Traced:
    return Traced(value, Document(file, file, 0, value))


def merge(base: Any, patch: Any, kind: str = "Pod") -> Any:
    return merged(traced(base, "base"), traced(patch, "patch"), kind).value


def in_pod(spec: Any) -> Any:
    return {"spec": spec}


def in_template(spec: Any) -> Any:
    return {"spec": {"etReplicaSpecs": {"worker": {"template": {"spec": spec}}}}}


@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="fields are added"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="values are replaced"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({}, {"a": None}, {}, id="null removes nothing where there is nothing"),
        pytest.param({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="also in a new mapping"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="mappings merge"
        ),
        pytest.param({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}, id="another type replaces"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}, id="replace"
        ),
        pytest.param({"a": {"b": 1}, "c": 1}, {"a": {"$patch": "delete"}}, {"c": 1}, id="delete"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "merge"}}, {"a": {"b": 1}}, id="merge"),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "b"}]},
            {"containers": [{"name": "b"}]},
            id="containers merge in Pod specs only",
        ),
    ],
)
def test_mappings(base: Any, patch: Any, result: Any) -> None:
    assert merge(base, patch) == result


KEYED = [
    ("containers", "name", "a", "b"),
    ("initContainers", "name", "a", "b"),
    ("volumes", "name", "a", "b"),
    ("imagePullSecrets", "name", "a", "b"),
    ("hostAliases", "ip", "10.0.0.1", "10.0.0.2"),
    ("topologySpreadConstraints", "topologyKey", "zone", "host"),
]


@pytest.mark.parametrize("where", [in_pod, in_template])
@pytest.mark.parametrize(("field", "key", "one", "two"), KEYED)
def test_lists_with_names_merge_by_them(
    where: Any, field: str, key: str, one: Any, two: Any
) -> None:
    base = where({field: [{key: one, "x": 1}, {key: two, "x": 2}]})
    patch = where({field: [{key: two, "y": 3}, {key: "new"}]})
    expected = [{key: one, "x": 1}, {key: two, "x": 2, "y": 3}, {key: "new"}]
    assert merge(base, patch) == where({field: expected})


CONTAINER = [
    ("env", "name", "A", "B"),
    ("volumeMounts", "mountPath", "/a", "/b"),
    ("ports", "containerPort", 1, 2),
    ("volumeDevices", "devicePath", "/dev/a", "/dev/b"),
]


@pytest.mark.parametrize("where", [in_pod, in_template])
@pytest.mark.parametrize(("field", "key", "one", "two"), CONTAINER)
def test_lists_with_keys_inside_containers_merge_by_key(
    where: Any, field: str, key: str, one: Any, two: Any
) -> None:
    def pod(items: list[Any]) -> Any:
        return where({"containers": [{"name": "main", field: items}]})

    base = pod([{key: one, "x": 1}, {key: two, "x": 2}])
    patch = pod([{key: one, "$patch": "delete"}, {key: two, "x": 3}])
    assert merge(base, patch) == pod([{key: two, "x": 3}])


@pytest.mark.parametrize("field", ["tolerations", "readinessGates"])
def test_lists_without_names_are_replaced(field: str) -> None:
    assert merge(in_pod({field: [{"key": "a"}]}), in_pod({field: [{"key": "b"}]})) == in_pod(
        {field: [{"key": "b"}]}
    )


PORT = {"name": "PORT", "value": "1"}
URL = {"name": "URL", "value": "tcp://h:$(PORT)"}


@pytest.mark.parametrize(
    ("base", "patch", "names"),
    [
        ([{"name": "URL", "value": "x"}, {"name": "Z"}], [PORT, URL], ["PORT", "URL", "Z"]),
        ([{"name": "A"}, {"name": "URL", "value": "x"}], [PORT, URL], ["A", "PORT", "URL"]),
        ([{"name": "A"}], [PORT, URL], ["A", "PORT", "URL"]),
        ([{"name": "URL", "value": "x"}], [PORT], ["URL", "PORT"]),
    ],
)
def test_new_variable_is_inserted_before_its_successors_in_the_patch(
    base: Any, patch: Any, names: list[str]
) -> None:
    base_pod = in_pod({"containers": [{"name": "a", "env": base}]})
    merged = merge(base_pod, in_pod({"containers": [{"name": "a", "env": patch}]}))
    assert [one["name"] for one in merged["spec"]["containers"][0]["env"]] == names


def test_words_of_a_command_are_replaced() -> None:
    base = in_pod({"containers": [{"name": "main", "args": ["a", "b"]}]})
    patch = in_pod({"containers": [{"name": "main", "args": ["c"]}]})
    assert merge(base, patch) == patch


def test_ports_of_a_service_merge_by_port() -> None:
    base = in_pod({"ports": [{"port": 22, "name": "ssh"}]})
    patch = in_pod({"ports": [{"port": 22, "appProtocol": "ssh"}, {"port": 80}]})
    expected = [{"port": 22, "name": "ssh", "appProtocol": "ssh"}, {"port": 80}]
    assert merge(base, patch, "Service") == in_pod({"ports": expected})


def test_a_list_can_be_replaced_as_a_whole() -> None:
    base = in_pod({"containers": [{"name": "a"}, {"name": "b"}]})
    patch = in_pod({"containers": [{"$patch": "replace"}, {"name": "c"}]})
    assert merge(base, patch) == in_pod({"containers": [{"name": "c"}]})


def test_an_item_can_be_replaced_as_a_whole() -> None:
    base = in_pod({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}]})
    patch = in_pod({"volumes": [{"name": "a", "$patch": "replace", "configMap": {"name": "x"}}]})
    assert merge(base, patch) == in_pod(
        {"volumes": [{"name": "a", "configMap": {"name": "x"}}, {"name": "b"}]}
    )


def test_nothing_of_the_base_is_changed_in_place() -> None:
    base = in_pod({"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}]}]})
    before = repr(base)
    merge(base, in_pod({"containers": [{"name": "a", "env": [{"name": "A", "value": "2"}]}]}))
    assert repr(base) == before


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"$setElementOrder/containers": [{"name": "a"}]}, ("$setElementOrder/containers",)),
        ({"a": {"$retainKeys": ["b"]}}, ("a", "$retainKeys")),
        ({"a": {"$patch": "remove"}}, ("a", "$patch")),
        (in_pod({"containers": [{"image": "x"}]}), ("spec", "containers", 0)),
        (in_pod({"containers": ["x"]}), ("spec", "containers", 0)),
        (in_pod({"tolerations": [{"$patch": "delete"}]}), ("spec", "tolerations", 0)),
        ({"$patch": "delete"}, ()),
    ],
)
def test_what_cannot_be_followed_is_refused_where_it_stands(patch: Any, path: Any) -> None:
    with pytest.raises(PatchError) as raised:
        merge(in_pod({"containers": [{"name": "a"}]}), patch)
    assert raised.value.place.path == path


def test_each_value_knows_the_file_it_came_from() -> None:
    base = traced(in_pod({"containers": [{"name": "a", "image": "x"}], "b": 1}), "base")
    patch = traced(in_pod({"containers": [{"name": "new"}, {"name": "a", "tty": True}]}), "patch")
    value = merged(base, patch, "Pod")
    files = {
        ("spec", "b"): "base",
        ("spec", "containers"): "base",
        ("spec", "containers", 0, "image"): "base",
        ("spec", "containers", 0, "tty"): "patch",
        ("spec", "containers", 1, "name"): "patch",
    }
    assert {path: value.locate(path).file for path in files} == files


def test_who_misses_a_removed_field_is_shown_the_overlay() -> None:
    value = merged(
        traced({"a": {"b": 1, "c": 2}}, "base"), traced({"a": {"b": None}}, "patch"), "X"
    )
    assert value.locate(("a",)).file == "patch"
    assert value.locate(("a", "c")).file == "base"
