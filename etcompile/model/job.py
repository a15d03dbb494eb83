"""What a training job is: roles of replicas, the files they share, how they reach each other.

The values are neutral: a frontend says which volumes, environment, labels and files its kind
promises, the backend says how Kubernetes spells them. The user's Pod templates are carried as
the JSON they wrote, because they already are what Kubernetes wants.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from etcompile.diagnostics import Location, Source, ValuePath

Labels = Mapping[str, str]


class Origin(Struct, frozen=True):
    """Where in the input a part of the model comes from.

    Args:
        source: The document.
        path: The place inside it.
    """

    source: Source
    path: ValuePath = ()

    def locate(self, *below: str | int, key: bool = False) -> Location:
        """The place in the file of the value `below` this one, or of its key."""
        return self.source.locate((*self.path, *below), key=key)

    def at(self, *below: str | int) -> "Origin":
        """The origin of the value `below` this one."""
        return Origin(self.source, (*self.path, *below))


class Bounds(Struct, frozen=True):
    """How many replicas an elastic role may have.

    Args:
        minimum: The fewest, at least 1.
        maximum: The most; None for no limit.
    """

    minimum: int = 1
    maximum: int | None = None


class Member(Struct, frozen=True):
    """One replica of a role.

    Args:
        index: Its number in the role, from 0; None for a role with a single, unnumbered Pod.
        labels: Labels that only this replica's Pod carries.
    """

    index: int | None = None
    labels: Labels = field(default_factory=dict)


class Port(Struct, frozen=True):
    """A port of a replica's Service."""

    name: str
    number: int


class Env(Struct, frozen=True):
    """An environment variable of the main container."""

    name: str
    value: str


class EmptyDir(Struct, frozen=True):
    """A volume that starts empty and lives as long as its Pod."""

    name: str


class ConfigMapVolume(Struct, frozen=True):
    """A volume of files from the job's ConfigMap.

    Args:
        name: The volume's name.
        items: The files: key, path in the volume, file mode (such as 0o444).
    """

    name: str
    items: tuple[tuple[str, str, int], ...]


Volume = EmptyDir | ConfigMapVolume


class Mount(Struct, frozen=True):
    """Where a container sees a volume."""

    volume: str
    path: str


class InitContainer(Struct, frozen=True):
    """A container that prepares the Pod before the main one starts.

    Args:
        name: Its name.
        image: The image; `init` for the configured init image (the job's own unless set),
            `kubectl` for the configured image that brings kubectl.
        script: What `sh -c` runs.
        mounts: The volumes it sees.
        resources: Requests, which are the limits too: resource name to quantity.
    """

    name: str
    image: Literal["init", "kubectl"]
    script: str
    mounts: tuple[Mount, ...]
    resources: Mapping[str, str]


class Resident(Struct, frozen=True):
    """A main container without work of its own: it serves others until the run is done.

    Args:
        ssh: It serves ssh; else it only waits (processes come in by exec).
    """

    ssh: bool


class Gate(Struct, frozen=True):
    """What a role waits for before its main container starts.

    Args:
        hosts: The seed host list inside the gate's container: `NAME:SLOTS` lines.
        mounts: The volumes that the gate needs to see it.
        ssh: Wait until each host's ssh port accepts; else until a command can be run there.
        timeout: Seconds until the gate gives up and the Pod fails.
        kubexec: The script that runs a command on a host, when not by ssh.
    """

    hosts: str
    mounts: tuple[Mount, ...]
    ssh: bool
    timeout: int
    kubexec: str | None = None


class PodTemplate(Struct, frozen=True):
    """A role's Pod template, as the user wrote it.

    Args:
        labels: Its labels.
        annotations: Its annotations.
        spec: Its PodSpec, JSON.
        main: The name of the container that trains; the others are sidecars.
        origin: Where it stands.
    """

    labels: Labels
    annotations: Labels
    spec: Mapping[str, Any]
    main: str
    origin: Origin

    @property
    def main_container(self) -> Mapping[str, Any]:
        """The container that trains."""
        return next(c for c in self.spec["containers"] if c["name"] == self.main)


class Role(Struct, frozen=True):
    """Replicas that run the same template: launcher, worker, parameter server.

    Args:
        name: The role, in the kind's own words.
        stem: What its hosts are named, without the index: `mnist-worker`.
        members: Its replicas, by index.
        template: Their Pod template.
        labels: Labels of all its Pods and Services.
        index_label: The label that carries the index, if the kind has one.
        ports: Ports of each replica's Service; none means no Service.
        env: Added to the main container; replaces an entry of the same name.
        volumes: Added to the Pod.
        mounts: Added to the main container.
        setup: Init containers that run before the template's own.
        gate: What it waits for, after all init containers.
        resident: What the main container does when the template gives no command.
        run_once: Guard the main container's command against running a finished job again.
        service_account: The account its Pods run as; None leaves the template's.
        bounds: How far it scales; None if it does not.
        restart: Which failed replicas are replaced: Always, OnFailure, ExitCode or Never.
        pod_stem: What its Pods are named instead, where a run gives them names of their own.
        origin: Where it stands.
    """

    name: str
    stem: str
    members: tuple[Member, ...]
    template: PodTemplate
    labels: Labels
    origin: Origin
    index_label: str | None = None
    ports: tuple[Port, ...] = ()
    env: tuple[Env, ...] = ()
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    setup: tuple[InitContainer, ...] = ()
    gate: Gate | None = None
    resident: Resident | None = None
    run_once: bool = False
    service_account: str | None = None
    bounds: Bounds | None = None
    restart: str = "Never"
    pod_stem: str | None = None

    def host_name(self, member: Member) -> str:
        """The name by which others reach a replica, and that of its Service if it has one."""
        return _numbered(self.stem, member)

    def pod_name(self, member: Member) -> str:
        """The name of a replica's Pod."""
        return _numbered(self.pod_stem or self.stem, member)


def _numbered(stem: str, member: Member) -> str:
    return stem if member.index is None else f"{stem}-{member.index}"


class ConfigFile(Struct, frozen=True):
    """A file of the job's ConfigMap that is rendered from a template.

    Args:
        key: Its key.
        template: The template's name in `templates/`, without `.j2`.
        values: The template's variables.
    """

    key: str
    template: str
    values: Mapping[str, object] = field(default_factory=dict)


class HostList(Struct, frozen=True):
    """A file of the job's ConfigMap that lists a role's hosts, one line each.

    Args:
        key: Its key, in the seed (`J-config`) and in the live list (`J-hosts`) alike.
        role: The role it lists.
        line: One line; `{host}` and `{slots}` are filled in.
    """

    key: str
    role: str
    line: str


class SshCredentials(Struct, frozen=True):
    """The ssh key pair of a job.

    Args:
        secret: The Secret's name.
        files: Key in the Secret, file under the mount path.
        mount_path: Where `ssh` looks for them: the home's `.ssh`.
        port: Where sshd listens.
        owned: The job's own: created with it. Else somebody else looks after it.
        copied: The main containers do not run as root, so the keys are copied for their user.
        config: The client configuration that belongs into a created Secret.
    """

    secret: str
    files: tuple[tuple[str, str], ...]
    mount_path: str
    port: int
    owned: bool
    copied: bool
    config: str


class ClusterAccess(Struct, frozen=True):
    """What a role's Pods may do with the Kubernetes API.

    Args:
        account: The ServiceAccount.
        create_account: Whether it is the job's own; else it exists already.
        rules: RBAC rules, in the API's spelling; none means no Role is needed.
    """

    account: str
    create_account: bool
    rules: tuple[Mapping[str, Any], ...]


class RunPolicy(Struct, frozen=True):
    """What is to happen around a run; carried for the watcher, none of it is decided here.

    Args:
        restart: Restart the whole job when it fails: `OnFailure` or `Never`.
        backoff_limit: How many such restarts.
        clean_pods: Which Pods to remove at the end: `Running`, `All` or `None`.
        suspended: Run nothing for now.
    """

    restart: str
    backoff_limit: int
    clean_pods: str
    suspended: bool = False


class Job(Struct, frozen=True):
    """A training job.

    Args:
        name: Its name, a DNS label.
        namespace: Its namespace; None leaves that to whoever applies the output.
        kind: The kind it was written as.
        api_version: That kind's API version.
        roles: Its roles, in the order in which they start.
        labels: Labels of the objects that belong to no replica.
        selector: Labels that all its Pods share, and no other Pod in the namespace has.
        run: What happens around the run.
        config_name: The ConfigMap with its files.
        files: Rendered files of that ConfigMap.
        host_lists: Host lists of that ConfigMap.
        slots: Processes per worker.
        access: Rights at the API; None if the kind creates no account.
        credentials: The ssh key pair, if its Pods speak ssh.
        document: The document it was made from, normalised: enough to make it again.
        identity: What makes a run this run: the document without anything that scaling changes.
        origin: Where it stands.
        run_id: Which run of the job this is; None for the one without an ID.
    """

    name: str
    namespace: str | None
    kind: str
    api_version: str
    roles: tuple[Role, ...]
    labels: Labels
    selector: Labels
    run: RunPolicy
    config_name: str
    files: tuple[ConfigFile, ...]
    host_lists: tuple[HostList, ...]
    slots: int
    access: ClusterAccess | None
    credentials: SshCredentials | None
    document: Mapping[str, Any]
    identity: Mapping[str, Any]
    origin: Origin
    run_id: str | None = None

    def role(self, name: str) -> Role | None:
        """The role of that name, if the job has it."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def scaled_role(self) -> Role | None:
        """The role that ScaleOut and ScaleIn act on, if there is one."""
        return next((role for role in self.roles if role.bounds is not None), None)
