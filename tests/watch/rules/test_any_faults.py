"""Whatever happens to a job, and whenever the watcher dies, it ends up as it should.

A failure shrinks to a short script of operations.
"""

from typing import Any

from hypothesis import example, given, note
from hypothesis import strategies as st

from etcompile.watch.core.run import CreatePod, DeletePod, HostsRecord, WriteStatus
from randomness import examples
from specs import (
    dlrover_type,
    elastic_job,
    kubeflow_job,
    replicas,
    scale_out,
    scale_plan,
    training_job,
    worker,
)
from world import World, stored_job

LONG = 4000.0
"""Seconds after which nothing is under way any more: the longest waits are over."""


def et(policy: str, launcher: str = "Never", **spec: Any) -> dict[str, Any]:
    job = training_job(replicas=3, **spec)
    worker(job)["restartPolicy"] = policy
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = launcher
    return job


def torch(policy: str, *, together: bool = False, **policies: Any) -> dict[str, Any]:
    types = {"Master": 1, "Worker": 2}
    return kubeflow_job("PyTorchJob", types, policy, together=together, runPolicy=policies)


def dlrover() -> dict[str, Any]:
    command = ["dlrover-run", "--nnodes=2:5", "train.py"]
    return elastic_job({"worker": dlrover_type(3, command=command)})


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
    "dlrover": dlrover(),
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
    st.tuples(st.just("scales"), st.integers(2, 5)),
    st.tuples(st.just("status lost")),
)


class Checked(World):
    """A world in which nobody takes away what should live, and no rank is run twice."""

    def __init__(self, kind: str, *, git: bool) -> None:
        self.kind = kind
        super().__init__(JOBS[kind], git=git)

    @property
    def over(self) -> bool:
        return self.status is not None and self.record.ended

    def act(self, action: Any) -> None:
        note(f"  {self.now:.1f} {action}")
        if isinstance(action, CreatePod | DeletePod):
            pod = self.pods.get(action.name)
            if pod is not None and pod.uid == action.uid:
                assert self.over or pod.phase == "Failed" or self._may_go(action), action
                assert action.uid not in self.deleted or pod.deleting, f"twice: {action}"
                if self.kind == "dlrover" and not self.over:
                    assert not pod.ended or pod.name in self.declared, f"{action}: its log"
        if isinstance(action, CreatePod):
            assert not self.over, f"after the end: {action}"
            assert self.kind != "dlrover" or not action.uid or "master" in action.role, action
            if action.undeclared is not None:
                rank = action.undeclared.place
                others = [pod for pod in self.pods.values() if pod.name != action.name]
                assert all(pod.ended for pod in others if pod.rank == rank), f"{action}: two"
        if isinstance(action, WriteStatus) and self.status is not None:
            assert not self.over, f"after the end: {action}"
            if action.record.config == self.record.config:
                assert action.record.restarts >= self.record.restarts
                for role, count in self.record.replaced.items():
                    assert action.record.replaced[role] >= count, "a counter fell"
        super().act(action)

    def _may_go(self, action: Any) -> bool:
        pod = self.pods[action.name]
        if action.name not in self.declared or self.kind == "dlrover":
            return True
        is_policy = self.job.roles[0].recovery.restart == "Always"
        return action.uid in self.record.gang or (
            is_policy and pod.phase in ("Succeeded", "Unknown")
        )

    def scale(self, count: int) -> None:
        documents = [JOBS[self.kind]]
        if self.kind == "dlrover":
            documents.append(scale_plan(replicaResourceSpecs={"worker": {"replicas": count}}))
        elif count > 3:
            documents.append(scale_out("more", count - 3))
        self.job, self.settings = stored_job(*documents)
        self.sync()


def operate(world: Checked, operation: tuple[Any, ...]) -> None:
    """Carry an operation out on a Pod of the world, if it is one that this job can meet."""
    name, *facts = operation
    is_ranked = world.kind == "dlrover"
    names = sorted(n for n, pod in world.pods.items() if pod.rank is not None or not is_ranked)
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
        case "scales" if world.kind in ("et, Always", "dlrover") and not world.over:
            world.scale(facts[0])
        case "status lost" if is_ranked and not world.over:
            world.status = None
            world.restart_watcher()


@examples(600)
@example(
    # Git brings the declared Pod back, and both that had followed it have ended.
    kind="dlrover",
    git=True,
    script=[
        (("fail", 0, 1), True),
        (("evict", 3), True),
        (("erase", 0), False),
        (("evict", 3), False),
    ],
)
@given(
    kind=st.sampled_from([*sorted(JOBS), "dlrover", "dlrover"]),
    git=st.booleans(),
    script=st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=12),
)
def test_any_faults_leave_a_job_as_declared_or_with_a_verdict(
    kind: str, git: bool, script: list[tuple[tuple[Any, ...], bool]]
) -> None:
    world = Checked(kind, git=git)
    for operation, settles in script:
        note(f"{world.now:.1f} {operation}")
        operate(world, operation)
        if settles:
            world.settle()
    note("quiet")
    for _ in range(3):
        world.wait(LONG)
        world.sync()
        world.get_ready()
    world.wait(LONG)
    assert_at_rest(world)


def assert_at_rest(world: Checked) -> None:
    record = world.record
    if record.ended:
        assert record.finished is not None
        assert record.phase == "Failed"
        return
    assert record.phase == "Running"
    left = {key for key, one in record.every_replica() if one.left}
    places = {pod.rank: pod for pod in world.pods.values() if pod.ready and pod.rank is not None}
    for role in world.job.roles:
        for member in role.members:
            name = role.pod_name(member)
            if role.recovery.relaunch:
                # Of whom nobody follows, whoever applies the job again may make another try.
                assert member.place in places or (role.name, member.place) in left
            elif (role.name, member.index) in left:
                assert role.recovery.comes_back == "policy"
            else:
                assert world.pods[name].ready, f"{name} is not Ready"
    if world.kind == "dlrover":
        ready = sorted(
            pod.rank for pod in world.pods.values() if pod.ready and pod.rank is not None
        )
        members = {member.place for role in world.job.roles for member in role.members}
        assert ready == sorted({*ready} & members), "one Pod of each rank, and of no other"
        return
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
