"""Diagnostics about a job's specification: 2xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.UNKNOWN_FIELD,
        "unknown-field",
        _ERROR,
        "{where} has no field '{field}'",
        "{advice}",
        "A misspelt field is silently dropped by an operator whose CRD does not know it, and the"
        " job runs with a default. Here it is an error.",
        "spec:\n  slotPerWorker: 2      # slotsPerWorker",
    ),
    Rule(
        codes.MISSING_FIELD,
        "missing-field",
        _ERROR,
        "{where} needs '{field}'",
        "{advice}",
        "The field has no default. et-operator crashes without several of these, for every job"
        " in the cluster.",
        "worker:\n  template: …           # replicas is missing",
    ),
    Rule(
        codes.REPLICAS_ABOVE_MAX,
        "replicas-above-max",
        _ERROR,
        "{where} {replicas} is above {most} {maximum}",
        "raise {most} or lower {where}",
        "maxReplicas is the ceiling for scale-outs; starting above it contradicts it."
        " et-operator never reads the field.",
        "worker: {replicas: 12, maxReplicas: 9}",
    ),
    Rule(
        codes.REPLICAS_BELOW_MIN,
        "replicas-below-min",
        _ERROR,
        "{where} {replicas} is below {least} {minimum}",
        "lower {least} or raise {where}",
        "minReplicas is the floor for scale-ins; starting below it contradicts it.",
        "worker: {replicas: 1, minReplicas: 2}",
    ),
    Rule(
        codes.MIN_ABOVE_MAX,
        "min-above-max",
        _ERROR,
        "{where}: {least} {minimum} is above {most} {maximum}",
        "swap or correct the two",
        "No number of replicas satisfies both.",
        "worker: {replicas: 2, minReplicas: 4, maxReplicas: 2}",
    ),
    Rule(
        codes.WRONG_TYPE,
        "wrong-type",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The value has another type than the field. YAML reads 'yes', 'on' and 010 as a boolean"
        " or a number; quote what is meant as text.",
        'replicas: "2"            # replicas: 2',
    ),
    Rule(
        codes.NOT_ALLOWED,
        "not-allowed",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The field takes a fixed set of values. et-operator acts on an unknown one as if it were"
        " Never, None or neither mode.",
        "cleanPodPolicy: running        # Running",
    ),
    Rule(
        codes.OUT_OF_RANGE,
        "out-of-range",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The number is outside what the field can mean.",
        "slotsPerWorker: 0",
    ),
    Rule(
        codes.MALFORMED,
        "malformed",
        _ERROR,
        "{where} '{found}' is not {expected}",
        "{advice}",
        "The text does not have the form that the field needs.",
        "metadata: {name: My_Job}",
    ),
    Rule(
        codes.EMPTY,
        "empty",
        _ERROR,
        "{where} must not be empty",
        "{advice}",
        "The list or text needs at least one entry. An empty container list crashes et-operator"
        " for every job in the cluster.",
        "containers: []",
    ),
    Rule(
        codes.UNKNOWN_VERSION,
        "unknown-version",
        _ERROR,
        "etcompile does not know version {version} of {kind}",
        "{advice}",
        "The kind is known, but not in this API version; its fields may mean other things. The hint"
        " names what reads differently in versions that an operator once had.",
        "apiVersion: kai.alibabacloud.com/v2\nkind: TrainingJob",
    ),
    Rule(
        codes.INVALID,
        "invalid",
        _ERROR,
        "{where}: {problem}",
        "{advice}",
        "The value contradicts the schema of its kind; `etcompile schema KIND` prints it.",
        "see `etcompile schema TrainingJob`",
    ),
    Rule(
        codes.UNKNOWN_KIND,
        "unknown-kind",
        _ERROR,
        "etcompile does not know a kind '{kind}' of {group}",
        "{advice}",
        "A misspelt kind of a group that is compiled would otherwise pass through as somebody"
        " else's object, and the job or intent would be missing.",
        "apiVersion: kai.alibabacloud.com/v1alpha1\nkind: Scaleout      # ScaleOut",
    ),
    Rule(
        codes.ACCELERATORS_NONE,
        "accelerators-none",
        _ERROR,
        "{where} is {found}: a worker needs at least one slot",
        "ask for at least one GPU, or set slotsPerWorker",
        "Without slotsPerWorker the GPU limit of a worker is its number of slots; a host with no"
        " slots takes no process, and the launcher waits for ever.",
        'resources: {limits: {nvidia.com/gpu: "0"}}',
    ),
    Rule(
        codes.JOB_NAME,
        "job-name",
        _ERROR,
        "job name '{name}' is not a DNS label: {problem}",
        "use lower-case letters, digits and '-'; start with a letter, end with a letter or digit",
        "The job's name becomes the name of Services and volumes, which must be DNS labels"
        " (RFC 1035). With et-operator such a job is Failed at once with a 422.",
        "metadata: {name: bert.v2}      # bert-v2",
    ),
    Rule(
        codes.NAME_TOO_LONG,
        "name-too-long",
        _ERROR,
        "'{name}' has {length} characters; at most {limit} are allowed",
        "shorten {what} by {excess}{advice}",
        "Pod and Service names of workers are DNS labels of at most 63 characters, also for the"
        " highest index that a scale-out may ever allocate.",
        "metadata: {name: a-very-long-name-…}",
    ),
    Rule(
        codes.LAUNCHER_ARGUMENTS,
        "launcher-arguments",
        _WARNING,
        "{program} {flag} {value} does not fit: {problem}",
        "{advice}",
        "The launcher's numbers of processes are compared with workers times slots. A job that"
        " asks for more than it can ever have waits until its elastic timeout (600 s) and fails.",
        "horovodrun -np 8 … with 2 workers of 1 slot",
    ),
    Rule(
        codes.TWO_HOSTS,
        "two-hosts",
        _WARNING,
        "horovodrun waits for two hosts, and this job starts with {replicas} worker",
        "add --network-interfaces to horovodrun, or start with two workers",
        "The elastic driver finds common network interfaces by comparing two hosts; with one host"
        " and no --network-interfaces it times out.",
        "worker: {replicas: 1}",
    ),
    Rule(
        codes.MUTABLE_IMAGE,
        "mutable-image",
        _WARNING,
        "image '{image}' can change under the same name",
        "pin a version tag or, better, a digest",
        "A replaced worker would run another image than its peers. Tags such as latest move.",
        "image: horovod/horovod:latest",
    ),
    Rule(
        codes.NO_EFFECT,
        "no-effect",
        _WARNING,
        "{where} has no effect: {reason}",
        "{advice}",
        "The field is accepted, as the operator accepts it, but nothing depends on it.",
        "backoffLimit: 3        # of a ScaleOut: never read",
    ),
    Rule(
        codes.OVERWRITTEN,
        "overwritten",
        _WARNING,
        "{where} '{name}' is overwritten: {reason}",
        "{advice}",
        "The labels by which a job finds its Pods replace those of the template, as with the"
        " operator.",
        "labels: {training-job-role: mine}",
    ),
    Rule(
        codes.ASSUMED_NAMESPACE,
        "assumed-namespace",
        _WARNING,
        "job '{job}' names no namespace, and {reason}: 'default' is assumed",
        "set metadata.namespace or pass --namespace",
        "A RoleBinding's subject and a DNS search domain contain the namespace in writing, so it"
        " cannot be left to the moment of `kubectl apply`.",
        "launcherAttachMode: kubexec without metadata.namespace",
    ),
    Rule(
        codes.NO_RUN_ONCE_GUARD,
        "no-run-once-guard",
        _WARNING,
        "{where} has no command, so a finished run starts again if its Pod is deleted",
        "write the command into the container's spec",
        "The command that trains is wrapped to end at once when the run is already done. With only"
        " the image's entrypoint there is nothing to wrap.",
        "containers: [{name: main, image: trainer:1}]",
    ),
    Rule(
        codes.NON_ROOT_SSH,
        "non-root-ssh",
        _ERROR,
        "{where} does not run as root, so ssh cannot use the keys in {path}",
        "annotate the job: etcompile.dev/ssh-mount-path: /home/USER/.ssh",
        "ssh reads keys from the home directory of the user it runs as, and refuses keys that"
        " others can read. et-operator always mounts them for root.",
        "securityContext: {runAsUser: 1000} with launcherAttachMode: ssh",
    ),
    Rule(
        codes.SUSPENDED,
        "suspended",
        _WARNING,
        "job '{job}' is suspended: its Pods and Services are left out",
        "remove {field} to run it",
        "A suspended job keeps its configuration and runs nothing. Unlike with et-operator,"
        " removing its annotation resumes it.",
        'annotations: {job-supervisor.kube-ai.io/job-suspended: "true"}',
    ),
    Rule(
        codes.RESERVED_NAME,
        "reserved-name",
        _ERROR,
        "{where} '{name}' is reserved: the compiled Pods use it",
        "choose another {what}",
        "The compiled Pod adds volumes, mounts and init containers of these names or paths; the"
        " API server would refuse the Pod.",
        "volumes: [{name: training-job-config, …}]",
    ),
    Rule(
        codes.NO_MAIN_CONTAINER,
        "no-main-container",
        _ERROR,
        "annotation kubectl.kubernetes.io/default-container names '{name}', which is no container",
        "use one of: {known}",
        "The annotation says which container trains; the others are sidecars.",
        "annotations: {kubectl.kubernetes.io/default-container: trainr}",
    ),
    Rule(
        codes.PROBABLY_SIDECAR,
        "probably-sidecar",
        _WARNING,
        "container '{first}' is assumed to be the trainer, but '{other}' runs {program}",
        "annotate the template: kubectl.kubernetes.io/default-container: {other}",
        "The first container is the trainer unless the template says otherwise; with a sidecar"
        " first, et-operator sets up the wrong container.",
        "containers: [{name: log-shipper}, {name: trainer, command: [horovodrun, …]}]",
    ),
    Rule(
        codes.ANNOTATION_VALUE,
        "annotation-value",
        _ERROR,
        "annotation {name} must be {expected}, not '{found}'",
        "{advice}",
        "The annotation changes how the job is compiled, and only a value of this form is valid.",
        "annotations: {etcompile.dev/gate-timeout: soon}",
    ),
    Rule(
        codes.VARIABLE_TOO_LONG,
        "variable-too-long",
        _WARNING,
        "environment variable {variable} of {role} has {size} KiB; Linux allows at most 128 KiB",
        "{advice}",
        "Kubernetes takes a variable of any length, and Linux does not: with pages of 4 KiB, one"
        " may have 128 KiB with its name, else the container fails to start, with `argument list"
        " too long`. A list of all replicas in every Pod gets there with some thousand of them.",
        "kind: TFJob with tfReplicaSpecs: {Worker: {replicas: 4000, …}}",
    ),
    Rule(
        codes.PLAIN_CREDENTIAL,
        "plain-credential",
        _WARNING,
        "{where} holds {what}, in plain text",
        "{advice}",
        "What stands in a job's specification stands in Git, in its history, in every Pod and in"
        " whatever logs either. A credential is known by its form (`ghp_…`, `hf_…`, `AKIA…`: the"
        " patterns of detect-secrets, and those of Hugging Face) or by the name of what holds it"
        " (`AWS_SECRET_ACCESS_KEY`, `WANDB_API_KEY`, `--password`). References such as `$(TOKEN)`,"
        " placeholders and paths of files are none. The value is not shown. Revoke one that was"
        " pushed: it stays in the history.",
        "env: [{name: HF_TOKEN, value: hf_...}]"
        "   # valueFrom: {secretKeyRef: {name: hf, key: token}}",
    ),
    Rule(
        codes.FOREIGN_MANAGER,
        "foreign-manager",
        _ERROR,
        "this job is managed by '{manager}', and not by {own}",
        "remove managedBy, set skip-managed-by to leave such jobs out, or ignore-managed-by to"
        " compile them anyway",
        "runPolicy.managedBy names the controller that manages a job. A job of another controller"
        " would run twice: once under that controller, and once as compiled.",
        "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}",
    ),
    Rule(
        codes.REPLICA_TYPE_TWICE,
        "replica-type-twice",
        _ERROR,
        "replica type '{name}' is defined twice: first as '{first}'",
        "keep one of them",
        "The casing of this type does not count. The operator keeps one of the two, silently.",
        "tfReplicaSpecs: {Worker: …, worker: …}",
    ),
    Rule(
        codes.NO_SUCH_CONTAINER,
        "no-such-container",
        _ERROR,
        "{kind} needs a container named '{container}'; the containers here are: {names}",
        "rename the container that runs the training",
        "The operator finds the container that trains by its name, and so does its webhook.",
        "kind: TFJob with containers: [{name: main, …}]",
    ),
    Rule(
        codes.TWO_CHIEFS,
        "two-chiefs",
        _ERROR,
        "a TFJob can have a Chief or a Master, not both",
        "remove one of the two types",
        "Both names mean the replica that decides when the job is done; the operator's webhook"
        " refuses"
        " a job with both.",
        "tfReplicaSpecs: {Chief: …, Master: …}",
    ),
    Rule(
        codes.NEVER_SUCCEEDS,
        "never-succeeds",
        _WARNING,
        "nothing decides when job '{job}' has succeeded: it has no Worker, Chief or Master",
        "add the type that trains",
        "Parameter servers and evaluators serve for ever; with the operator such a job never ends.",
        "tfReplicaSpecs: {PS: …}",
    ),
    Rule(
        codes.PROCESSES_TWICE,
        "processes-twice",
        _ERROR,
        "elasticPolicy.nProcPerNode must not be used with spec.nprocPerNode",
        "remove the deprecated elasticPolicy.nProcPerNode",
        "Both set how many processes torchrun starts; the webhook refuses both.",
        'nprocPerNode: "2" with elasticPolicy: {nProcPerNode: 2}',
    ),
    Rule(
        codes.NO_AUTOSCALING,
        "no-autoscaling",
        _WARNING,
        "elasticPolicy.metrics has no effect: an autoscaler needs a custom resource to scale",
        "scale {job} with a ScaleOut or ScaleIn of etcompile.dev/v1alpha1 beside it",
        "A HorizontalPodAutoscaler changes the replicas of the PyTorchJob object, which does not"
        " exist here. Scaling is a file in Git, reviewed like any other change.",
        "elasticPolicy: {metrics: [{type: Resource, …}]}",
    ),
    Rule(
        codes.PROCESS_PER_PROCESSOR,
        "process-per-processor",
        _WARNING,
        "torchrun starts one process for each processor of the node: {where} has no GPU limit",
        'set spec.nprocPerNode, for example "1"',
        "Without nprocPerNode the operator says `auto`, and without a GPU torchrun counts the"
        " processors of the node, not those the Pod may use.",
        "command: [torchrun, train.py] without nprocPerNode",
    ),
    Rule(
        codes.NOBODY_TRAINS,
        "nobody-trains",
        _ERROR,
        "job '{job}' would run nothing: its end is up to {where}, which has no replicas",
        "give it replicas, or suspend the job with runPolicy.suspend: true",
        "Without a replica of the type that decides, the operator either calls such a job a success"
        " at once, or makes Pods and deletes them until it has failed.",
        "jaxReplicaSpecs: {Worker: {replicas: 0, …}}",
    ),
    Rule(
        codes.NO_RENDEZVOUS,
        "no-rendezvous",
        _WARNING,
        "elasticPolicy.{field} keeps the workers from finding each other: {reason}",
        "{advice}",
        "Torchrun finds the other workers at the rendezvous. If each worker has a rendezvous of"
        " its own, each trains alone; if nobody serves the rendezvous, none starts.",
        "elasticPolicy: {standalone: true, maxReplicas: 4}",
    ),
    Rule(
        codes.ASSUMED_DLROVER_VERSION,
        "assumed-dlrover-version",
        _WARNING,
        "the DLRover version of job '{job}' is not given: {version} is assumed",
        "tag its image with the version, annotate it with etcompile.dev/dlrover-version, or set"
        " dlrover-version in etcompile.toml",
        "What DLRover's master reads, is told and sets differs from version to version. The version"
        " is read from the tag of an image that is called after DLRover, the master's first.",
        "image: registry.example.com/dlrover:latest     # dlrover:v0.6.1",
    ),
    Rule(
        codes.PRIORITY_CLASS,
        "priority-class",
        _WARNING,
        "{where} needs {names} in the cluster",
        "create what is missing, or name an existing one in the template's priorityClassName",
        "DLRover writes the words high and low as they are into the Pods. Where such a class is"
        " missing the API server refuses the Pods, which upstream's master tries for ever without"
        " a word.",
        "worker: {priority: high, …}",
    ),
    Rule(
        codes.RENDEZVOUS_UNKNOWN,
        "rendezvous-unknown",
        _WARNING,
        "the number of nodes cannot be read from the worker's command: it {seen}",
        "give --nnodes as numbers, or annotate the job, for example {name}: '3:4'",
        "A master that was started again knows nothing of --nnodes until an agent starts, and may"
        " let a single surviving worker go on alone. So it is told by a"
        " script of its own, if the number is known. The bounds of scaling are not known either.",
        "command: [bash, -c, 'dlrover-run --nnodes=$NODES train.py']",
    ),
    Rule(
        codes.TYPE_OF_OTHER_STRATEGY,
        "type-of-other-strategy",
        _ERROR,
        "a job with AllreduceStrategy can only have workers; remove '{where}'",
        "or use distributionStrategy: ParameterServerStrategy",
        "Parameter servers, chief and evaluator belong to TensorFlow's ParameterServerStrategy.",
        "distributionStrategy: AllreduceStrategy with replicaSpecs: {worker: …, ps: …}",
    ),
    Rule(
        codes.PARAMETER_SERVERS_HOW,
        "parameter-servers-how",
        _WARNING,
        "job '{job}' needs DLRover's own master, which reads the ElasticJob from the cluster: its"
        " CRD must be installed there",
        "annotate the job with etcompile.dev/parameter-servers: master to confirm this, or static"
        " if"
        " the script does not use DLRover's scaling",
        "With parameter servers, scaling and the recovery of data shards are the work of DLRover's"
        " own master, which wants a custom resource and rights on Pods in its namespace. A script"
        " that asks for none of it needs no master: its Pods are rendered, with a TF_CONFIG.",
        "distributionStrategy: ParameterServerStrategy",
    ),
    Rule(
        codes.NO_PARAMETER_SERVERS,
        "no-parameter-servers",
        _ERROR,
        "ParameterServerStrategy {said}, but there is no 'ps' in replicaSpecs",
        "write distributionStrategy: AllreduceStrategy, or add the parameter servers",
        "DLRover's master takes a job without distributionStrategy for one with parameter servers,"
        " and ends with a KeyError when there are none.",
        "spec: {replicaSpecs: {worker: …}}",
    ),
    Rule(
        codes.NEEDS_DLROVER_MASTER,
        "needs-dlrover-master",
        _ERROR,
        "{where} runs with {flag}, which waits for DLRover's master for ever",
        "remove the flag, or annotate the job with etcompile.dev/parameter-servers: master",
        "Scripts with this flag ask the master for the parameter servers until it knows them; a"
        " static job has no master.",
        "annotations: {etcompile.dev/parameter-servers: static} with --enable_auto_scaling=True",
    ),
    Rule(
        codes.SIZED_BY_DLROVER,
        "sized-by-dlrover",
        _WARNING,
        "{where}.autoScale lets DLRover's master size the Pods, and it gives them no memory",
        "set autoScale: false, and set replicas and resources in the job",
        "Its first plan divides resourceLimits in bytes where megabytes are meant: the Pods get"
        " 0Mi. Only parameter servers keep their requests, from 2 CPUs and 1024Mi on.",
        "ps: {autoScale: true, …}",
    ),
    Rule(
        codes.GANG_SIZE,
        "gang-size",
        _ERROR,
        "the gang of this job cannot start: {problem}",
        "{advice}",
        "A gang scheduler holds all Pods until as many as its minimum are there and fit. With a"
        " minimum above what is rendered it does so for ever, and most of them say nothing.",
        "schedulingPolicy: {minAvailable: 5}   # of a job with 4 Pods",
    ),
    Rule(
        codes.GANG_NAME,
        "gang-name",
        _ERROR,
        "{scheduler} does not accept the {what} '{name}'",
        "it must be {expected}",
        "Names of gangs and queues end up in labels and in objects, which have forms of their own.",
        "schedulingPolicy: {queue: research}   # with YuniKorn, which wants root.research",
    ),
    Rule(
        codes.GANG_MIXED,
        "gang-mixed",
        _ERROR,
        "the Pods of one gang have different values of {field}: {values}",
        "give all of them the same value",
        "A gang is in one namespace and has one scheduler. With several, each of them sees a part"
        " of"
        " the gang, and waits for the rest. Kubernetes' own gangs have one priority too, and are"
        " rejected"
        " with several; other schedulers take them (ET2100).",
        "a launcher with schedulerName: default-scheduler, and workers without one",
    ),
    Rule(
        codes.GANG_NO_REQUESTS,
        "gang-no-requests",
        _WARNING,
        "these containers have no resource requests: {where}",
        "set their requests, or limits",
        "A scheduler that reserves room for a whole gang counts requests. A Pod without any needs"
        " no room, so that the gang starts where it does not fit; Volcano even counts such a Pod"
        " as running while it is pending.",
        "containers: [{name: main, image: example.com/trainer:1}]   # with --gang volcano",
    ),
    Rule(
        codes.GANG_SHAPES,
        "gang-shapes",
        _WARNING,
        "Pod '{pod}' differs from the other Pods of its role {role}",
        "give all Pods of the role the same requests, ports, node selectors and affinities",
        "These schedulers look at one Pod of a role and take the others to be like it: one that"
        " needs more may wait for ever in a gang that has started, or keep one from starting that"
        " fits.",
        "patches: [{target: {kind: Pod, name: mnist-worker-1}, patch: …}]   # more memory for one",
    ),
    Rule(
        codes.GANG_KUEUE,
        "gang-kueue",
        _ERROR,
        "Kueue would not admit this job: {problem}",
        "{advice}",
        "Kueue waits until a group has exactly as many Pods as each of them says, and admits no"
        " Pod of a name that it has seen. A run with an ID has names of its own.",
        "etcompile render job.yaml --gang kueue   # without --run",
    ),
    Rule(
        codes.GANG_VOLCANO,
        "gang-volcano",
        _ERROR,
        "PodGroup '{group}' would not work as written: {problem}",
        "change it in the overlay that patches it",
        "Volcano skips the minima of all roles, without a word, unless they add up to minMember.",
        "patches: [{target: {kind: PodGroup}, patch: {spec: {minMember: 2}}}]",
    ),
    Rule(
        codes.GANG_NATIVE,
        "gang-native",
        _ERROR,
        "Kubernetes would not start this gang: {problem}",
        "{advice}",
        "Gangs of Kubernetes itself have another form in each version so far, and an API server"
        " that does not know the field of the Pod drops it: the Pods start one by one, and nobody"
        " is told. So the version must be said.",
        "etcompile render job.yaml --gang native   # without the setting kubernetes-version",
    ),
    Rule(
        codes.GANG_YUNIKORN,
        "gang-yunikorn",
        _ERROR,
        "YuniKorn would not keep this gang together: {problem}",
        "leave its annotations to etcompile, or patch all Pods alike",
        "Every Pod tells YuniKorn of the whole gang. It takes the sizes from the first Pod,"
        " creates a placeholder of that size for each Pod, and does not keep the room for a Pod"
        " that is larger.",
        "patches: [{target: {kind: Pod, role: worker}, patch: …}]   # more memory than it says",
    ),
    Rule(
        codes.GANG_KAI,
        "gang-kai",
        _ERROR,
        "PodGroup '{group}' would not work as written: {problem}",
        "change it in the overlay that patches it",
        "KAI counts the minima of subgroups only, and leaves out Pods of a subgroup it does not"
        " know.",
        "patches: [{target: {kind: PodGroup}, patch: {spec: {minMember: 3}}}]",
    ),
    Rule(
        codes.GANG_WAVES,
        "gang-waves",
        _ERROR,
        "the gang would wait for Pods that are not created yet: {objects}",
        "remove the wave annotations from the Pod templates",
        "A tool creates the next wave when the Pods of the last one run, and the gang scheduler"
        " starts none before all that it counts are there: each waits for the other. The MPI"
        " Operator has this deadlock with launcherCreationPolicy: WaitForWorkersReady. Here the"
        " launcher waits inside its Pod.",
        'launcher: {template: {metadata: {annotations: {argocd.argoproj.io/sync-wave: "200"}}}}',
    ),
    Rule(
        codes.GANG_LEADER,
        "gang-leader",
        _WARNING,
        "{scheduler} may start {count} Pods without '{pod}', which the run depends on: it takes"
        " {first} first",
        "raise the minimum, or choose a scheduler that knows roles",
        "Without a minimum for each role, Pods are taken in the order of their names. A gang that"
        " starts without the Pod that leads it holds its nodes, and does nothing.",
        "schedulingPolicy: {minAvailable: 2}   # of a TFJob with two PS and two Workers",
    ),
    Rule(
        codes.GANG_FIELD,
        "gang-field",
        _WARNING,
        "{field} has no effect with {scheduler}: {reason}",
        "remove it, unless another cluster needs it",
        "Schedulers differ in what they can be told. The operators ignore what theirs cannot use.",
        "schedulingPolicy: {queue: research}   # with --gang coscheduling",
    ),
    Rule(
        codes.QUEUED_ONE_BY_ONE,
        "queued-one-by-one",
        _WARNING,
        "the Pods of {role} have the label {label}: Kueue admits each of them on its own",
        "compile with --gang kueue and put the label on the job itself, or remove it",
        "Kueue knows Pods as one job by further labels, which only --gang kueue writes. Without"
        " them it gives quota to some Pods of a job and none to others, which then wait for each"
        " other.",
        "template: {metadata: {labels: {kueue.x-k8s.io/queue-name: research}}}",
    ),
    Rule(
        codes.SSH_PORTS_DISAGREE,
        "ssh-ports-disagree",
        _WARNING,
        "the ssh ports of job '{job}' are not the same: {ports}",
        "use one port everywhere, or name it in the annotation {name}: the launcher waits for port"
        " {port} of each worker now",
        "The launcher starts when every worker's sshd accepts connections. Its port is read from"
        " the annotation, else from the workers' sshd command, from the arguments that the launcher"
        " gives to ssh, and from the port that the workers probe or expose, in this order. A"
        " launcher that waits for a port on which nothing listens fails after"
        " etcompile.dev/gate-timeout.",
        "command: [/usr/sbin/sshd, -D, -p, '2222']   # and: mpirun -mca plm_rsh_args '-p 2022'",
    ),
    Rule(
        codes.TOO_LARGE_FOR_CLIENT_SIDE_APPLY,
        "too-large-for-client-side-apply",
        _WARNING,
        "{what} is too large for kubectl apply without --server-side: its annotations would have"
        " {size} KiB of at most {limit} KiB",
        "apply it with 'kubectl apply --server-side', with 'etcompile apply', or with Flux; for"
        " Argo CD compile with --profile argocd, which sets ServerSideApply=true on it",
        "Client-side apply keeps a copy of each object, as JSON, in its annotation"
        " kubectl.kubernetes.io/last-applied-configuration, and Kubernetes refuses an object with"
        " more than 256 KiB of annotations. The ConfigMap of a job names its hosts, so the job's"
        " grows beyond that with some thousands of workers. Server-side apply keeps no copy.",
        "worker: {replicas: 10000}",
    ),
    Rule(
        codes.TOO_LARGE_TO_STORE,
        "too-large-to-store",
        _ERROR,
        "{what} has {size} KiB: the API server stores objects of at most {limit} KiB",
        "make the job smaller, or the object itself",
        "Kubernetes stores each object in one request to etcd, which takes 1.5 MiB unless it is"
        " configured otherwise. A larger object is refused when it is applied.",
        "kind: Role   # whose rules name 100,000 Pods",
    ),
    Rule(
        codes.GANG_PRIORITIES,
        "gang-priorities",
        _WARNING,
        "the Pods of one gang have different PriorityClasses: {values}",
        "give all of them the same, unless {scheduler} is meant to order the Pods inside the gang",
        "A gang starts as a whole, and then its Pods are preempted one by one: those of a lower"
        " priority go first, and the others cannot go on without them. Volcano and coscheduling"
        " order the Pods inside a group by their own priority, and the operators make such jobs.",
        "a launcher with priorityClassName: urgent, and workers with priorityClassName: usual",
    ),
    Rule(
        codes.GANG_OTHER_SCHEDULER,
        "gang-other-scheduler",
        _WARNING,
        "schedulerName '{found}' of {roles} is not the name of {scheduler}: these Pods are not"
        " scheduled as a gang",
        "{advice}",
        "Only the scheduler that schedulerName names looks at a Pod. The Training Operator leaves"
        " the name of a Pod template alone and writes a Warning event, and so the Pods start one by"
        " one beside a PodGroup that nobody waits for.",
        "template: {spec: {schedulerName: default-scheduler}}   # with --gang volcano",
    ),
    Rule(
        codes.GANG_SCHEDULER_REPLACED,
        "gang-scheduler-replaced",
        _WARNING,
        "schedulerName '{found}' of {role} is replaced by '{wanted}'",
        "remove schedulerName from the Pod template, or compile without --gang",
        "With a gang scheduler the MPI Operator overwrites the schedulerName of every Pod template,"
        " and tells only its log. All Pods of a gang must have the same scheduler.",
        "template: {spec: {schedulerName: default-scheduler}}   # of an MPIJob v2beta1",
    ),
    Rule(
        codes.GANG_QUEUES,
        "gang-queues",
        _WARNING,
        "{where} names the queue '{queue}', but the gang waits in '{used}', which {by} names",
        "name the same queue in both places, or remove one of them",
        "A gang waits in one queue. An annotation of etcompile's own counts first, then what the"
        " scheduler itself reads from the job, then schedulingPolicy.queue, then the Pod templates;"
        " for Volcano, schedulingPolicy.queue counts before its annotation.",
        "labels: {kai.scheduler/queue: research}   # and schedulingPolicy: {queue: other}",
    ),
    Rule(
        codes.SCHEDULED_ONE_BY_ONE,
        "scheduled-one-by-one",
        _WARNING,
        "the Pods of {role} have the {key}, and no PodGroup: {scheduler} schedules each of them on"
        " its own",
        "compile with --gang {gang}, or remove it together with schedulerName",
        "KAI and Volcano group Pods by the object that owns them. These Pods have no owner, so that"
        " each of them is a group of its own, unless --gang writes a PodGroup for all.",
        "template: {metadata: {labels: {kai.scheduler/queue: a}}, spec: {schedulerName:"
        " kai-scheduler}}",
    ),
    Rule(
        codes.GANG_MARKS_REPLACED,
        "gang-marks-replaced",
        _WARNING,
        "{what} of {role}, '{found}', is replaced by '{wanted}'",
        "remove it from the Pod template: --gang makes the gang of this job and its marks",
        "A Pod is in one gang. With --gang that is the gang of its job, whose marks replace those"
        " of another one on the Pod template, as the operators replace them.",
        "template: {metadata: {annotations: {scheduling.k8s.io/group-name: mine}}}",
    ),
    Rule(
        codes.MISPLACED_POLICY,
        "misplaced-policy",
        _WARNING,
        "{fields} {verb} where the {operator} does not look: it would drop {them}",
        "{advice}",
        "Older operators read the fields of the run policy directly under `spec`, and some tools"
        " still write them there. The API of the Training Operator has them in `runPolicy`, and"
        " drops what it does not know: kubectl refuses such a file unless told not to, other"
        " clients lose the field without a word. etcompile puts each field where it belongs; what"
        " stands there already counts.",
        "kind: PyTorchJob with spec: {cleanPodPolicy: All}  # spec: {runPolicy: {cleanPodPolicy}}",
    ),
    Rule(
        codes.MISSPELT_GROUP,
        "misspelt-group",
        _ERROR,
        "{kind} is not a kind of '{version}'",
        "did you mean apiVersion: {meant}?",
        "A job whose API group has a slip would otherwise pass through as somebody else's object,"
        " and no Pod of it would ever be made.",
        "apiVersion: kubeflow.com/v1\nkind: PyTorchJob      # kubeflow.org/v1",
    ),
    Rule(
        codes.MANAGED_JOB_SKIPPED,
        "managed-job-skipped",
        _WARNING,
        "{what} is skipped: it is managed by '{manager}', and nothing is rendered of it",
        "what an earlier render -d wrote for it leaves the folder, and a tool that syncs the folder"
        " then deletes its Pods; the setting ignore-managed-by compiles it anyway",
        "With skip-managed-by a job of MultiKueue is left to the clusters that run it, and the"
        " rest of the folder compiles. apply never prunes objects of a job that is not compiled; a"
        " folder that render -d writes holds only what is compiled.",
        "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}   # with skip-managed-by = true",
    ),
    Rule(
        codes.FORMER_VERSION,
        "former-version",
        _WARNING,
        "no operator of today serves {version} of {kind}: it is read as {today}",
        "write apiVersion: {today}",
        "An operator that is not maintained any more had this version, and its fields mean the same"
        " in today's. A version whose fields are others is an error, which names them.",
        "apiVersion: xgboostjob.kubeflow.org/v1\nkind: XGBoostJob",
    ),
    Rule(
        codes.TOO_MANY_PODS,
        "too-many-pods",
        _ERROR,
        "{what} is {count}, and a job may have at most {limit} Pods",
        "lower the number; at most 150000 Pods run well in a whole cluster",
        "Kubernetes is made for clusters of at most 150,000 Pods. A larger number is a typing"
        " mistake, or an attempt to occupy the machine that compiles: it is refused before"
        " anything is built. The number counts in every field that says how many Pods there are,"
        " as a sum over the types of replicas, and after scale intents.",
        "Worker:\n  replicas: 2147483647    # replicas: 8",
    ),
    Rule(
        codes.TOO_LARGE_OUTPUT,
        "too-large-output",
        _ERROR,
        "the Pods of this job would take about {size} GiB of output, and at most {limit} GiB are"
        " made",
        "move long texts of the Pod template into a ConfigMap, or lower the replicas",
        "Each Pod is written out in full. A long text in a template is written once for every"
        " replica, which no repository and no API server can keep.",
        'replicas: 100000\ntemplate: {spec: {containers: [{args: ["...100 KiB..."]}]}}',
    ),
    Rule(
        codes.NOT_IN_PLACE,
        "not-in-place",
        _ERROR,
        "job '{job}' cannot restart in place: {problem}",
        "{advice}",
        "With the annotation etcompile.dev/restart: in-place a supervisor runs the command of a"
        " container, and runs it again there. It needs a command to put itself before, a port of"
        " its own for the other supervisors, and to be process 1, so that it can end all that the"
        " command started. Who restarts, and after which exit codes, the kind and its"
        " restartPolicy say; where these rule it out, nothing would ever restart in place.",
        "annotations: {etcompile.dev/restart: in-place}   # and: shareProcessNamespace: true",
    ),
    Rule(
        codes.NO_SUCH_RUNTIME,
        "no-such-runtime",
        _ERROR,
        "TrainJob '{job}' names the {kind} '{name}', which is not there",
        "{advice}; put the runtime among the inputs, or name its file or folder with --runtimes",
        "A TrainJob says what it changes of a TrainingRuntime or ClusterTrainingRuntime. Trainer"
        " reads that from the cluster; etcompile asks no cluster, so that the runtime is a document"
        " of the same input, one of --runtimes, or one of those that Trainer ships. A"
        " TrainingRuntime is found from its own namespace only, and runtimeRef without a kind means"
        " a ClusterTrainingRuntime.",
        "kind: TrainJob\nspec: {runtimeRef: {name: torch-distribted}}   # torch-distributed",
    ),
    Rule(
        codes.NOT_COMPILED,
        "not-compiled",
        _ERROR,
        "{where} cannot be compiled: {reason}",
        "{advice}",
        "A field of a TrainJob or of its runtime that would change what runs, and that etcompile"
        " does nothing with. It is refused, so that no training starts without what its author"
        " asked for.",
        "kind: TrainJob\nspec: {initializer: {dataset: {storageUri: hf://a/b}}}",
    ),
    Rule(
        codes.NEEDS_WATCHER,
        "needs-watcher",
        _WARNING,
        "{waiting} waits until {awaited} has succeeded, which only a watcher says",
        "run etcompile watch in the cluster",
        "Pods are created all at once, and one that must wait for the end of others reads in"
        " J-etcompile-status that they have succeeded. The watcher writes that; without one the Pod"
        " waits for ever.",
        "dependsOn: [{name: dataset-initializer, status: Complete}]",
    ),
    Rule(
        codes.NOT_CARRIED_OVER,
        "not-carried-over",
        _WARNING,
        "{where} does not carry over: {reason}",
        "{advice}",
        "A TrainJob has no counterpart for it. What `etcompile migrate --to trainjob` writes runs"
        " without it.",
        "kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: All}}",
    ),
    Rule(
        codes.DIFFERENT_NODES,
        "different-nodes",
        _ERROR,
        "{where} differs from the master's: {reason}",
        "make the two templates equal, and have the program look at RANK instead",
        "Trainer makes all nodes of a runtime for torch, jax or xgboost from one Pod template. A"
        " TrainJob with the master's alone would run something else on the workers.",
        "pytorchReplicaSpecs: a Master with 8 GPUs, and a Worker with 4",
    ),
    Rule(
        codes.NO_TRAINJOB,
        "no-trainjob",
        _ERROR,
        "this {kind} is not made into a TrainJob: {reason}",
        "leave it as it is: etcompile compiles it without its operator",
        "`etcompile migrate --to trainjob` converts what Trainer runs in the same way. A job of"
        " another shape would be told other things of its hosts, and fail or train otherwise.",
        "etcompile migrate --to trainjob tfjob.yaml",
    ),
    Rule(
        codes.DEPRECATED_RUNTIME,
        "deprecated-runtime",
        _WARNING,
        "the {kind} {name} is deprecated: its label trainer.kubeflow.org/support says so",
        "name another runtime in spec.runtimeRef",
        "Who keeps the runtimes means to remove this one. Trainer warns of it whenever a TrainJob"
        " that names it is applied.",
        "metadata: {labels: {trainer.kubeflow.org/support: deprecated}}",
    ),
    Rule(
        codes.FORMER_TRAINER,
        "former-trainer",
        _WARNING,
        "{field} is a field of Trainer 2.0 and 2.1; 2.2 and later do not have it",
        "{advice}",
        "etcompile reads the file as those versions did. The API server of a later Trainer drops"
        " the field, and kubectl refuses it.",
        "spec: {mlPolicy: {torch: {numProcPerNode: auto}}}  # of a ClusterTrainingRuntime",
    ),
    Rule(
        codes.IMAGE_WITHOUT_SHELL,
        "image-without-shell",
        _WARNING,
        "{where} has the image {image}, which has no shell: the container cannot start",
        "use an image with a shell: the tag ':debug' of a distroless image has one",
        "etcompile runs the command with a script, so that a finished run does not start again, and"
        " adds init containers from the same image. Both need 'sh'. Only few images are known.",
        "image: gcr.io/distroless/python3-debian12   # instead of …:debug",
    ),
    Rule(
        codes.PRIVILEGED_SSH_PORT,
        "privileged-ssh-port",
        _WARNING,
        "sshd of {role} listens on port {port} of its node, which only root may do",
        "set the annotation etcompile.dev/ssh-port to 1024 or higher, or remove hostNetwork",
        "In a network of its own, a Pod that does not run as root gets the sysctl"
        " net.ipv4.ip_unprivileged_port_start. A Pod with hostNetwork may not set it.",
        "spec: {hostNetwork: true, securityContext: {runAsUser: 1000}}",
    ),
)
