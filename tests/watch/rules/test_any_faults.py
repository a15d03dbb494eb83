"""Whatever happens to a job, and whenever the watcher dies, it ends up as it should.

A failure shrinks to a short script of operations.
"""

from collections.abc import Iterable
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from etcompile.watch.core.actions import CreatePod, DeletePod, WriteStatus
from etcompile.watch.core.view import HostsRecord
from randomness import examples
from specs import kubeflow_job, replicas, scale_out, training_job, worker
from world import World, stored_job

LONG = 4000.0
"""Seconds after which nothing is under way any more: the longest waits are over."""


def et(policy: str, launcher: str = "Never", **spec: Any) -> dict[str, Any]:
    job = training_job(replicas=3, **spec)
    worker(job)["restartPolicy"] = policy
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = launcher
    return job


def torch(policy: str, *, together: bool = False, **policies: Any) -> dict[str, Any]:
    types = {"Master": {**replicas("PyTorchJob", 1)}, "Worker": {**replicas("PyTorchJob", 2)}}
    for one in types.values():
        one["restartPolicy"] = policy
    job = kubeflow_job("PyTorchJob", types, runPolicy=policies)
    if together:
        job["metadata"]["annotations"] = {"etcompile.dev/restart-together": "true"}
    return job


JOBS = {
    "et, Always": et("Always", "Always"),
    "et, OnFailure": et("OnFailure"),
    "et, ExitCode, job restarts": et("ExitCode", restartPolicy="OnFailure", backoffLimit=3),
    "et, Never": et("Never"),
    "torch, OnFailure": torch("OnFailure"),
    "torch, ExitCode, limit 3": torch("ExitCode", backoffLimit=3),
    "torch, Never": torch("Never"),
    "torch, together": torch("OnFailure", together=True),
    "jax": kubeflow_job("JAXJob", {"Worker": {**replicas("JAXJob", 3)}}),
}

POD = st.integers(0, 4)
OPERATIONS = st.one_of(
    st.tuples(st.just("fail"), POD, st.sampled_from([1, 128, 137, 255])),
    st.tuples(st.just("evict"), POD),
    st.tuples(st.just("delete"), POD, st.sampled_from([0, 1, 137])),
    st.tuples(st.just("terminate"), POD),
    st.tuples(st.just("erase"), POD),
    st.tuples(st.just("unready"), POD),
    st.tuples(st.just("vanish unseen"), POD),
    st.tuples(st.just("restart in place"), POD),
    st.tuples(st.just("watcher restarts")),
    st.tuples(st.just("watcher dies before action"), st.integers(0, 5)),
    st.tuples(st.just("decides on an old view")),
    st.tuples(st.just("git syncs")),
    st.tuples(st.just("deleted and applied again"), st.booleans()),
    st.tuples(st.just("look")),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 20.0, 700.0])),
)


class Checked(World):
    """A world in which nobody takes away what should live."""

    def act(self, action: Any) -> None:
        note(f"  {self.now:.1f} {action}")
        if isinstance(action, CreatePod | DeletePod):
            pod = self.pods.get(action.name)
            if pod is not None and pod.uid == action.uid:
                assert self.record.ended or pod.phase == "Failed" or self._may_go(action), action
                assert action.uid not in self.deleted or pod.deleting, f"twice: {action}"
        if isinstance(action, CreatePod) and self.status is not None:
            assert not self.record.ended, f"after the end: {action}"
        if isinstance(action, WriteStatus) and self.status is not None:
            assert not self.record.ended, f"after the end: {action}"
            if action.record.config == self.record.config:
                assert action.record.restarts >= self.record.restarts
                for role, count in self.record.replaced.items():
                    assert action.record.replaced[role] >= count, "a counter fell"
        super().act(action)

    def _may_go(self, action: Any) -> bool:
        pod = self.pods[action.name]
        is_policy = self.job.roles[0].recovery.restart == "Always"
        return action.uid in self.record.gang or (
            is_policy and pod.phase in ("Succeeded", "Unknown")
        )


def operate(world: World, operation: tuple[Any, ...], among: Iterable[str] | None = None) -> None:
    """Carry an operation out on a Pod of the world, or on one of these."""
    name, *facts = operation
    names = sorted(world.pods if among is None else among)
    pod = names[facts[0] % len(names)] if facts and names and isinstance(facts[0], int) else ""
    lives = pod and not world.pods[pod].ended and not world.pods[pod].deleting
    match name:
        case "fail" if lives:
            world.fail(pod, facts[1])
        case "evict" if lives:
            world.evict(pod)
        case "delete" if lives:
            world.delete(pod, facts[1])
        case "terminate" if lives:
            world.change(pod, deleting=True, due=world.now + 30)
        case "erase" if pod:
            world.vanish(pod)
        case "unready" if lives:
            world.change(pod, ready=False)
        case "vanish unseen" if pod:
            world.vanish(pod)
            world.restart_watcher()
        case "restart in place" if lives and world.job.role(world.pods[pod].role):
            world.change(pod, restarts=world.pods[pod].restarts + 1)
        case "watcher restarts":
            world.restart_watcher()
        case "watcher dies before action":
            world.dies_before(facts[0])
        case "decides on an old view":
            world.acts_late(DeletePod, CreatePod)
        case "git syncs":
            world.sync()
        case "deleted and applied again":
            if facts[0]:
                world.restart_watcher()
            world.apply_again()
            world.settle()  # whom nobody has seen nobody misses
        case "look":
            world.settle()
        case "wait":
            world.wait(facts[0])


@examples(300)
@given(
    st.sampled_from(sorted(JOBS)),
    st.booleans(),
    st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=12),
)
def test_any_faults_leave_a_job_as_declared_or_with_a_verdict(
    kind: str, git: bool, script: list[tuple[tuple[Any, ...], bool]]
) -> None:
    world = Checked(JOBS[kind], git=git)
    for operation, settles in script:
        note(f"{world.now:.1f} {operation}")
        operate(world, operation)
        if settles:
            world.settle()
    note("quiet")
    world.wait(LONG)
    world.get_ready()
    world.wait(LONG)
    assert_at_rest(world)


def assert_at_rest(world: World) -> None:
    record = world.record
    if record.ended:
        assert record.finished is not None
        assert record.phase == "Failed"
        return
    assert record.phase == "Running"
    left = {key for key, one in record.every_replica() if one.left}
    for role in world.job.roles:
        for member in role.members:
            name = role.pod_name(member)
            if (role.name, member.index) in left:
                assert role.recovery.comes_back == "policy"
                continue
            assert world.pods[name].ready, f"{name} is not Ready"
    assert sorted(world.pods) == sorted(set(world.pods) & set(world.declared))
    if world.hosts:
        ready = [name for name, pod in world.pods.items() if pod.ready and pod.role == "worker"]
        assert sorted(world.listed) == sorted(ready) or not ready
    assert_continuous(world)


def assert_continuous(world: World) -> None:
    """A launcher never meets a list without any host of the one that it may have read before."""
    written = [(at, reader, lines(hosts)) for at, hosts, reader in world.hosts_written]
    for later, (at, reader, new) in enumerate(written):
        assert new
        for earlier in range(later):
            replaced_at = written[earlier + 1][0]
            just_before = earlier == later - 1 or replaced_at > at - world.timeouts.overlap
            if just_before and reader is not None and written[earlier][1] == reader:
                assert written[earlier][2] & new, f"{written[earlier]} -> {new}"


def lines(hosts: HostsRecord) -> set[str]:
    return set(next(iter(hosts.data.values())).splitlines())


@examples(100)
@given(
    st.sampled_from(["et, Always", "et, OnFailure", "torch, OnFailure"]),
    st.lists(
        st.one_of(
            st.tuples(st.just("fail"), POD, st.sampled_from([1, 137])),
            st.tuples(st.just("evict"), POD),
            st.tuples(st.just("watcher dies before action"), st.integers(0, 5)),
            st.tuples(st.just("wait"), st.sampled_from([0.5, 20.0, 700.0])),
        ),
        max_size=12,
    ),
)
def test_any_failure_is_counted_once_though_the_watcher_dies(
    kind: str, script: list[tuple[Any, ...]]
) -> None:
    world = Checked(JOBS[kind])
    for operation in script:
        operate(world, operation)
    world.wait(LONG)
    failed = {role: len(uids) for role, uids in world.failed.items()}
    if not world.record.ended:
        assert world.record.replaced == failed
    assert len(world.deleted) == len(set(world.deleted))


@examples(60)
@given(st.lists(st.tuples(st.integers(2, 6), OPERATIONS), max_size=6), st.booleans())
def test_any_scaling_amid_faults_leaves_exactly_the_declared_workers(
    script: list[tuple[int, tuple[Any, ...]]], git: bool
) -> None:
    world = Checked2(et("Always", "Always"), git=git)
    for count, operation in script:
        documents = [training_job(replicas=2)]
        worker(documents[0])["restartPolicy"] = "Always"
        documents[0]["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "Always"
        if count > 2:
            documents.append(scale_out("more", count - 2))
        world.job, world.settings = stored_job(*documents)
        world.sync()
        world.settle()
        operate(world, operation)
        world.settle()
    world.wait(LONG)
    world.get_ready()
    world.wait(LONG)
    assert_at_rest(world)
    assert sorted(world.pods) == sorted(world.declared)


class Checked2(Checked):
    """The same where workers may leave."""

    def _may_go(self, action: Any) -> bool:
        return super()._may_go(action) or action.name not in self.declared
