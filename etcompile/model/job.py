"""Model a training job: roles of replicas, the files they share, how they reach each other.

The values are neutral: a frontend says which volumes, environment, labels and files its kind
promises, and the backend says how Kubernetes spells them. The user's Pod templates stay the JSON
that the user wrote, because that is already what Kubernetes expects.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, field

from etcompile.diagnostics import Location, Source, ValuePath
from etcompile.model.settings import Services

Labels = Mapping[str, str]


class Origin(Struct, frozen=True):
    """The place in the input that a part of the model comes from."""

    source: Source
    path: ValuePath = ()

    def locate(self, *below: str | int, key: bool = False) -> Location:
        """Return the place in the file of a value below this one, or of its key."""
        return self.source.locate((*self.path, *below), key=key)

    def at(self, *below: str | int) -> "Origin":
        return Origin(self.source, (*self.path, *below))


class Bounds(Struct, frozen=True):
    """How many replicas an elastic role may have.

    Args:
        origin: Where `minReplicas` and `maxReplicas` are set, if not next to `replicas`.
        quorum: How many replicas a run needs before it can begin; None for the minimum.
        count: What the kind calls the number of replicas, if not `replicas`, and where it is set.
        others: Replicas of other roles that this number includes: a launcher that is a node.
        missing: The field of a bound that is not set; the field that is set then gives both.
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
        least, most = self.names
        if self.missing:
            number = count + self.others
            return f"add {self.missing}: {number} (without it, {least} stands for both)"
        return f"lower {least}" if count < self.minimum else f"raise {most}"


class Member(Struct, frozen=True):
    """One replica of a role.

    Args:
        index: Its number in the role, from 0; None for a role with a single, unnumbered Pod.
        rank: Its place in the training, if that is not its number: a replica that follows a failed
            one has a new number and the rank of its predecessor.
        relaunches: How many replicas had its rank before it.
        resources: Requests and limits of its main container, instead of the template's.
    """

    index: int | None = None
    labels: Labels = field(default_factory=dict)
    rank: int | None = None
    relaunches: int = 0
    resources: Labels = field(default_factory=dict)

    @property
    def place(self) -> int | None:
        """Return its place in the training; None for a role with a single, unnumbered Pod."""
        return self.index if self.rank is None else self.rank


class Port(Struct, frozen=True):
    """A port of a replica, in its Service or of its main container."""

    name: str
    number: int
    protocol: str = "TCP"


DLROVER_VERSION = "etcompile.dev/dlrover-version"
"""Annotation of an ElasticJob: the version of DLRover in its images."""

DLROVER_NEWEST = (0, 6)
"""The newest version of DLRover that was recorded, and the default."""

DOMAIN = "{domain}"
"""Stands for the domain of a host name, in variables and lines of host lists. Filled in late,
because it depends on the namespace and the layout of Services: `.NS.svc`."""

Which = Literal["all", "first", "others"]
"""All replicas of a role, the one with index 0, or all but that one."""


class Env(Struct, frozen=True):
    """An environment variable.

    Args:
        default: A variable of this name in the container takes precedence.
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
        rank: The value contains the replica's rank, not its index.
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
        items: Key, path in the volume and file mode (such as 0o444) of each file.
        live: The watcher's host lists take the place of files of the same names.
    """

    name: str
    items: tuple[tuple[str, str, int], ...] = ()
    live: bool = False


class Mount(Struct, frozen=True):
    """The path of a volume in a container."""

    volume: str
    path: str


class InitContainer(Struct, frozen=True):
    """A container that prepares the Pod before the main one starts.

    Args:
        image: `init` for the configured init image (the job's unless set), `kubectl` for the
            configured image that brings kubectl.
        resources: Requests, which are the limits too: resource name to quantity.
    """

    name: str
    image: Literal["init", "kubectl"]
    script: str
    mounts: tuple[Mount, ...]
    resources: Mapping[str, str]


class Resident(Struct, frozen=True):
    """A main container that only serves other replicas until the run is done.

    Args:
        ssh: It serves ssh; otherwise it waits for processes that come in by exec.
        keeps_args: Arguments without a command belong to the image, and the container runs those.
    """

    ssh: bool
    keeps_args: bool = False


class Gate(Struct, frozen=True):
    """The condition that a role awaits before its main container starts.

    Args:
        hosts: The file inside the gate's container with the hosts, one at the start of a line.
        ssh: Wait until each host's ssh port accepts a connection; otherwise until `kubexec` can
            run a command there, or until the name resolves.
        file: The key of the host list, if it belongs among the scripts.
        completed: Roles that must have succeeded first; the watcher reports it.
        itself: Its Pod is one of the hosts; for that one, wait until its name resolves.
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
        return (*self.completed, *(role for role in self.roles if role not in self.completed))


class BatchJob(Struct, frozen=True):
    """A replica that is a Kubernetes Job, which creates the Pod."""

    backoff_limit: int | None = None
    deadline: int | None = None


class Relaunch(Struct, frozen=True):
    """How a failed replica is followed by one of the same rank; the watcher acts on it.

    The new replica has the lowest number that no replica of the role ever had, counted from the
    role's maximum. So its Pod does not replace the failed one, whose logs stay, and scaling in Git
    never reaches the same number.

    Args:
        free: Exit codes that do not count against the limit; nor does a Pod that is gone.
        never: Exit codes, and reasons of containers, after which no replica follows.
        budget: How many replicas may fail in the run's life.
        pending: Seconds after which a Pod that is still Pending fails the run.
        tolerance: Which Pending Pods do so: `any`, `minimum` (only while fewer others run than the
            role needs) or `never`.
        memory: Factor for the memory of a replica that follows one that ran out of memory.
        joint: The replicas train as one: after the first success no replica follows another.
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
    """The PriorityClasses of a role's Pods, by rank.

    Args:
        first: How many of the lowest ranks have the class `high`.
    """

    first: int
    high: str
    low: str | None = None


class PodTemplate(Struct, frozen=True):
    """A role's Pod template, as the user wrote it.

    Args:
        main: The name of the container that trains; the others are sidecars.
        finalizers: Finalizers of its Pods, if the kind preserves them.
    """

    labels: Labels
    annotations: Labels
    spec: Mapping[str, Any]
    main: str
    origin: Origin
    finalizers: tuple[str, ...] = ()

    @property
    def main_container(self) -> Mapping[str, Any]:
        return next(c for c in self.spec["containers"] if c["name"] == self.main)

    @property
    def main_origin(self) -> Origin:
        names = [container["name"] for container in self.spec["containers"]]
        return self.origin.at("spec", "containers", names.index(self.main))

    @property
    def user(self) -> int | None:
        return self._security("runAsUser")

    @property
    def runs_as_root(self) -> bool:
        """Report whether the main container runs as root; the USER of an image is unknown here."""
        return not self._security("runAsNonRoot") if self.user is None else self.user == 0

    def _security(self, field: str) -> int | None:
        contexts = (self.main_container, self.spec)
        values = ((of.get("securityContext") or {}).get(field) for of in contexts)
        return next((value for value in values if value is not None), None)


class Naming(Struct, frozen=True):
    """The names of a role's replicas and their Pods.

    Args:
        stem: The name of its hosts without the index: `mnist-worker`.
        pod_stem: The name of its Pods without the index, if a run renames them.
        stable_address: Its Services have an address that stays when a Pod goes.
    """

    stem: str
    pod_stem: str | None = None
    service: str | None = None
    stable_address: bool = False


class RoleLabels(Struct, frozen=True):
    """The labels of a role's Pods and Services.

    Args:
        common: Labels of Pods and Services.
        pods: Labels of Pods only.
        leader: Labels of the Pod with index 0, but not of its Service.
        objects: Labels of Pods and Services that no selector uses.
        annotated: The Pods also have the index as an annotation of the same name.
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
    """The additions to the template of a role's Pods.

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
    """The consequences of a replica's end or failure.

    Args:
        restart: Which failed replicas are replaced: Always, OnFailure, ExitCode or Never.
        pod_restart: The Pods' restartPolicy: what the kubelet does about a container that ends.
        comes_back: What else brings a replica back: nothing but `restart` (`policy`), that its Pod
            is gone (`when-gone`), or any failure (`always`).
        vital: The run fails if one of its replicas fails and does not come back.
        deadline: Seconds after which its Pods fail.
        serves: The main container never ends by itself: end it when the run is done.
        failures: How many failures an attempt survives; None if only the run's limit counts.
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
        """Return the exit codes after which nothing restarts a command: all, 1 to 127, or none."""
        if self.restart == "Never":
            return "all"
        return "exit-code" if self.restart == "ExitCode" else None


class Role(Struct, frozen=True, dict=True):
    """Replicas that run the same template: launcher, worker, parameter server.

    Args:
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
        if self.bounds is None:
            return len(self.members)
        least = self.bounds.minimum if self.bounds.quorum is None else self.bounds.quorum
        return min(least, len(self.members))

    def host_name(self, member: Member) -> str:
        """Return the name by which others reach a replica, which is its Service's if it has one."""
        return self.naming.service or _numbered(self.naming.stem, member.place)

    def pod_name(self, member: Member) -> str:
        return _numbered(self.naming.pod_stem or self.naming.stem, member.index)

    @cached_property
    def pod_names(self) -> tuple[str, ...]:
        """Return the names of its Pods, in the order of its members: the watcher asks often."""
        return tuple(self.pod_name(member) for member in self.members)

    @property
    def is_resident(self) -> bool:
        """Report whether its main container runs our wrapper that serves until the run is done."""
        main = self.template.main_container
        if self.additions.resident is None or main.get("command"):
            return False
        return not (self.additions.resident.keeps_args and main.get("args"))

    def privileged_ssh_port(self, ssh: "SshCredentials | None") -> int | None:
        """Return the port below 1024 on which its sshd listens without being root, if it does."""
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
        key: Its key, both in the seed (`J-etcompile`) and in the live list (`J-hosts`).
        line: One line; `{host}`, `{slots}` and `{domain}` are filled in.
        live: It lists the hosts that are Ready; otherwise all that belong to the job.
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
        port: Where sshd listens; None if the image decides.
        owned: The Secret is created with the job; otherwise somebody else manages it.
        copied: The main containers do not run as root, so the keys are copied for their user.
        whole: The volume is mounted as a whole, not a folder of it.
        provider_class: The SecretProviderClass with which a CSI driver mounts the keys, if there is
            no Secret; the files have the names of the Secret's keys.
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
        return not self.roles or role in self.roles


class ClusterAccess(Struct, frozen=True):
    """The rights of a role's Pods in the Kubernetes API.

    Args:
        create_account: The ServiceAccount belongs to the job; otherwise it already exists.
        rules: RBAC rules, in the API's spelling; none means no Role is needed.
        exec_into: The only role whose Pods accept commands by exec.
        role: The name of the Role and its binding; None for `JOB-launcher`.
    """

    account: str
    create_account: bool
    rules: tuple[Mapping[str, Any], ...]
    exec_into: str | None = None
    role: str | None = None


class CustomResource(Struct, frozen=True):
    """An object of a foreign kind, which a program of the job reads from the cluster."""

    api_version: str
    kind: str
    name: str
    spec: Mapping[str, Any]
    labels: Labels = field(default_factory=dict)


class Claim(Struct, frozen=True):
    """A volume that Pods of the job share, and that survives them."""

    name: str
    spec: Mapping[str, Any]
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)


class Success(Struct, frozen=True):
    """When a run has succeeded.

    Args:
        needs: All replicas of the roles, any of them, or the one with index 0 (else all).
        least: How many are enough if the others have failed and will not be replaced.
    """

    roles: tuple[str, ...]
    needs: Literal["all", "any", "first"] = "all"
    least: int | None = None


class InPlace(Struct, frozen=True):
    """How a job's commands run again in the containers that they ran in.

    Args:
        stop: Seconds between the signals TERM and KILL for a command that is to run again.
        checkpoint_signal: The signal that a command gets before a disturbance of the run: `USR1`.
        port: The port on which the supervisors talk to each other and answer readiness probes.
    """

    mode: Literal["together", "each"]
    roles: tuple[str, ...]
    stop: int = 10
    checkpoint_signal: str | None = None
    port: int = 29999


class Preflight(Struct, frozen=True):
    """A check of the node that runs before a Pod's main container starts there.

    Args:
        command: A shell command in the main container's image: exit code 0 goes on, 10 warns, 20
            sends the Pod to another node.
    """

    command: str
    roles: tuple[str, ...]


class RunPolicy(Struct, frozen=True):
    """The policies of a run, on which the watcher acts.

    Args:
        restart: Restart the whole job when it fails: `OnFailure` or `Never`.
        deadline: Seconds after which the run fails; None for never.
        ttl: Seconds after its end when its remaining objects may go; None for never.
        together: One failed replica restarts all, because its peers cannot go on without it.
        limits: What `backoff_limit` limits: restarts of the whole job, or `failures` of replicas.
        keeps_clock: A restart of the whole job does not reset its deadline.
        keeps: Roles whose Pods stay when others are removed at the end.
        lost_node_after: Seconds without an answer of a node before its Pods are deleted by force.
        stuck_after: Seconds without a line in the logs after which the run counts as stuck, or
            only the silent replica, if others follow a failed one.
        avoid_nodes_after: How many Pods may fail by a node's fault before new ones avoid it.
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
        name: Its name, with which host names end.
        searched: Hosts have bare names, so Pods search its domain for them; otherwise their names
            end with the Service's.
    """

    name: str
    searched: bool = True


class GangOperator(Struct, frozen=True):
    """How the operator of a kind creates a gang of a job's Pods.

    The default is for kinds whose operators create no gangs.

    Args:
        copies_annotations: The PodGroup has all annotations of the job.
        replaces_scheduler: The gang scheduler's name replaces the one of a Pod template; otherwise
            the template's stays.
        leading_class: A PodGroup without a priority class gets that of the first role that has one,
            leading roles first; otherwise only one that all roles share.
        class_of: The role that gives a PodGroup its priority class, if one trains and others help.
    """

    copies_annotations: bool = False
    replaces_scheduler: bool = False
    leading_class: bool = True
    class_of: str | None = None


class Gang(Struct, frozen=True):
    """The requirements of a job for a gang scheduler, which starts all of its Pods or none.

    Which scheduler that is, if any, depends on the cluster and not on the job: it is a setting.

    Args:
        minimum: How many Pods must fit before any starts; None leaves it to the roles.
        min_resources: What must be free before any starts; None adds up what the Pods request.
        topology: How far apart its Pods may be in the network, in Volcano's terms.
        topology_label: The node label whose value must be the same for all its Pods.
        rigid: The declared run has no Pods beyond the minimum, whatever scaling adds.
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
        selector: Labels that all its Pods share, and no other Pod in the namespace has.
        document: The normalised document that it can be compiled from again.
        identity: What identifies a run: the document without anything that scaling changes.
        names_namespace: What in the output must name the namespace, if anything must.
        app: The value of `app.kubernetes.io/name`, if not its kind.
        keeps_plans: One of its programs reads ScalePlans from the cluster, so they stay objects.
        fixed: Why its replicas cannot be scaled, if a kind has a reason of its own.
        names_fewer: How to keep the names of all replicas out of its Pods, if that is possible.
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
        return next((role for role in self.roles if role.name == name), None)

    @property
    def has_bare_names(self) -> bool:
        """Report whether Pods search the domain of their Service, so that bare names resolve."""
        return self.service is None or self.service.searched

    def is_behind_one_service(self, services: Services) -> bool:
        if self.service is not None:
            return True
        served = any(role.ports and not role.naming.service for role in self.roles)
        return services == "shared" and served

    @property
    def scaled_role(self) -> Role | None:
        return next((role for role in self.roles if role.bounds is not None), None)
