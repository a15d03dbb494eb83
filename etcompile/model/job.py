"""What a training job is: roles of replicas, the files they share, how they reach each other.

The values are neutral: a frontend says which volumes, environment, labels and files its kind
promises, the backend says how Kubernetes spells them. The user's Pod templates are carried as
the JSON they wrote, because they already are what Kubernetes wants.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from etcompile.diagnostics import Location, Source, ValuePath
from etcompile.model.settings import Services

Labels = Mapping[str, str]


class Origin(Struct, frozen=True):
    """Where in the input a part of the model comes from."""

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
        origin: Where `minReplicas` and `maxReplicas` stand, if not beside `replicas`.
        quorum: How many a run needs before it can begin; None for the minimum.
        count: What the kind calls the number of replicas, if not `replicas`, and where it stands.
        others: Replicas of other roles in the numbers that people write: a launcher that is a node.
        missing: The field of a bound that is not set, where the other field stands for both.
    """

    minimum: int = 1
    maximum: int | None = None
    origin: Origin | None = None
    names: tuple[str, str] = ("minReplicas", "maxReplicas")
    quorum: int | None = None
    count: tuple[str, Origin] | None = None
    others: int = 0
    missing: str = ""

    def wider(self, count: int) -> str:
        """What allows `count` replicas, as a command: `raise maxReplicas`."""
        least, most = self.names
        if self.missing:
            number = count + self.others
            return f"add {self.missing}: {number} (without it, {least} stands for both)"
        return f"lower {least}" if count < self.minimum else f"raise {most}"


class Member(Struct, frozen=True):
    """One replica of a role.

    Args:
        index: Its number in the role, from 0; None for a role with a single, unnumbered Pod.
        rank: Its place in the training, where that is not its number: who follows a failed
            replica has a number of its own and the rank of the one before.
        relaunches: How many replicas of its rank came before it.
        resources: What its main container asks for and may have, instead of the template's.
    """

    index: int | None = None
    labels: Labels = field(default_factory=dict)
    rank: int | None = None
    relaunches: int = 0
    resources: Labels = field(default_factory=dict)

    @property
    def place(self) -> int | None:
        """Its place in the training; None for a role with a single, unnumbered Pod."""
        return self.index if self.rank is None else self.rank


class Port(Struct, frozen=True):
    """A port of a replica, in its Service or of its main container."""

    name: str
    number: int
    protocol: str = "TCP"


DLROVER_VERSION = "etcompile.dev/dlrover-version"
"""Annotation of an ElasticJob: which version of DLRover runs in its images."""

DLROVER_NEWEST = (0, 6)
"""The newest version of DLRover that was recorded, which is assumed if nothing says another."""

DOMAIN = "{domain}"
"""In a variable or a line of a host list: where a host name needs its domain. Filled in late,
because it depends on the namespace and on how Services are laid out: `.NS.svc`."""

Which = Literal["all", "first", "others"]
"""All replicas of a role, the one with index 0, or all but that one."""


class Env(Struct, frozen=True):
    """An environment variable.

    Args:
        default: A container's own variable of this name counts instead.
        field: The field of the Pod that it holds instead of a value: `status.podIP`.
    """

    name: str
    value: str = ""
    of: Which = "all"
    default: bool = False
    field: str = ""


class IndexedEnv(Struct, frozen=True):
    """An environment variable whose value contains the replica's index.

    Args:
        parts: The texts between which the index stands: `("a", "b")` is `a0b`, `a1b` and so on;
            may contain `DOMAIN`.
        rank: The replica's rank stands there, not its index.
    """

    name: str
    parts: tuple[str, ...]
    offset: int = 0
    default: bool = False
    rank: bool = False


Variable = Env | IndexedEnv


class Volume(Struct, frozen=True):
    """A volume of files from the job's ConfigMap, or one that starts empty and ends with its Pod.

    Args:
        items: The files: key, path in the volume, file mode (such as 0o444); none if it is empty.
    """

    name: str
    items: tuple[tuple[str, str, int], ...] = ()


class Mount(Struct, frozen=True):
    """Where a container sees a volume."""

    volume: str
    path: str


class InitContainer(Struct, frozen=True):
    """A container that prepares the Pod before the main one starts.

    Args:
        image: The image; `init` for the configured init image (the job's own unless set),
            `kubectl` for the configured image that brings kubectl.
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
        hosts: The list of their hosts inside the gate's container: lines that begin with a name.
        ssh: Wait until each host's ssh port accepts; else until `kubexec` can run a command there,
            or until its name resolves.
        file: The key of the host list, where it is to be put among the scripts.
        completed: Roles that must have succeeded before; the watcher says when.
        itself: Its Pod is among the hosts: of that, wait until its name resolves.
    """

    roles: tuple[str, ...]
    hosts: str
    timeout: int
    mounts: tuple[Mount, ...] = ()
    ssh: bool = False
    kubexec: str | None = None
    name: str = "wait-for-workers"
    file: str | None = None
    port: int | None = None
    completed: tuple[str, ...] = ()
    itself: bool = False

    @property
    def awaited(self) -> tuple[str, ...]:
        """All roles that it waits for, in one way or the other."""
        return (*self.completed, *(role for role in self.roles if role not in self.completed))


class BatchJob(Struct, frozen=True):
    """A replica that is a Kubernetes Job, which makes the Pod."""

    backoff_limit: int | None = None
    deadline: int | None = None


class Relaunch(Struct, frozen=True):
    """How a failed replica is followed by one of the same rank; carried for the watcher.

    Who follows has the next number that no replica of the role ever had, from the most that the
    role may have on: so its Pod stands beside the failed one, whose logs stay, and scaling in Git
    does not come to the same number.

    Args:
        free: Exit codes of ends that do not count against the limit, nor does a Pod that is gone.
        never: Exit codes, and reasons of containers, after which none follows.
        budget: How many replicas may fail in the run's life.
        pending: Seconds after which a Pod that is still Pending fails the run.
        tolerance: When such a Pod does: `any` (each does), `minimum` (only with fewer others
            running than the least that the role goes on with) or `never`.
        memory: Who follows a replica that ran out of memory may have so many times as much.
        joint: The replicas train as one: once one of them is done, nobody follows another.
    """

    limit: int
    free: tuple[int, ...] = ()
    never: tuple[int | str, ...] = ()
    budget: int | None = None
    pending: int | None = None
    tolerance: Literal["any", "minimum", "never"] = "minimum"
    memory: int | None = None
    joint: bool = False


class Priority(Struct, frozen=True):
    """The PriorityClass of a role's Pods, by their ranks.

    Args:
        first: So many of them, by rank, have the first class.
    """

    first: int
    high: str
    low: str | None = None


class PodTemplate(Struct, frozen=True):
    """A role's Pod template, as the user wrote it.

    Args:
        main: The name of the container that trains; the others are sidecars.
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

    @property
    def main_origin(self) -> Origin:
        """Where the container that trains stands."""
        names = [container["name"] for container in self.spec["containers"]]
        return self.origin.at("spec", "containers", names.index(self.main))

    @property
    def user(self) -> int | None:
        """The user ID that the main container runs as; None if its image decides."""
        return self._security("runAsUser")

    @property
    def runs_as_root(self) -> bool:
        """Whether the main container runs as root; an image's own USER cannot be seen from here."""
        return not self._security("runAsNonRoot") if self.user is None else self.user == 0

    def _security(self, field: str) -> int | None:
        contexts = (self.main_container, self.spec)
        values = ((of.get("securityContext") or {}).get(field) for of in contexts)
        return next((value for value in values if value is not None), None)


class Naming(Struct, frozen=True):
    """What the replicas of a role and their Pods are called.

    Args:
        stem: What its hosts are named, without the index: `mnist-worker`.
        pod_stem: What its Pods are named instead, where a run gives them names of their own.
        stable_address: Its Services have an address of their own, which stays when a Pod goes.
    """

    stem: str
    pod_stem: str | None = None
    service: str | None = None
    stable_address: bool = False


class RoleLabels(Struct, frozen=True):
    """The labels of a role's Pods and Services.

    Args:
        common: Of all its Pods and Services.
        pods: Of all its Pods, but not of their Services.
        leader: Of the Pod with index 0, but not of its Service.
        objects: Of all its Pods and Services, but nothing is selected by them.
        annotated: An annotation of the Pods with the name of that label carries the index too.
    """

    common: Labels
    pods: Labels = field(default_factory=dict)
    leader: Labels = field(default_factory=dict)
    objects: Labels = field(default_factory=dict)
    index: str | None = None
    index_offset: int = 0
    annotated: bool = False
    rank: str | None = None
    relaunch: str | None = None


class PodAdditions(Struct, frozen=True):
    """What the Pods of a role get beside their template.

    Args:
        env: Added to the main container; replaces an entry of the same name.
        env_everywhere: The sidecars get these variables, too.
        resident: What the main container does when the template gives no command.
        run_once: Guard the main container's command against running a finished job again.
    """

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
    service_account: str | None = None
    priority: Priority | None = None


class Recovery(Struct, frozen=True):
    """What happens when a replica of a role ends or fails.

    Args:
        restart: Which failed replicas are replaced: Always, OnFailure, ExitCode or Never.
        pod_restart: What the kubelet does about a container that ends: its Pods' restartPolicy.
        comes_back: What else brings a replica back: nothing but `restart` (`policy`), that its Pod
            is gone (`when-gone`), or any failure (`always`).
        vital: One of its replicas that failed and does not come back fails the run.
        deadline: Seconds after which its Pods fail.
        serves: What the main container runs never ends: end it when the run is done.
        failures: How many failures an attempt survives; None if only the run's own limit counts.
    """

    restart: str = "Never"
    pod_restart: str = "Never"
    comes_back: Literal["policy", "when-gone", "always"] = "policy"
    vital: bool = True
    deadline: int | None = None
    serves: bool = False
    relaunch: Relaunch | None = None
    failures: int | None = None

    @property
    def permanent(self) -> Literal["all", "exit-code"] | None:
        """Which exit codes of a command nothing restarts: all, 1 to 127 (`ExitCode`), or none."""
        if self.restart == "Never":
            return "all"
        return "exit-code" if self.restart == "ExitCode" else None


class Role(Struct, frozen=True):
    """Replicas that run the same template: launcher, worker, parameter server.

    Args:
        ports: Ports of each replica's Service; none means no Service.
        anchored: How many of the lowest indexes scaling in must leave alone, and why.
    """

    name: str
    naming: Naming
    labels: RoleLabels
    members: tuple[Member, ...]
    template: PodTemplate
    origin: Origin
    ports: tuple[Port, ...] = ()
    additions: PodAdditions = PodAdditions()
    recovery: Recovery = Recovery()
    bounds: Bounds | None = None
    anchored: tuple[int, str] | None = None
    batch: BatchJob | None = None

    @property
    def quorum(self) -> int:
        """How many of its replicas a run needs before it can begin."""
        if self.bounds is None:
            return len(self.members)
        wanted = self.bounds.minimum if self.bounds.quorum is None else self.bounds.quorum
        return min(wanted, len(self.members))

    def host_name(self, member: Member) -> str:
        """The name by which others reach a replica, and that of its Service if it has one."""
        return self.naming.service or _numbered(self.naming.stem, member.place)

    def pod_name(self, member: Member) -> str:
        """The name of a replica's Pod."""
        return _numbered(self.naming.pod_stem or self.naming.stem, member.index)

    @property
    def is_resident(self) -> bool:
        """Whether its main container runs our wrapper that serves until the run is done."""
        main = self.template.main_container
        if self.additions.resident is None or main.get("command"):
            return False
        return not (self.additions.resident.keeps_args and main.get("args"))

    def privileged_ssh_port(self, ssh: "SshCredentials | None") -> int | None:
        """The port below 1024 on which its sshd listens without being root, if it does."""
        resident = self.additions.resident
        if not (ssh and resident and resident.ssh) or self.template.runs_as_root:
            return None
        port = ssh.port or (22 if self.is_resident else None)
        return port if port and port < _FIRST_UNPRIVILEGED_PORT else None


_FIRST_UNPRIVILEGED_PORT = 1024


def _numbered(stem: str, number: int | None) -> str:
    return stem if number is None else f"{stem}-{number}"


class ConfigFile(Struct, frozen=True):
    """A file of the job's ConfigMap that is rendered from a template.

    Args:
        template: The template's name in `templates/`, without `.j2`.
    """

    key: str
    template: str
    values: Mapping[str, object] = field(default_factory=dict)


class HostList(Struct, frozen=True):
    """A file of the job's ConfigMap that lists a role's hosts, one line each.

    Args:
        key: Its key, in the seed (`J-etcompile`) and in the live list (`J-hosts`) alike.
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
        files: Key in the Secret, file under the mount path.
        mount_path: Where `ssh` looks for them: the home's `.ssh`.
        port: Where sshd listens; None where that is up to the image.
        owned: The job's own: created with it. Else somebody else manages it.
        copied: The main containers do not run as root, so the keys are copied for their user.
        whole: The volume is mounted as a whole, not a folder of it.
        provider_class: The SecretProviderClass by which a CSI driver mounts them, where there is
            no Secret; the files it mounts are named as the keys of one.
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
    provider_class: str | None = None
    modes: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[str, ...] = ()

    def is_for(self, role: str) -> bool:
        """Whether the Pods of a role have it."""
        return not self.roles or role in self.roles


class ClusterAccess(Struct, frozen=True):
    """What a role's Pods may do with the Kubernetes API.

    Args:
        create_account: Whether it is the job's own; else it exists already.
        rules: RBAC rules, in the API's spelling; none means no Role is needed.
        exec_into: The role into whose Pods, and no others, commands may be sent.
        role: The name of the Role and its binding; None for `JOB-launcher`.
    """

    account: str
    create_account: bool
    rules: tuple[Mapping[str, Any], ...]
    exec_into: str | None = None
    role: str | None = None


class CustomResource(Struct, frozen=True):
    """An object of a kind of somebody else's, that a program of the job reads from the cluster."""

    api_version: str
    kind: str
    name: str
    spec: Mapping[str, Any]
    labels: Labels = field(default_factory=dict)


class Claim(Struct, frozen=True):
    """A volume that Pods of the job share, and that keeps its data when they are gone."""

    name: str
    spec: Mapping[str, Any]
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)


class Success(Struct, frozen=True):
    """When a run has succeeded.

    Args:
        needs: All of their replicas, any of them, or the one with index 0 (or else all).
        least: So many are enough where the others have failed and none follows them.
    """

    roles: tuple[str, ...]
    needs: Literal["all", "any", "first"] = "all"
    least: int | None = None


class InPlace(Struct, frozen=True):
    """How a job's commands run again in the containers that they ran in.

    Args:
        stop: Seconds that a command has between the signals TERM and KILL when it is to run again.
        checkpoint_signal: What a command is sent when the run is about to be disturbed: `USR1`.
        port: The port on which the supervisors talk to each other and answer readiness probes.
    """

    mode: Literal["together", "each"]
    roles: tuple[str, ...]
    stop: int = 10
    checkpoint_signal: str | None = None
    port: int = 29999


class Preflight(Struct, frozen=True):
    """What is asked on a node before a Pod's main container starts there.

    Args:
        command: What a shell runs in the main container's image: it ends with 0 to go on, 10 to
            warn, 20 to have the Pod go to another node.
    """

    command: str
    roles: tuple[str, ...]


class RunPolicy(Struct, frozen=True):
    """What is to happen around a run; carried for the watcher, none of it is decided here.

    Args:
        restart: Restart the whole job when it fails: `OnFailure` or `Never`.
        deadline: Seconds after which the run fails; None for never.
        ttl: Seconds after its end when what is left of it may go; None for never.
        together: One failed replica restarts all, because its peers cannot go on without it.
        limits: What `backoff_limit` limits: restarts of the whole job, or `failures` of replicas.
        keeps_clock: A restart of the whole job does not begin its deadline anew.
        keeps: Roles whose Pods stay when others are removed at the end.
        lost_node_after: Seconds for which a node may not answer until its Pods are deleted by
            force.
        stuck_after: Seconds without a word in the logs after which the run counts as stuck, or
            where others follow a replica, that one.
        avoid_nodes_after: How often Pods may fail on a node by its fault until new ones avoid it.
        run_id: The ID of the run that its document asks for, or `auto`.
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
    limits: Literal["restarts", "failures"] = "restarts"
    keeps_clock: bool = False
    keeps: tuple[str, ...] = ()
    in_place: InPlace | None = None
    lost_node_after: int | None = None
    avoid_nodes_after: int | None = None
    stuck_after: int | None = None
    run_id: str | None = None


class SharedService(Struct, frozen=True):
    """The one Service of a kind that has no Service per replica, whatever the settings say.

    Args:
        name: What it is called, and host names end with.
        searched: Hosts are called by their bare names, so that Pods search its domain for them;
            else by names that end with the Service's.
    """

    name: str
    searched: bool = True


class GangOperator(Struct, frozen=True):
    """What the operator of a kind does when it makes a gang of a job's Pods.

    The default is for kinds whose operators make no gangs.

    Args:
        copies_annotations: All annotations of the job are on its PodGroup.
        replaces_scheduler: Its scheduler's name replaces the one of a Pod template; else the
            template keeps its own.
        leading_class: Without a priority class of its own, a PodGroup has that of the first role
            that has one, the leading roles first; else only one that all roles have.
        class_of: The role whose priority class a PodGroup has, where one trains and others help.
    """

    copies_annotations: bool = False
    replaces_scheduler: bool = False
    leading_class: bool = True
    class_of: str | None = None


class Gang(Struct, frozen=True):
    """What a job asks of a gang scheduler, which starts all of its Pods or none.

    Which scheduler that is, if any, is the cluster's business and not the job's: a setting.

    Args:
        minimum: How many Pods must fit before any starts; None leaves it to the roles.
        min_resources: What must be free before any starts; None adds up what the Pods request.
        topology: How far apart its Pods may be in the network, in Volcano's own words.
        topology_label: The label of nodes that all its Pods' nodes must have the same value of.
        rigid: The run as declared has no Pods beyond the minimum, whatever scaling adds.
    """

    minimum: int | None = None
    queue: str | None = None
    priority_class: str | None = None
    min_resources: Mapping[str, str | int] | None = None
    timeout: int | None = None
    on_timeout: Literal["fail", "best-effort"] | None = None
    topology: Mapping[str, Any] | None = None
    topology_label: str | None = None
    rigid: bool = False
    queue_priority: str | None = None
    extra_queue_priority: str | None = None
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    operator: GangOperator = field(default_factory=GangOperator)
    origins: Mapping[str, Origin] = field(default_factory=dict)


class Job(Struct, frozen=True):
    """A training job.

    Args:
        roles: Its roles, in the order in which they start.
        selector: Labels that all its Pods share, and no other Pod in the namespace has.
        slots: Processes per worker.
        document: The document it was made from, normalised: enough to make it again.
        identity: What makes a run this run: the document without anything that scaling changes.
        names_namespace: What in the output must name the namespace, if anything must.
        app: What it says in `app.kubernetes.io/name`, if not its kind.
        keeps_plans: One of its programs reads ScalePlans from the cluster, so they stay objects.
        fixed: Why its replicas cannot be scaled, if there is more to say than that.
        names_fewer: How its Pods need not be told of all replicas, if that can be had.
    """

    name: str
    namespace: str | None
    kind: str
    api_version: str
    roles: tuple[Role, ...]
    selector: Labels
    run: RunPolicy
    config_name: str
    document: Mapping[str, Any]
    identity: Mapping[str, Any]
    origin: Origin
    labels: Labels = field(default_factory=dict)
    files: tuple[ConfigFile, ...] = ()
    host_lists: tuple[HostList, ...] = ()
    slots: int = 1
    access: ClusterAccess | None = None
    credentials: SshCredentials | None = None
    service: SharedService | None = None
    names_namespace: str | None = None
    gang: Gang = field(default_factory=Gang)
    run_id: str | None = None
    app: str | None = None
    custom: tuple[CustomResource, ...] = ()
    claims: tuple[Claim, ...] = ()
    keeps_plans: bool = False
    fixed: str | None = None
    preflight: Preflight | None = None
    names_fewer: str | None = None

    def role(self, name: str) -> Role | None:
        """The role of that name, if the job has it."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def has_bare_names(self) -> bool:
        """Whether Pods search the domain of their Service, so that bare names resolve."""
        return self.service is None or self.service.searched

    def is_behind_one_service(self, services: Services) -> bool:
        """Whether one Service has all its replicas behind it."""
        if self.service is not None:
            return True
        served = any(role.ports and not role.naming.service for role in self.roles)
        return services == "shared" and served

    @property
    def scaled_role(self) -> Role | None:
        """The role that ScaleOut and ScaleIn act on, if there is one."""
        return next((role for role in self.roles if role.bounds is not None), None)
