"""Objects kept small come back as they were, in the one order, and share what they shared."""

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from etcompile.emit import Packed, blocks, header, merged, ordered, stream, to_yaml
from etcompile.emit.yaml import to_documents
from specs import manifest

_OBJECTS = st.builds(
    lambda kind, name, namespace, wave: manifest(
        kind, name, metadata={"namespace": namespace, "annotations": {"etcompile.dev/wave": wave}}
    ),
    st.sampled_from(["Pod", "Service", "Namespace", "Role"]),
    st.text("ab-019", max_size=4),
    st.sampled_from(["ml", "ml-2"]),
    st.sampled_from(["", "5", "100"]),
)


def _pods(count: int, spec: Any) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"w-{n}"}, "spec": spec}
        for n in range(count)
    ]


@given(st.lists(st.lists(_OBJECTS, max_size=6), max_size=4))
def test_several_groups_merge_into_the_order_of_all_objects(groups: list[Any]) -> None:
    several = [Packed(group) for group in groups]
    every = [one for group in groups for one in group]
    assert [len(one) for one in several] == [len(group) for group in groups]
    assert [to_yaml(one) for one in merged(several)] == [to_yaml(one) for one in ordered(every)]


def test_a_group_is_in_order_and_can_be_looked_at_again() -> None:
    pods = _pods(12, {"containers": []})
    packed = Packed(reversed(pods))
    assert list(packed) == list(packed) == pods
    assert (packed[2], packed[-1], packed[:2]) == (pods[2], pods[11], tuple(pods[:2]))
    assert packed == Packed(pods) != Packed(pods[1:])


def test_only_some_of_many_objects_are_mappings_at_a_time() -> None:
    pods = [{**pod, "kind": kind} for kind in ("Pod", "Role") for pod in _pods(600, {})]
    packed = Packed(pods)
    assert list(packed) == [*ordered(pods)]
    assert len(packed) == sum(part.size for part in packed.parts) == 1200
    assert max(part.size for part in packed.parts) == 256


def test_long_text_is_released_after_it_is_written() -> None:
    pods = (_pods(1, {"hosts": f"{number}" + "x" * 100_000})[0] for number in range(500))
    tracemalloc.start()
    assert sum(map(len, to_documents(pods))) > 50_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_a_changed_object_changes_nothing_for_the_next_reader() -> None:
    packed = Packed(_pods(1, {}))
    next(iter(packed))["metadata"] = {}  # type: ignore[index]
    assert packed[0]["metadata"] == {"name": "w-0"}


def test_pods_that_shared_a_spec_share_it_still() -> None:
    specs = {id(pod["spec"]) for pod in list(Packed(_pods(5, {"containers": [{"name": "a"}]})))}
    assert len(specs) == 1


@given(st.lists(st.lists(_OBJECTS, max_size=3), max_size=3))
def test_blocks_are_the_stream_in_pieces(groups: list[Any]) -> None:
    objects = [one for group in groups for one in group]
    text = stream(objects, ["a.yaml"])
    assert "".join(blocks(ordered(objects), ["a.yaml"])) == text
    assert "".join(blocks([], ["a.yaml"])) == header(["a.yaml"])


def test_many_objects_come_in_several_blocks() -> None:
    pods = _pods(3000, {"containers": [{"name": "a" * 500}]})
    texts = list(blocks(pods, []))
    assert len(texts) > 1
    assert "".join(texts) == stream(pods, [])


_INNER = st.sampled_from([{}, {"a": "1"}, {"a": {"b": ["x", {"y": 1}]}}, ["x"], [], "text\n", None])


@given(st.lists(st.dictionaries(st.sampled_from(["spec", "metadata", "data"]), _INNER), max_size=5))
def test_what_documents_share_does_not_change_their_text(values: list[Any]) -> None:
    # The samples are the same mappings again and again, and some equal ones that are not.
    copied = [dict(value) for value in values]
    every = [one for pair in zip(values, copied, strict=True) for one in pair]
    assert list(to_documents(every)) == [to_yaml(one) for one in every]
