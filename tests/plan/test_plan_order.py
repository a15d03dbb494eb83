"""What a plan does after what: waves, references, and the order that training needs."""

import random
from typing import Any

from etcompile import Compilation, Settings
from etcompile.plan.planner import plan
from etcompile.plan.schedule import Schedule, ring, turns
from etcompile.plan.scope import Rights
from etcompile.plan.step import Declared, Plan, Step
from specs import compiled, launcher, scale_in, scale_out, training_job, worker

WHOLE = Rights(between_files=True, replace=True)


def declared(compilation: Compilation) -> list[Declared]:
    return [Declared(one.name, one.objects, one.waits) for one in compilation.groups]


def between(old: Compilation | None, new: Compilation) -> Plan:
    there: Any = old.objects if old else ()
    return plan(declared(new), there, WHOLE)


def place(plan: Plan, start: str) -> int:
    (at,) = (at for at, step in enumerate(plan.steps) if step.id.startswith(start))
    return at


def in_order(plan: Plan, *starts: str) -> None:
    places = [place(plan, start) for start in starts]
    assert places == sorted(places), [plan.steps[at].id for at in sorted(places)]


def test_both_at_once_write_the_list_once_between_them() -> None:
    new = compiled(training_job(), scale_out("o", 1), scale_in("i", ["mnist-worker-0"]))
    in_order(
        between(compiled(training_job()), new),
        "create Pod mnist-worker-2",
        "wait until ready Pod mnist-worker-2",
        "update ConfigMap mnist-config",
        "wait until drained Pod mnist-worker-0",
        "delete Pod mnist-worker-0",
        "delete Service mnist-worker-0",
    )


def test_a_launcher_in_a_gang_of_kubernetes_comes_before_its_workers() -> None:
    settings = Settings(gang="native", run="r7")
    plan = between(None, compiled(training_job(), settings=settings))
    in_order(
        plan,
        "create Pod mnist-r7-launcher",
        "create Pod mnist-r7-worker-0",
        "create Pod mnist-r7-worker-1",
    )


def test_a_replaced_launcher_comes_once_its_replaced_workers_are_ready() -> None:
    old, new = training_job(), training_job()
    for role in (worker(new), launcher(new)):
        role["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    in_order(
        between(compiled(old), compiled(new)),
        "replace Pod mnist-worker-0",
        "wait until ready Pod mnist-worker-0",
        "replace Pod mnist-launcher",
    )


def test_a_launcher_goes_before_its_workers() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
    result = between(compiled(training_job()), compiled(config))
    in_order(
        result,
        "create ConfigMap other",
        "delete Pod mnist-launcher",
        "delete Pod mnist-worker-0",
        "delete ConfigMap mnist-config",
        "delete ServiceAccount",
    )


def test_a_changed_script_is_there_before_the_pods_that_mount_it() -> None:
    old, new = training_job(), training_job()
    for role in (worker(new), launcher(new)):
        role["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    in_order(
        between(compiled(old), compiled(new)), "update ConfigMap", "replace Pod mnist-worker-0"
    )


def test_an_object_waits_for_what_its_spec_names_within_a_wave() -> None:
    def with_wave(wave: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
        annotations = {"etcompile.dev/wave": wave}
        metadata = {"name": name, "annotations": annotations}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}

    volumes = [{"name": "v", "configMap": {"name": "z"}}]
    spec = {"containers": [{"name": "m", "image": "busybox:1"}], "volumes": volumes}
    objects = [with_wave("5", "Pod", "a", spec=spec), with_wave("5", "ConfigMap", "z")]
    result = plan([Declared(None, objects)], [])
    assert [step.ref.kind for step in result.steps] == ["ConfigMap", "Pod"]
    objects[1] = with_wave("9", "ConfigMap", "z")
    cycle = ring(plan([Declared(None, objects)], []).steps)
    assert cycle is not None
    assert "create Pod a" in cycle
    assert "create ConfigMap z" in cycle


def test_turns_hand_out_each_step_once_and_only_after_what_it_waits_for() -> None:
    new = compiled(training_job(replicas=5), scale_out("o", 3), scale_in("i", ["mnist-worker-0"]))
    result = between(compiled(training_job(replicas=4)), new)
    order = turns(result.steps)
    for step in result.steps:
        for name in step.after:
            assert order[name] < order[step.id]
    chance = random.Random(1)
    handed, waiting = Schedule(result.steps), list[Step]()
    acting = [step.id for step in result.steps if step.action != "unchanged"]
    done: list[str] = []
    while len(done) < len(acting):
        waiting += handed.ready()
        step = waiting.pop(chance.randrange(len(waiting)))
        assert all(name in done for name in step.after)
        done.append(step.id)
        handed.done(step)
    assert sorted(done) == sorted(acting)


def test_a_failed_step_holds_back_what_waits_for_it_and_nothing_else() -> None:
    jobs = compiled(training_job("one"), training_job("two"))
    result = between(None, jobs)
    handed, done = Schedule(result.steps), set[str]()
    while ready := list(handed.ready()):
        for step in ready:
            if step.id != "create ConfigMap one-config":
                done.add(step.id)
                handed.done(step)
    assert "create Pod two-launcher" in done
    assert "create Pod one-launcher" not in done


def test_a_thousand_workers_need_no_million_edges() -> None:
    result = between(None, compiled(training_job(replicas=1000)))
    assert sum(len(step.after) for step in result.steps) < 10_000
