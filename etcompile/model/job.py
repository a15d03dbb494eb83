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
        origin: Where `minReplicas` and `maxReplicas` stand, if not beside `replicas`.
    """

    minimum: int = 1
    maximum: int | None = None
    origin: Origin | None = None


class Member(Struct, frozen=True):
    """One replica of a role.

    Args:
        index: Its number in the role, from 0; None for a role with a single, unnumbered Pod.
        labels: Labels that only this replica's Pod carries.
    """

    index: int | None = None
    labels: Labels = field(default_factory=dict)


class Port(Struct, frozen=True):
    """A port of a replica, in its Service or of its main container."""

    name: str
    number: int
    protocol: str = "TCP"


DOMAIN = "{domain}"
"""In a variable or a line of a host list: where a host name needs its domain. Filled in late,
because it depends on the namespace and on how Services are laid out: `.NS.svc`."""

Which = Literal["all", "first", "others"]
"""All replicas of a role, the one with index 0, or all but that one."""


class Env(Struct, frozen=True):
    """An environment variable.

    Args:
        name: Its name.
        value: Its value; may contain `DOMAIN`.
        of: The replicas that have it.
        default: A container's own variable of this name counts instead.
    """

    name: str
    value: str
    of: Which = "all"
    default: bool = False


class IndexedEnv(Struct, frozen=True):
    """An environment variable whose value contains the replica's index.

    Args:
        name: Its name.
        parts: The texts between which the index stands: `("a", "b")` is `a0b`, `a1b` and so on;
            may contain `DOMAIN`.
        offset: What is added to the index.
        default: A container's own variable of this name counts instead.
    """

    name: str
    parts: tuple[str, ...]
    offset: int = 0
    default: bool = False


class FieldEnv(Struct, frozen=True):
    """An environment variable with a field of the Pod.

    Args:
        name: Its name.
        field: The field's path, such as `status.podIP`.
        of: The replicas that have it.
    """

    name: str
    field: str
    of: Which = "all"


Variable = Env | IndexedEnv | FieldEnv


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
        keeps_args: Arguments without a command are the image's: the container runs those then.
    """

    ssh: bool
    keeps_args: bool = False


class Gate(Struct, frozen=True):
    """What a role waits for before its main container starts.

    Args:
        roles: The roles that it waits for.
        hosts: The list of their hosts inside the gate's container: lines that begin with a name.
        mounts: The volumes that the gate needs to see it.
        ssh: Wait until each host's ssh port accepts; else until a command can be run there, or
            until its name resolves.
        timeout: Seconds until the gate gives up and the Pod fails.
        kubexec: The script that runs a command on a host, when not by ssh.
        name: The init container's name.
        file: The key of the host list, where it is to be put among the scripts.
    """

    roles: tuple[str, ...]
    hosts: str
    mounts: tuple[Mount, ...]
    ssh: bool
    timeout: int
    kubexec: str | None = None
    name: str = "wait-for-workers"
    file: str | None = None


class BatchJob(Struct, frozen=True):
    """A replica that is a Kubernetes Job, which makes the Pod.

    Args:
        backoff_limit: How often it tries again; None for Kubernetes' own default.
        deadline: Seconds until it gives up; None for never.
    """

    backoff_limit: int | None = None
    deadline: int | None = None


class PodTemplate(Struct, frozen=True):
    """A role's Pod template, as the user wrote it.

    Args:
        labels: Its labels.
        annotations: Its annotations.
        spec: Its PodSpec, JSON.
        main: The name of the container that trains; the others are sidecars.
        origin: Where it stands.
        finalizers: What must happen before its Pods go, where the kind keeps those.
    """

    labels: Labels
    annotations: Labels
    spec: Mapping[str, Any]
    main: str
    origin: Origin
    finalizers: tuple[str, ...] = ()

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
        index_offset: What is added to the index in that label.
        pod_labels: Labels of all its Pods, but not of their Services.
        leader_labels: Labels of the Pod with index 0, but not of its Service.
        ports: Ports of each replica's Service; none means no Service.
        main_ports: Added to the ports of the main container.
        env: Added to the main container; replaces an entry of the same name.
        env_everywhere: The sidecars get these variables, too.
        volumes: Added to the Pod.
        mounts: Added to the main container.
        reads_hosts: The main container sees the live host lists.
        scripts: Keys of the job's ConfigMap that the main container needs among the scripts.
        setup: Init containers that run before the template's own.
        gate: What it waits for, after all init containers.
        resident: What the main container does when the template gives no command.
        run_once: Guard the main container's command against running a finished job again.
        serves: What the main container runs never ends: end it when the run is done.
        service_account: The account its Pods run as; None leaves the template's.
        bounds: How far it scales; None if it does not.
        anchored: How many of the lowest indexes scaling in must leave alone, and why.
        restart: Which failed replicas are replaced: Always, OnFailure, ExitCode or Never.
        pod_restart: What the kubelet does about a container that ends: its Pods' restartPolicy.
        deadline: Seconds after which its Pods fail; None for never.
        batch: It is a Job of Kubernetes, which makes the Pod; None for a plain Pod.
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
    index_offset: int = 0
    pod_labels: Labels = field(default_factory=dict)
    leader_labels: Labels = field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    main_ports: tuple[Port, ...] = ()
    env: tuple[Variable, ...] = ()
    env_everywhere: bool = False
    volumes: tuple[Volume, ...] = ()
    mounts: tuple[Mount, ...] = ()
    reads_hosts: bool = False
    scripts: tuple[str, ...] = ()
    setup: tuple[InitContainer, ...] = ()
    gate: Gate | None = None
    resident: Resident | None = None
    run_once: bool = False
    serves: bool = False
    service_account: str | None = None
    bounds: Bounds | None = None
    anchored: tuple[int, str] | None = None
    restart: str = "Never"
    pod_restart: str = "Never"
    deadline: int | None = None
    batch: BatchJob | None = None
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
        roles: The roles it lists, in order.
        line: One line; `{host}`, `{slots}` and `{domain}` are filled in.
        live: It follows the hosts that are there; else it is only who belongs to the job.
    """

    key: str
    roles: tuple[str, ...]
    line: str
    live: bool = True


class SshCredentials(Struct, frozen=True):
    """The ssh key pair of a job.

    Args:
        secret: The Secret's name.
        files: Key in the Secret, file under the mount path.
        mount_path: Where `ssh` looks for them: the home's `.ssh`.
        port: Where sshd listens; None where that is up to the image.
        owned: The job's own: created with it. Else somebody else looks after it.
        copied: The main containers do not run as root, so the keys are copied for their user.
        config: The client configuration that belongs into a created Secret; None for none.
        secret_type: The type of a created Secret.
        private_key: The key in the Secret of the private half.
        public_key: The key in the Secret of the public half.
        volume: The volume's name, if the kind has one; else the Secret's.
        whole: The volume is mounted as a whole, not a folder of it.
        mode: The mode of its files; None for Kubernetes' own default.
    """

    secret: str
    files: tuple[tuple[str, str], ...]
    mount_path: str
    port: int | None
    owned: bool
    copied: bool
    config: str | None
    secret_type: str = "Opaque"  # noqa: S105 - a type of Secret
    private_key: str = "id_rsa"
    public_key: str = "id_rsa.pub"
    volume: str | None = None
    whole: bool = False
    mode: int | None = 0o600


class ClusterAccess(Struct, frozen=True):
    """What a role's Pods may do with the Kubernetes API.

    Args:
        account: The ServiceAccount.
        create_account: Whether it is the job's own; else it exists already.
        rules: RBAC rules, in the API's spelling; none means no Role is needed.
        exec_into: The role into whose Pods, and no others, commands may be sent.
    """

    account: str
    create_account: bool
    rules: tuple[Mapping[str, Any], ...]
    exec_into: str | None = None


class Success(Struct, frozen=True):
    """When a run has succeeded.

    Args:
        roles: The roles that decide.
        needs: All of their replicas, any of them, or the one with index 0 (or else all).
    """

    roles: tuple[str, ...]
    needs: Literal["all", "any", "first"] = "all"


class RunPolicy(Struct, frozen=True):
    """What is to happen around a run; carried for the watcher, none of it is decided here.

    Args:
        restart: Restart the whole job when it fails: `OnFailure` or `Never`.
        backoff_limit: How many restarts; None for no limit.
        clean_pods: Which Pods to remove at the end: `Running`, `All` or `None`.
        success: When it has succeeded.
        suspended: Run nothing for now.
        suspended_by: Where the input says so.
        deadline: Seconds after which the run fails; None for never.
        ttl: Seconds after its end when what is left of it may go; None for never.
        together: One failed replica restarts all, because its peers cannot go on without it.
    """

    restart: str
    backoff_limit: int | None
    clean_pods: str
    success: Success
    suspended: bool = False
    suspended_by: ValuePath = ("metadata", "annotations")
    deadline: int | None = None
    ttl: int | None = None
    together: bool = False


class SharedService(Struct, frozen=True):
    """The one Service of a kind that has no Service per replica, whatever the settings say.

    Args:
        name: Its name.
    """

    name: str


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
        service: The kind's own one Service for all replicas, if it has one.
        names_namespace: What in the output must name the namespace, if anything must.
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
    service: SharedService | None = None
    names_namespace: str | None = None
    run_id: str | None = None

    def role(self, name: str) -> Role | None:
        """The role of that name, if the job has it."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def scaled_role(self) -> Role | None:
        """The role that ScaleOut and ScaleIn act on, if there is one."""
        return next((role for role in self.roles if role.bounds is not None), None)
