"""Every message etcompile can give, with its stable code.

A code, once released, keeps its meaning; a retired one is never used again. The thousands say
which stage speaks: 1 loading, 2 the job's specification, 3 scale intents, 4 Kubernetes objects,
5 output, 6 overlays, 7 plan, 8 the cluster. Messages and hints name their facts in braces;
`explain` prints the rest.
"""

from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

_RULES = (
    # 1xxx: loading ---------------------------------------------------------------------------
    Rule(
        "ET1001",
        "unreadable-file",
        _ERROR,
        "cannot read this file: {reason}",
        "check the path and its permissions",
        "The operating system refused to open or read the file.",
        "etcompile render /root/secret.yaml   # as another user",
    ),
    Rule(
        "ET1002",
        "no-such-path",
        _ERROR,
        "no file matches this path",
        "give a file, a directory, a quoted glob such as 'jobs/**/*.yaml', or - for standard input",
        "A path named on the command line, or a glob, matches nothing. Nothing rendered would"
        " look like success to a pipeline, so it is refused.",
        "etcompile render jbos/",
    ),
    Rule(
        "ET1003",
        "not-utf8",
        _ERROR,
        "this is not UTF-8: byte 0x{byte:02x}",
        "save the file as UTF-8 (for example: iconv -f latin1 -t utf-8)",
        "Kubernetes tools read UTF-8 only. A file in another encoding would compile to other"
        " names on another machine.",
        "name: caf\\xe9    # latin-1",
    ),
    Rule(
        "ET1004",
        "control-character",
        _ERROR,
        "control character {character} is not allowed in YAML",
        "remove it; it usually comes from a binary file or a broken copy",
        "YAML allows printable characters, tabs and line breaks only. A NUL byte mostly means"
        " that the file is not text at all.",
        "name: job\\x00",
    ),
    Rule(
        "ET1005",
        "yaml-syntax",
        _ERROR,
        "not valid YAML: {problem}",
        "{advice}",
        "The YAML parser could not read on from here. The real mistake is often on the line"
        " above: a missing quote, a tab, or an indentation that differs by one.",
        "spec:\n  a: 1\n b: 2        # indented less than its sibling",
    ),
    Rule(
        "ET1006",
        "duplicate-key",
        _ERROR,
        "key '{key}' appears twice in this mapping; first on line {first}",
        "remove one of the two",
        "YAML parsers keep one of two equal keys, and which one depends on the parser. kubectl"
        " refuses such a file too.",
        "replicas: 2\nreplicas: 3",
    ),
    Rule(
        "ET1007",
        "file-too-large",
        _ERROR,
        "this file is larger than {limit} MiB",
        "split it into several files",
        "A job specification is a few kilobytes. The limit protects a build from reading a data"
        " set, or /dev/zero, by mistake.",
        "etcompile render dataset.bin",
    ),
    Rule(
        "ET1008",
        "nesting-too-deep",
        _ERROR,
        "nested more than {limit} levels deep",
        "no Kubernetes object nests that deep: look for a missing line break or quote",
        "A limit on depth keeps a hostile file from exhausting the stack.",
        "[[[[[[[[[[…]]]]]]]]]]",
    ),
    Rule(
        "ET1009",
        "alias-expansion",
        _ERROR,
        "YAML aliases expand to more than {limit} values here",
        "write the values out, or use fewer nested aliases",
        "Aliases of aliases grow exponentially (the 'billion laughs' attack), so their total"
        " expansion is bounded.",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]   # and so on",
    ),
    Rule(
        "ET1010",
        "too-many-documents",
        _ERROR,
        "more than {limit} documents in one file",
        "split the file",
        "The number of documents is bounded so that a wrong file cannot occupy a build machine.",
        "---\n---\n---   # and so on",
    ),
    Rule(
        "ET1011",
        "no-documents",
        _ERROR,
        "nothing to compile: {what} holds no document",
        "name a file that holds a job",
        "An empty input that renders to nothing would, with pruning on, delete a running job."
        " So it is refused.",
        "etcompile render empty.yaml",
    ),
    Rule(
        "ET1012",
        "directory-loop",
        _ERROR,
        "this directory contains itself through a symbolic link",
        "remove the link, or name the directories you mean",
        "Following the link would never end.",
        "ln -s . jobs/again",
    ),
    Rule(
        "ET1013",
        "not-an-object",
        _ERROR,
        "a document must be a mapping with apiVersion and kind, not {found}",
        "",
        "Every Kubernetes object is a mapping.",
        "- just\n- a list",
    ),
    Rule(
        "ET1014",
        "no-kind",
        _ERROR,
        "this document has no {field}",
        "add it, or remove the file from the input",
        "apiVersion and kind say what a document is; without both nothing can be done with it.",
        "metadata: {name: job}",
    ),
    Rule(
        "ET1015",
        "unsupported-yaml",
        _ERROR,
        "{what} cannot be turned into JSON",
        "{advice}",
        "Kubernetes objects are JSON: no null or structured keys, no custom tags, no binary"
        " values, no infinities.",
        "? [a, b]\n: value",
    ),
    Rule(
        "ET1016",
        "not-a-regular-file",
        _ERROR,
        "this is {what}, not a file or a directory",
        "name a regular file, or pipe into -",
        "Reading a device or a pipe by name could block for ever.",
        "etcompile render /dev/zero",
    ),
    Rule(
        "ET1017",
        "merge-key",
        _ERROR,
        "the merge key << takes a mapping or a list of mappings",
        "give it an alias of a mapping: <<: *base",
        "A merge copies keys, so only mappings can be merged.",
        "<<: [1, 2]",
    ),
    Rule(
        "ET1018",
        "same-object-twice",
        _ERROR,
        "{what} is defined twice; first in {first}",
        "remove or rename one of the two",
        "Two documents with the same kind, namespace and name would overwrite one another in"
        " the cluster, in an order nobody chose.",
        "two files that both hold TrainingJob default/mnist",
    ),
    Rule(
        "ET1019",
        "list-items",
        _ERROR,
        "a List must have items, a list of objects",
        "",
        "`kind: List` is how kubectl prints several objects at once.",
        "apiVersion: v1\nkind: List\nitems: {}",
    ),
    Rule(
        "ET1020",
        "kustomization-input",
        _WARNING,
        "{what} is not an object: it was left out",
        "render the files it lists, and point kustomize at the output",
        "A kustomization.yaml, and an EtcompileGenerator or EtcompileTransformer that it lists,"
        " tell kustomize what to build; they are never applied to a cluster.",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization",
    ),
    Rule(
        "ET1021",
        "no-resource-list",
        _ERROR,
        "standard input is not a ResourceList: {problem}",
        "have kustomize or kpt run this program, or use etcompile render",
        "`etcompile krm` is a function in a pipeline of objects: it reads the list that the"
        " pipeline hands over (`kind: ResourceList` of config.kubernetes.io/v1 or v1beta1) and"
        " writes one.",
        "cat jobs/bert.yaml | etcompile krm     # cat jobs/bert.yaml | etcompile render -",
    ),
    Rule(
        "ET1022",
        "function-config",
        _ERROR,
        "the functionConfig is of kind {found}",
        "make it a job, or {known} of {version}",
        "What a KRM function does is said by its functionConfig: a job is compiled, an"
        " EtcompileGenerator compiles the files it names, and an EtcompileTransformer what it finds"
        " among the items.",
        "apiVersion: v1\nkind: ConfigMap            # kind: EtcompileTransformer",
    ),
    Rule(
        "ET1023",
        "alias-bytes",
        _ERROR,
        "the aliases of this file repeat more than {limit} MiB of text",
        "write out fewer copies of the long text, or put it into a ConfigMap that several"
        " containers mount",
        "An alias stands for the whole text of its anchor. A few lines can stand for gigabytes"
        " that way, and the output would hold every copy of it. The bytes that all aliases of a"
        " file stand for are counted before anything is built.",
        'a: &text "...64 KiB..."\nb: [*text, *text, ...]',
    ),
    Rule(
        "ET1024",
        "more-problems",
        _ERROR,
        "{what} has more than {limit} problems; the others are not listed",
        "correct those that are listed, and check again",
        "The problems of one document are listed up to a limit: nobody reads thousands of them,"
        " and they mostly have one cause, such as a wrong indentation or a generated key.",
        'labels: {"a b0": x, "a b1": x, ...}   # thousands of them',
    ),
    Rule(
        "ET1033",
        "outside-the-boundary",
        _ERROR,
        "this path leads out of {root}; files outside of that folder are not read here",
        "keep a copy of it inside that folder; a link must lead to a file inside, too",
        "The Argo CD plugin and the KRM function run on a machine that is not that of"
        " the repository's authors. So they open nothing outside of the repository, whatever a"
        " path, a link, an overlay or a setting names, and nothing in its `.git` folder. Files that"
        " the installation itself names on the command line are exempt. `etcompile render` on a"
        " workstation has no such boundary.",
        "settings: {secret: csi:/etc/passwd}   # in an overlay that the plugin renders",
    ),
    Rule(
        "ET1040",
        "unused-ignore",
        _WARNING,
        "unused ignore comment: there is no {found} {where}",
        "remove {found} from the comment",
        "A comment that silences nothing hides the next warning of its code that comes to this"
        " place. A warning may also depend on options: `# etcompile: ignore-file[ET1040]` keeps"
        " the comments of such a file.",
        "image: trainer:1.4    # etcompile: ignore[ET2040]",
    ),
    Rule(
        "ET1041",
        "unknown-ignore-code",
        _WARNING,
        "this ignore comment names {found}, which is not a diagnostic code",
        "{advice}",
        "A misspelt code silences nothing. `etcompile explain --all` lists the codes.",
        "image: trainer:latest    # etcompile: ignore[ET204]",
    ),
    Rule(
        "ET1042",
        "ignored-error",
        _WARNING,
        "{found} is an error and cannot be ignored",
        "correct what {found} reports, and remove it from the comment",
        "An error means that no correct output exists. Only warnings can be ignored.",
        "replicas: 12    # etcompile: ignore[ET2003]",
    ),
    Rule(
        "ET1043",
        "malformed-ignore",
        _WARNING,
        "this comment does not name the codes to ignore",
        "write # etcompile: ignore[ET2040] for one line, or # etcompile: ignore-file[ET2040] for"
        " the whole file",
        "A comment that ignored every code would also hide warnings that nobody has seen yet. So"
        " each code is named, in brackets.",
        "image: trainer:latest    # etcompile: ignore",
    ),
    Rule(
        "ET1044",
        "ignore-option",
        _ERROR,
        "{found} cannot be ignored: {problem}",
        "{advice}",
        "`--ignore`, `spec.ignore` of a KRM function, the parameter `ignore` of the Argo CD plugin"
        " and `Options.ignore` take the codes of warnings.",
        "etcompile check --ignore ET2003 jobs/",
    ),
    # 2xxx: the job's specification -------------------------------------------------------------
    Rule(
        "ET2001",
        "unknown-field",
        _ERROR,
        "{where} has no field '{field}'",
        "{advice}",
        "A misspelt field is silently dropped by an operator whose CRD does not know it, and the"
        " job runs with a default. Here it is an error.",
        "spec:\n  slotPerWorker: 2      # slotsPerWorker",
    ),
    Rule(
        "ET2002",
        "missing-field",
        _ERROR,
        "{where} needs '{field}'",
        "{advice}",
        "The field has no default. et-operator crashes without several of these, for every job"
        " in the cluster.",
        "worker:\n  template: …           # replicas is missing",
    ),
    Rule(
        "ET2003",
        "replicas-above-max",
        _ERROR,
        "{where}.replicas {replicas} is above {most} {maximum}",
        "raise {most} or lower replicas",
        "maxReplicas is the ceiling for scale-outs; starting above it contradicts it."
        " et-operator never reads the field.",
        "worker: {replicas: 12, maxReplicas: 9}",
    ),
    Rule(
        "ET2004",
        "replicas-below-min",
        _ERROR,
        "{where}.replicas {replicas} is below {least} {minimum}",
        "lower {least} or raise replicas",
        "minReplicas is the floor for scale-ins; starting below it contradicts it.",
        "worker: {replicas: 1, minReplicas: 2}",
    ),
    Rule(
        "ET2005",
        "min-above-max",
        _ERROR,
        "{where}: {least} {minimum} is above {most} {maximum}",
        "swap or correct the two",
        "No number of replicas satisfies both.",
        "worker: {replicas: 2, minReplicas: 4, maxReplicas: 2}",
    ),
    Rule(
        "ET2006",
        "wrong-type",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The value has another type than the field. YAML reads 'yes', 'on' and 010 as a boolean"
        " or a number; quote what is meant as text.",
        'replicas: "2"            # replicas: 2',
    ),
    Rule(
        "ET2007",
        "not-allowed",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The field takes a fixed set of values. et-operator acts on an unknown one as if it were"
        " Never, None or neither mode.",
        "cleanPodPolicy: running        # Running",
    ),
    Rule(
        "ET2008",
        "out-of-range",
        _ERROR,
        "{where} must be {expected}, not {found}",
        "{advice}",
        "The number is outside what the field can mean.",
        "slotsPerWorker: 0",
    ),
    Rule(
        "ET2009",
        "malformed",
        _ERROR,
        "{where} '{found}' is not {expected}",
        "{advice}",
        "The text does not have the form that the field needs.",
        "metadata: {name: My_Job}",
    ),
    Rule(
        "ET2010",
        "empty",
        _ERROR,
        "{where} must not be empty",
        "{advice}",
        "The list or text needs at least one entry. An empty container list crashes et-operator"
        " for every job in the cluster.",
        "containers: []",
    ),
    Rule(
        "ET2011",
        "unknown-version",
        _ERROR,
        "etcompile does not know version {version} of {kind}",
        "{advice}",
        "The kind is known, but not in this API version; its fields may mean other things. The hint"
        " names what reads differently in versions that an operator once had.",
        "apiVersion: kai.alibabacloud.com/v2\nkind: TrainingJob",
    ),
    Rule(
        "ET2012",
        "invalid",
        _ERROR,
        "{where}: {problem}",
        "{advice}",
        "The value contradicts the schema of its kind; `etcompile schema KIND` prints it.",
        "see `etcompile schema TrainingJob`",
    ),
    Rule(
        "ET2013",
        "unknown-kind",
        _ERROR,
        "etcompile does not know a kind '{kind}' of {group}",
        "the kinds of this group are {known}; upper and lower case matter",
        "A misspelt kind of a group that is compiled would otherwise pass through as somebody"
        " else's object, and the job or intent would be missing.",
        "apiVersion: kai.alibabacloud.com/v1alpha1\nkind: Scaleout      # ScaleOut",
    ),
    Rule(
        "ET2014",
        "accelerators-none",
        _ERROR,
        "{where} is {found}: a worker needs at least one slot",
        "ask for at least one GPU, or set slotsPerWorker",
        "Without slotsPerWorker the GPU limit of a worker is its number of slots; a host with no"
        " slots takes no process, and the launcher waits for ever.",
        'resources: {limits: {nvidia.com/gpu: "0"}}',
    ),
    Rule(
        "ET2020",
        "job-name",
        _ERROR,
        "job name '{name}' is not a DNS label: {problem}",
        "use lower-case letters, digits and '-'; start with a letter, end with a letter or digit",
        "The job's name becomes the name of Services and volumes, which must be DNS labels"
        " (RFC 1035). With et-operator such a job is Failed at once with a 422.",
        "metadata: {name: bert.v2}      # bert-v2",
    ),
    Rule(
        "ET2021",
        "name-too-long",
        _ERROR,
        "'{name}' has {length} characters; at most {limit} are allowed",
        "shorten {what} by {excess}{advice}",
        "Pod and Service names of workers are DNS labels of at most 63 characters, also for the"
        " highest index that a scale-out may ever allocate.",
        "metadata: {name: a-very-long-name-…}",
    ),
    Rule(
        "ET2030",
        "launcher-arguments",
        _WARNING,
        "{program} {flag} {value} does not fit: {problem}",
        "{advice}",
        "The launcher's numbers of processes are compared with workers times slots. A job that"
        " asks for more than it can ever have waits until its elastic timeout (600 s) and fails.",
        "horovodrun -np 8 … with 2 workers of 1 slot",
    ),
    Rule(
        "ET2031",
        "two-hosts",
        _WARNING,
        "horovodrun waits for two hosts, and this job starts with {replicas} worker",
        "add --network-interfaces to horovodrun, or start with two workers",
        "The elastic driver finds common network interfaces by comparing two hosts; with one host"
        " and no --network-interfaces it times out.",
        "worker: {replicas: 1}",
    ),
    Rule(
        "ET2040",
        "mutable-image",
        _WARNING,
        "image '{image}' can change under the same name",
        "pin a version tag or, better, a digest",
        "A replaced worker would run another image than its peers. Tags such as latest move.",
        "image: horovod/horovod:latest",
    ),
    Rule(
        "ET2041",
        "no-effect",
        _WARNING,
        "{where} has no effect: {reason}",
        "{advice}",
        "The field is accepted, as the operator accepts it, but nothing depends on it.",
        "backoffLimit: 3        # of a ScaleOut: never read",
    ),
    Rule(
        "ET2042",
        "overwritten",
        _WARNING,
        "{where} '{name}' is overwritten: {reason}",
        "{advice}",
        "The labels by which a job finds its Pods replace those of the template, as with the"
        " operator.",
        "labels: {training-job-role: mine}",
    ),
    Rule(
        "ET2043",
        "assumed-namespace",
        _WARNING,
        "job '{job}' names no namespace, and {reason}: 'default' is assumed",
        "set metadata.namespace or pass --namespace",
        "A RoleBinding's subject and a DNS search domain contain the namespace in writing, so it"
        " cannot be left to the moment of `kubectl apply`.",
        "launcherAttachMode: kubexec without metadata.namespace",
    ),
    Rule(
        "ET2044",
        "no-run-once-guard",
        _WARNING,
        "{where} has no command, so a finished run starts again if its Pod is deleted",
        "write the command into the container's spec",
        "The command that trains is wrapped to end at once when the run is already done. With only"
        " the image's entrypoint there is nothing to wrap.",
        "containers: [{name: main, image: trainer:1}]",
    ),
    Rule(
        "ET2045",
        "non-root-ssh",
        _ERROR,
        "{where} does not run as root, so ssh cannot use the keys in {path}",
        "annotate the job: etcompile.dev/ssh-mount-path: /home/USER/.ssh",
        "ssh reads keys from the home directory of the user it runs as, and refuses keys that"
        " others can read. et-operator always mounts them for root.",
        "securityContext: {runAsUser: 1000} with launcherAttachMode: ssh",
    ),
    Rule(
        "ET2046",
        "suspended",
        _WARNING,
        "job '{job}' is suspended: its Pods and Services are left out",
        "remove {field} to run it",
        "A suspended job keeps its configuration and runs nothing. Unlike with et-operator,"
        " removing its annotation resumes it.",
        'annotations: {job-supervisor.kube-ai.io/job-suspended: "true"}',
    ),
    Rule(
        "ET2047",
        "reserved-name",
        _ERROR,
        "{where} '{name}' is reserved: the compiled Pods use it",
        "choose another {what}",
        "The compiled Pod adds volumes, mounts and init containers of these names or paths; the"
        " API server would refuse the Pod.",
        "volumes: [{name: training-job-config, …}]",
    ),
    Rule(
        "ET2048",
        "no-main-container",
        _ERROR,
        "annotation kubectl.kubernetes.io/default-container names '{name}', which is no container",
        "use one of: {known}",
        "The annotation says which container trains; the others are sidecars.",
        "annotations: {kubectl.kubernetes.io/default-container: trainr}",
    ),
    Rule(
        "ET2049",
        "probably-sidecar",
        _WARNING,
        "container '{first}' is assumed to be the trainer, but '{other}' runs {program}",
        "annotate the template: kubectl.kubernetes.io/default-container: {other}",
        "The first container is the trainer unless the template says otherwise; with a sidecar"
        " first, et-operator sets up the wrong container.",
        "containers: [{name: log-shipper}, {name: trainer, command: [horovodrun, …]}]",
    ),
    Rule(
        "ET2050",
        "annotation-value",
        _ERROR,
        "annotation {name} must be {expected}, not '{found}'",
        "{advice}",
        "The annotation changes how the job is compiled, and only a value of this form is valid.",
        "annotations: {etcompile.dev/gate-timeout: soon}",
    ),
    Rule(
        "ET2051",
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
        "ET2136",
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
        "ET2060",
        "foreign-manager",
        _ERROR,
        "this job is managed by '{manager}', and not by {own}",
        "remove managedBy, pass --skip-managed-by to leave such jobs out, or --ignore-managed-by"
        " to compile them anyway",
        "runPolicy.managedBy names the controller that manages a job. A job of another controller"
        " would run twice: once under that controller, and once as compiled.",
        "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}",
    ),
    Rule(
        "ET2061",
        "replica-type-twice",
        _ERROR,
        "replica type '{name}' is defined twice: first as '{first}'",
        "keep one of them",
        "The casing of this type does not count. The operator keeps one of the two, silently.",
        "tfReplicaSpecs: {Worker: …, worker: …}",
    ),
    Rule(
        "ET2062",
        "no-such-container",
        _ERROR,
        "{kind} needs a container named '{container}'; the containers here are: {names}",
        "rename the container that runs the training",
        "The operator finds the container that trains by its name, and so does its webhook.",
        "kind: TFJob with containers: [{name: main, …}]",
    ),
    Rule(
        "ET2063",
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
        "ET2064",
        "never-succeeds",
        _WARNING,
        "nothing decides when job '{job}' has succeeded: it has no Worker, Chief or Master",
        "add the type that trains",
        "Parameter servers and evaluators serve for ever; with the operator such a job never ends.",
        "tfReplicaSpecs: {PS: …}",
    ),
    Rule(
        "ET2065",
        "processes-twice",
        _ERROR,
        "elasticPolicy.nProcPerNode must not be used with spec.nprocPerNode",
        "remove the deprecated elasticPolicy.nProcPerNode",
        "Both set how many processes torchrun starts; the webhook refuses both.",
        'nprocPerNode: "2" with elasticPolicy: {nProcPerNode: 2}',
    ),
    Rule(
        "ET2066",
        "no-autoscaling",
        _WARNING,
        "elasticPolicy.metrics has no effect: an autoscaler needs a custom resource to scale",
        "scale {job} with a ScaleOut or ScaleIn of etcompile.dev/v1alpha1 beside it",
        "A HorizontalPodAutoscaler changes the replicas of the PyTorchJob object, which does not"
        " exist here. Scaling is a file in Git, reviewed like any other change.",
        "elasticPolicy: {metrics: [{type: Resource, …}]}",
    ),
    Rule(
        "ET2067",
        "process-per-processor",
        _WARNING,
        "torchrun starts one process for each processor of the node: {where} has no GPU limit",
        'set spec.nprocPerNode, for example "1"',
        "Without nprocPerNode the operator says `auto`, and without a GPU torchrun counts the"
        " processors of the node, not those the Pod may use.",
        "command: [torchrun, train.py] without nprocPerNode",
    ),
    Rule(
        "ET2068",
        "nobody-trains",
        _ERROR,
        "job '{job}' would run nothing: its end is up to {where}, which has no replicas",
        "give it replicas, or suspend the job with runPolicy.suspend: true",
        "Without a replica of the type that decides, the operator either calls such a job a success"
        " at once, or makes Pods and deletes them until it has failed.",
        "jaxReplicaSpecs: {Worker: {replicas: 0, …}}",
    ),
    Rule(
        "ET2069",
        "no-rendezvous",
        _WARNING,
        "elasticPolicy.{field} keeps the workers from finding each other: {reason}",
        "{advice}",
        "Torchrun finds the other workers at the rendezvous. If each worker has a rendezvous of"
        " its own, each trains alone; if nobody serves the rendezvous, none starts.",
        "elasticPolicy: {standalone: true, maxReplicas: 4}",
    ),
    Rule(
        "ET2070",
        "assumed-dlrover-version",
        _WARNING,
        "the DLRover version of job '{job}' is not given: {version} is assumed",
        "tag its image with the version, annotate it with etcompile.dev/dlrover-version, or pass"
        " --dlrover-version",
        "What DLRover's master reads, is told and sets differs from version to version. The version"
        " is read from the tag of an image that is called after DLRover, the master's first.",
        "image: registry.example.com/dlrover:latest     # dlrover:v0.6.1",
    ),
    Rule(
        "ET2071",
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
        "ET2072",
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
        "ET2073",
        "type-of-other-strategy",
        _ERROR,
        "a job with AllreduceStrategy can only have workers; remove '{where}'",
        "or use distributionStrategy: ParameterServerStrategy",
        "Parameter servers, chief and evaluator belong to TensorFlow's ParameterServerStrategy.",
        "distributionStrategy: AllreduceStrategy with replicaSpecs: {worker: …, ps: …}",
    ),
    Rule(
        "ET2074",
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
        "ET2075",
        "no-parameter-servers",
        _ERROR,
        "ParameterServerStrategy {said}, but there is no 'ps' in replicaSpecs",
        "write distributionStrategy: AllreduceStrategy, or add the parameter servers",
        "DLRover's master takes a job without distributionStrategy for one with parameter servers,"
        " and ends with a KeyError when there are none.",
        "spec: {replicaSpecs: {worker: …}}",
    ),
    Rule(
        "ET2076",
        "needs-dlrover-master",
        _ERROR,
        "{where} runs with {flag}, which waits for DLRover's master for ever",
        "remove the flag, or annotate the job with etcompile.dev/parameter-servers: master",
        "Scripts with this flag ask the master for the parameter servers until it knows them; a"
        " static job has no master.",
        "annotations: {etcompile.dev/parameter-servers: static} with --enable_auto_scaling=True",
    ),
    Rule(
        "ET2077",
        "sized-by-dlrover",
        _WARNING,
        "{where}.autoScale lets DLRover's master size the Pods, and it gives them no memory",
        "set autoScale: false, and set replicas and resources in the job",
        "Its first plan divides resourceLimits in bytes where megabytes are meant: the Pods get"
        " 0Mi. Only parameter servers keep their requests, from 2 CPUs and 1024Mi on.",
        "ps: {autoScale: true, …}",
    ),
    Rule(
        "ET2080",
        "gang-size",
        _ERROR,
        "the gang of this job cannot start: {problem}",
        "{advice}",
        "A gang scheduler holds all Pods until as many as its minimum are there and fit. With a"
        " minimum above what is rendered it does so for ever, and most of them say nothing.",
        "schedulingPolicy: {minAvailable: 5}   # of a job with 4 Pods",
    ),
    Rule(
        "ET2081",
        "gang-name",
        _ERROR,
        "{scheduler} does not accept the {what} '{name}'",
        "it must be {expected}",
        "Names of gangs and queues end up in labels and in objects, which have forms of their own.",
        "schedulingPolicy: {queue: research}   # with YuniKorn, which wants root.research",
    ),
    Rule(
        "ET2082",
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
        "ET2083",
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
        "ET2084",
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
        "ET2085",
        "gang-kueue",
        _ERROR,
        "Kueue would not admit this job: {problem}",
        "{advice}",
        "Kueue waits until a group has exactly as many Pods as each of them says, and admits no"
        " Pod of a name that it has seen. A run with an ID has names of its own.",
        "etcompile render job.yaml --gang kueue   # without --run",
    ),
    Rule(
        "ET2086",
        "gang-volcano",
        _ERROR,
        "PodGroup '{group}' would not work as written: {problem}",
        "change it in the overlay that patches it",
        "Volcano skips the minima of all roles, without a word, unless they add up to minMember.",
        "patches: [{target: {kind: PodGroup}, patch: {spec: {minMember: 2}}}]",
    ),
    Rule(
        "ET2087",
        "gang-native",
        _ERROR,
        "Kubernetes would not start this gang: {problem}",
        "{advice}",
        "Gangs of Kubernetes itself have another form in each version so far, and an API server"
        " that does not know the field of the Pod drops it: the Pods start one by one, and nobody"
        " is told. So the version must be said.",
        "etcompile render job.yaml --gang native   # without --kubernetes-version",
    ),
    Rule(
        "ET2088",
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
        "ET2089",
        "gang-kai",
        _ERROR,
        "PodGroup '{group}' would not work as written: {problem}",
        "change it in the overlay that patches it",
        "KAI counts the minima of subgroups only, and leaves out Pods of a subgroup it does not"
        " know.",
        "patches: [{target: {kind: PodGroup}, patch: {spec: {minMember: 3}}}]",
    ),
    Rule(
        "ET2090",
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
        "ET2091",
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
        "ET2092",
        "gang-field",
        _WARNING,
        "{field} has no effect with {scheduler}: {reason}",
        "remove it, unless another cluster needs it",
        "Schedulers differ in what they can be told. The operators ignore what theirs cannot use.",
        "schedulingPolicy: {queue: research}   # with --gang coscheduling",
    ),
    Rule(
        "ET2093",
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
        "ET2094",
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
        "ET2095",
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
        "ET2096",
        "too-large-to-store",
        _ERROR,
        "{what} has {size} KiB: the API server stores objects of at most {limit} KiB",
        "make the job smaller, or the object itself",
        "Kubernetes stores each object in one request to etcd, which takes 1.5 MiB unless it is"
        " configured otherwise. A larger object is refused when it is applied.",
        "kind: Role   # whose rules name 100,000 Pods",
    ),
    Rule(
        "ET2100",
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
        "ET2101",
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
        "ET2102",
        "gang-scheduler-replaced",
        _WARNING,
        "schedulerName '{found}' of {role} is replaced by '{wanted}'",
        "remove schedulerName from the Pod template, or compile without --gang",
        "With a gang scheduler the MPI Operator overwrites the schedulerName of every Pod template,"
        " and tells only its log. All Pods of a gang must have the same scheduler.",
        "template: {spec: {schedulerName: default-scheduler}}   # of an MPIJob v2beta1",
    ),
    Rule(
        "ET2103",
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
        "ET2104",
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
        "ET2105",
        "gang-marks-replaced",
        _WARNING,
        "{what} of {role}, '{found}', is replaced by '{wanted}'",
        "remove it from the Pod template: --gang makes the gang of this job and its marks",
        "A Pod is in one gang. With --gang that is the gang of its job, whose marks replace those"
        " of another one on the Pod template, as the operators replace them.",
        "template: {metadata: {annotations: {scheduling.k8s.io/group-name: mine}}}",
    ),
    Rule(
        "ET2110",
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
        "ET2111",
        "misspelt-group",
        _ERROR,
        "{kind} is not a kind of '{version}'",
        "did you mean apiVersion: {meant}?",
        "A job whose API group has a slip would otherwise pass through as somebody else's object,"
        " and no Pod of it would ever be made.",
        "apiVersion: kubeflow.com/v1\nkind: PyTorchJob      # kubeflow.org/v1",
    ),
    Rule(
        "ET2112",
        "managed-job-skipped",
        _WARNING,
        "{what} is skipped: it is managed by '{manager}', and nothing is rendered of it",
        "what an earlier render -o wrote for it leaves the folder, and a tool that syncs the folder"
        " then deletes its Pods; --ignore-managed-by compiles it anyway",
        "With --skip-managed-by a job of MultiKueue is left to the clusters that run it, and the"
        " rest of the folder compiles. apply never prunes objects of a job that is not compiled; a"
        " folder that render -o writes holds only what is compiled.",
        "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}   # with --skip-managed-by",
    ),
    Rule(
        "ET2130",
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
        "ET2131",
        "too-large-output",
        _ERROR,
        "the Pods of this job would take about {size} GiB of output, and at most {limit} GiB are"
        " made",
        "move long texts of the Pod template into a ConfigMap, or lower the replicas",
        "Each Pod is written out in full. A long text in a template is written once for every"
        " replica, which no repository and no API server can keep.",
        'replicas: 100000\ntemplate: {spec: {containers: [{args: ["...100 KiB..."]}]}}',
    ),
    # 3xxx: scale intents -----------------------------------------------------------------------
    Rule(
        "ET3001",
        "no-such-job",
        _ERROR,
        "{intent} selects job '{job}', which is not among the inputs",
        "{advice}",
        "A scale intent is folded into its job when both are compiled together. et-operator"
        " silently drops an intent whose job is missing.",
        "selector: {name: mnits}",
    ),
    Rule(
        "ET3002",
        "no-such-worker",
        _ERROR,
        "{intent} removes '{pod}', which {problem}",
        "workers at that point: {workers}",
        "et-operator drops unknown names, and when none is left it deletes every worker of the"
        " job.",
        "podNames: [mnist-worker-7]",
    ),
    Rule(
        "ET3003",
        "same-sequence",
        _ERROR,
        "{intent} has the same sequence {sequence} as {other}",
        "give each intent of a job another sequence number",
        "The annotation etcompile.dev/sequence orders the intents of a job; two equal numbers"
        " leave the order open.",
        'annotations: {etcompile.dev/sequence: "2"}',
    ),
    Rule(
        "ET3004",
        "above-max",
        _ERROR,
        "{intent} would make {replicas} workers, but {limit} is {maximum}",
        "raise {limit} in the job, or add fewer",
        "et-operator never reads maxReplicas.",
        "toAdd: {count: 9} with maxReplicas: 4",
    ),
    Rule(
        "ET3005",
        "below-min",
        _ERROR,
        "{intent} would leave {replicas} workers, but {floor}",
        "{advice}",
        "et-operator never reads minReplicas, and by names it can remove"
        " every worker. Horovod needs one surviving host to go on.",
        "toDelete: {count: 2} with 2 workers",
    ),
    Rule(
        "ET3006",
        "not-scalable",
        _ERROR,
        "{intent} selects job '{job}', which {problem}",
        "{advice}",
        "Only the workers of an elastic job can be scaled: all others are told at their start how"
        " many there are, and a running Pod cannot be told anew.",
        "a ScaleOut of a job without workers",
    ),
    Rule(
        "ET3007",
        "count-ignored",
        _WARNING,
        "toDelete.count has no effect when podNames is given",
        "remove one of the two",
        "If both are given, podNames decides which workers are removed, as with the operator.",
        "toDelete: {count: 1, podNames: [a-worker-1]}",
    ),
    Rule(
        "ET3008",
        "intent-had-failed",
        _WARNING,
        "{intent} is recorded as ScaleFailed and was left out",
        "remove it, or its status to try it again",
        "The file is a dump from a cluster where this intent had failed: the running job does"
        " not contain it.",
        "status: {phase: ScaleFailed}",
    ),
    Rule(
        "ET3009",
        "script-not-run",
        _WARNING,
        "{where} is not run: no controller executes scripts in the launcher",
        "let the training react to the host list, or run the script yourself",
        "The host list is data in a ConfigMap here, not the result of a script.",
        "script: /workspace/scale.sh",
    ),
    Rule(
        "ET3010",
        "sequence-malformed",
        _ERROR,
        "annotation {name} must be {expected}, not '{found}'",
        "{advice}",
        "The order of intents must be decidable from the files alone.",
        "annotations: {etcompile.dev/sequence: second}",
    ),
    Rule(
        "ET3011",
        "intent-name",
        _ERROR,
        "the name of {intent} has {length} characters; it becomes a label of its Pods, which may"
        " have at"
        " most 63",
        "shorten the name",
        "The Pods of a ScaleOut carry its name in the label scaleout-name; the API server refuses"
        " a longer label value.",
        "metadata: {name: a-scale-out-with-a-name-of-more-than-63-characters-…}",
    ),
    Rule(
        "ET3012",
        "anchored-worker",
        _ERROR,
        "{intent} cannot remove {pod}: {reason}",
        "{advice}",
        "An elastic PyTorch job meets at its first worker unless elasticPolicy.rdzvHost names"
        " another place; without it all others would lose each other.",
        "toDelete: {podNames: [echo-worker-0]}",
    ),
    Rule(
        "ET3013",
        "no-job-to-scale",
        _ERROR,
        "there is no job '{job}' in {where}",
        "{advice}",
        "`etcompile scale` writes a scale intent beside the job it is for, so it looks for the job"
        " in the files, not in a cluster.",
        "etcompile scale bret --to 4 jobs/",
    ),
    Rule(
        "ET3014",
        "which-job",
        _ERROR,
        "'{job}' is the name of {count} jobs: {jobs}",
        "{advice}",
        "A job is known by its kind, its namespace and its name; the name alone is not enough where"
        " two share it.",
        "etcompile scale bert --to 4   # of nlp/bert and of vision/bert",
    ),
    Rule(
        "ET3015",
        "not-elastic",
        _ERROR,
        "{kind} '{job}' cannot be scaled while it runs: {reason}",
        "{advice}",
        "Only a job whose replicas learn of each other from a list can gain and lose some while it"
        " trains. Where each replica was told the number of all, a new number means new Pods: a new"
        " run.",
        "etcompile scale iris --to 4   # an XGBoostJob",
    ),
    Rule(
        "ET3016",
        "plan-not-possible",
        _ERROR,
        "{intent} cannot be carried out: {reason}",
        "{advice}",
        "A ScalePlan is folded into a job whose Pods are rendered, and handed to a DLRover master"
        " that reads plans, which those from 0.6 on do not. What neither can do is refused;"
        " upstream passes over it in silence.",
        "spec: {psHosts: […]}",
    ),
    Rule(
        "ET3017",
        "plan-without-job",
        _ERROR,
        "this ScalePlan names no job",
        "add the label {label}: JOB",
        "DLRover's master finds plans by this label.",
        "kind: ScalePlan without metadata.labels",
    ),
    Rule(
        "ET3018",
        "plan-without-label",
        _WARNING,
        "this ScalePlan has no label {label}: its job is taken from ownerJob or an old label",
        "add the label",
        "DLRover's master looks at this label only; upstream's documents and samples use"
        " `elasticjob-name`, which no master has ever looked at.",
        "labels: {elasticjob-name: mnist}",
    ),
    # 4xxx: Kubernetes objects ------------------------------------------------------------------
    Rule(
        "ET4001",
        "kubernetes-unknown-field",
        _ERROR,
        "{where}: {kind} of Kubernetes {version} has no field '{field}'",
        "{advice}",
        "The API server refuses or silently drops an unknown field, depending on the client;"
        " a dropped field is drift for ever in a GitOps tool.",
        "containers: [{name: main, imag: trainer:1}]",
    ),
    Rule(
        "ET4002",
        "kubernetes-invalid",
        _ERROR,
        "{where}: {problem}",
        "{advice}",
        "The object does not satisfy the API's own schema.",
        'containerPort: "80"',
    ),
    Rule(
        "ET4003",
        "kubernetes-unknown-kind",
        _WARNING,
        "Kubernetes {kubernetes} has no kind {kind} ({version}): it is passed through unchecked",
        "",
        "A custom resource, or a kind of another Kubernetes version. It is rendered as it is.",
        "apiVersion: example.com/v1\nkind: Widget",
    ),
    Rule(
        "ET4004",
        "same-env-twice",
        _ERROR,
        "{where}: environment variable '{name}' is set twice",
        "remove one of the two",
        "Server-side apply refuses two entries of one name, and which one a container sees is"
        " not defined.",
        "env: [{name: A, value: x}, {name: A, value: y}]",
    ),
    Rule(
        "ET4005",
        "name-clash",
        _ERROR,
        "{what} is also created by job '{job}'",
        "rename the object or the job",
        "An object among the inputs has the name of a compiled one; one would overwrite the other.",
        "kind: Service\nmetadata: {name: mnist-worker-0}",
    ),
    Rule(
        "ET4006",
        "private-key",
        _ERROR,
        "{what} contains a private key",
        "keep the key in the cluster or in a vault, or encrypt it: see docs/secrets.md",
        "Rendered output is committed to Git and read by many. No option turns this off.",
        "stringData: {id_rsa: '-----BEGIN …'}",
    ),
    Rule(
        "ET4007",
        "plain-secret",
        _ERROR,
        "{what} holds its data in plain text",
        "use an ExternalSecret or a SealedSecret, encrypt it with SOPS, or pass"
        " --allow-plain-secrets",
        "Base64 is not encryption: anyone who reads the repository reads the Secret.",
        "kind: Secret\ndata: {token: c2VjcmV0}",
    ),
    Rule(
        "ET4008",
        "config-too-large",
        _ERROR,
        "ConfigMap '{name}' would be {size} KiB; the API server allows 1024",
        "use fewer workers per job, or shorten the pod templates",
        "The stored job and the host lists must fit into one ConfigMap.",
        "a job with tens of thousands of workers",
    ),
    Rule(
        "ET4009",
        "late-wave",
        _WARNING,
        "{what} is in wave {wave}, after the Pods (100)",
        "use a wave of at most 100",
        "Whatever comes after the Pods keeps an Argo CD sync running for the whole training, and"
        " no later commit is synced meanwhile.",
        'annotations: {argocd.argoproj.io/sync-wave: "200"}',
    ),
    Rule(
        "ET4010",
        "runtime-metadata",
        _WARNING,
        "{what} was written by a cluster: {fields} are left out",
        "",
        "Fields that only a live object has (uid, resourceVersion, status …) mean nothing in Git.",
        "metadata: {uid: 3f0c…}",
    ),
    Rule(
        "ET4011",
        "annotations-too-large",
        _ERROR,
        "{what} would have {size} KiB of annotations; the API server allows 256",
        "remove --profile kpt: the launcher's gate waits for the workers anyway",
        "The kpt profile names each worker in an annotation of the launcher.",
        "a job with thousands of workers and long names, and --profile kpt",
    ),
    Rule(
        "ET4012",
        "pods-in-two-waves",
        _WARNING,
        "the Pods of job '{job}' are in several waves of Argo CD: {pods}",
        "remove argocd.argoproj.io/sync-wave from the Pod templates",
        "Argo CD begins a wave when the Pods of the one before have ended, or are healthy. A"
        " worker that waits for its launcher and a launcher that waits for its wave wait for ever.",
        'template: {metadata: {annotations: {argocd.argoproj.io/sync-wave: "5"}}}',
    ),
    Rule(
        "ET4013",
        "jobs-clash",
        _ERROR,
        "{job} would create {what}, which {other} creates already",
        "rename one of the two jobs",
        "Jobs of two kinds may have one name, but their Pods, Services and ConfigMaps cannot: one"
        " would overwrite the other. With the operators one of the two would never start.",
        "kind: JAXJob and kind: PyTorchJob, both with metadata: {name: bert}",
    ),
    Rule(
        "ET4014",
        "scales-nothing",
        _WARNING,
        "{what} would scale {kind} '{job}', which is compiled: the cluster has no such object",
        "remove it, and scale with a ScaleOut or ScaleIn: etcompile scale {job} --to N",
        "An autoscaler changes the replicas of an object, here of a custom resource that compiling"
        " leaves out. It would report for ever that it finds nothing to scale. Scaling is a file in"
        " Git, reviewed like any other change.",
        "kind: HorizontalPodAutoscaler with scaleTargetRef: {kind: PyTorchJob, name: bert}",
    ),
    Rule(
        "ET4015",
        "account-in-the-same-stage",
        _WARNING,
        "Flux cannot apply Pod '{pod}': its ServiceAccount '{account}' is in the same folder",
        "add --layout staged",
        "Flux tries all objects of a Kustomization out before it creates the first one, and the API"
        " server refuses a Pod whose ServiceAccount is not there yet. So neither is ever created."
        " With two Kustomizations, one after the other, the account comes first.",
        "etcompile render job.yaml --profile flux -o out/   # with a TrainingJob",
    ),
    Rule(
        "ET4020",
        "image-not-pullable",
        _ERROR,
        "image '{image}' can never be pulled: {problem}",
        "{advice}",
        "The API server takes any text for the name of an image, but no container runtime can read"
        " this one: the Pod would stay in InvalidImageName until it is deleted. A name is"
        " [REGISTRY[:PORT]/]PATH[:TAG][@DIGEST], in lower case up to the tag, without blanks.",
        "image: pytorch/pytorch: 2.5.1   # write pytorch/pytorch:2.5.1",
    ),
    # 5xxx: output ------------------------------------------------------------------------------
    Rule(
        "ET5001",
        "foreign-file",
        _ERROR,
        "{path} was not written by etcompile and would be overwritten",
        "move it away, or choose another output directory",
        "Only files that carry etcompile's header are replaced or removed.",
        "etcompile render job.yaml -o .   # with a hand-written kustomization.yaml",
    ),
    Rule(
        "ET5002",
        "output-directory",
        _ERROR,
        "cannot use {path} as output directory: {reason}",
        "{advice}",
        "The directory is replaced as a whole, so that a reader never sees half of a render.",
        "etcompile render job.yaml -o .",
    ),
    Rule(
        "ET5003",
        "write-failed",
        _ERROR,
        "cannot write {path}: {reason}",
        "",
        "The operating system refused to write. The files that were there before are unchanged.",
        "a full disk",
    ),
    Rule(
        "ET5004",
        "template",
        _ERROR,
        "template {template}: {problem}",
        "compare with the one etcompile ships: {shipped}",
        "A template given with --templates does not render.",
        "{{ undefined_name }}",
    ),
    Rule(
        "ET5005",
        "option",
        _ERROR,
        "{option}: {problem}",
        "{advice}",
        "The option's value cannot be used.",
        "--kubernetes-version 1.99",
    ),
    Rule(
        "ET5006",
        "nothing-rendered",
        _ERROR,
        "the inputs hold no job and no object to render",
        "name the file that holds the job",
        "An empty render would, with pruning on, delete everything.",
        "etcompile render scale-out.yaml   # without its job",
    ),
    Rule(
        "ET5018",
        "impossible-choice",
        _ERROR,
        "{option} cannot be '{value}': {problem}",
        "choose another value",
        "A program that embeds etcompile chooses how to compile. A value that no option can have"
        " is refused before anything is compiled, as it is on the command line.",
        'Settings(kubernetes_version="9.9")    # Settings(kubernetes_version="1.34")',
    ),
    # 6xxx: overlays ----------------------------------------------------------------------------
    Rule(
        "ET6001",
        "overlay-matches-nothing",
        _ERROR,
        "{entry} of the overlay matches nothing: there is no {what}",
        "{advice}",
        "An entry that applies to nothing is mostly a typo, or was written for a job that has been"
        " renamed since; without this error it would look as if it worked. One that is meant for"
        " some"
        " jobs only says `optional: true`.",
        "patches: [{target: {kind: TrainingJob, name: brt}, patch: {...}}]   # the job is bert",
    ),
    Rule(
        "ET6002",
        "no-such-overlay",
        _ERROR,
        "there is no overlay of this name, and no such file",
        "{near}give a file, a folder with an overlay.yaml, or the name of a built-in overlay:"
        " {known}",
        "`--overlay` takes the path of an overlay, or the name of one of etcompile's own.",
        "etcompile render jobs/ --overlay prd",
    ),
    Rule(
        "ET6003",
        "not-an-overlay",
        _ERROR,
        "this is a {found}, not an overlay",
        "give it as an input, or begin it with 'apiVersion: {version}' and 'kind: Overlay'",
        "A file given with --overlay holds overlays and nothing else.",
        "etcompile render jobs/ --overlay kustomization.yaml",
    ),
    Rule(
        "ET6010",
        "kustomization-overlay",
        _ERROR,
        "this is a kustomization of kustomize, not an overlay of etcompile",
        "render the jobs first and name the output in the kustomization's resources; or write an"
        " overlay: apiVersion: {version}, kind: Overlay",
        "kustomize calls a folder with a kustomization.yaml an overlay, too. etcompile's overlays"
        " change jobs before they are compiled, and are files of a kind of their own"
        " (docs/overlays.md). A kustomization changes objects: it can have the output folder among"
        " its resources, or run etcompile as a function (docs/kustomize.md).",
        "etcompile render jobs/ --overlay overlays/prod/kustomization.yaml",
    ),
    Rule(
        "ET6004",
        "overlay-among-inputs",
        _WARNING,
        "an overlay among the inputs is not applied",
        "pass it with --overlay {file}",
        "A folder may hold jobs and the overlays of their environments; which overlay counts is"
        " for the command line to say. With any --overlay this warning is not given.",
        "etcompile render .   # with ./prod/overlay.yaml",
    ),
    Rule(
        "ET6005",
        "overlay-kubernetes-version",
        _ERROR,
        "Kubernetes {version} is not known",
        "there are schemas for {known}",
        "Pod templates are checked against the schema of the cluster's Kubernetes version.",
        'settings: {kubernetesVersion: "1.99"}',
    ),
    Rule(
        "ET6006",
        "overlay-breaks-job",
        _ERROR,
        "an overlay cannot change {what}: {reason}",
        "patch the job document instead, if it has such a field, or leave it out of the overlay",
        "Names, selectors, host names and the scripts around commands are what a job's Pods find"
        " each other by. Changed in the compiled objects only, they would no longer fit together.",
        "patches: [{target: {kind: Service}, patch: {spec: {selector: {app: x}}}}]",
    ),
    Rule(
        "ET6007",
        "overlay-patch",
        _ERROR,
        "{what} {problem}",
        "{advice}",
        "A patch cannot be applied to an object that it matches: an operation of a JSON patch"
        " fails, a merge patch has a directive that has no meaning here, or the object would become"
        " another one.",
        "patch: [{op: replace, path: /spec/replicas, value: 2}]   # there is no spec.replicas",
    ),
    Rule(
        "ET6008",
        "overlay-gang",
        _ERROR,
        "'{gang}' is not a known gang scheduler",
        "the known ones are {known}",
        "The setting names the scheduler of the cluster, in the spelling of `--gang`.",
        "settings: {gang: vulcano}",
    ),
    Rule(
        "ET6009",
        "overlay-secret",
        _ERROR,
        "{problem}",
        "see docs/secrets.md",
        "The setting takes what `--secret` takes.",
        "settings: {secret: existing:Not_A_Name}",
    ),
    Rule(
        "ET5007",
        "edited-by-hand",
        _ERROR,
        "{path} is not as etcompile wrote it: {reason}",
        "move the change into the source or an overlay, or pass --force to lose it",
        "The lock file holds a digest of every file that was rendered. A file that differs from it"
        " was edited, and rendering would silently undo that. One that equals the new output is"
        " left alone.",
        "sed -i s/1Gi/2Gi/ out/bert/91-workers.yaml   # patch it in an overlay instead",
    ),
    Rule(
        "ET5008",
        "immutable-change",
        _ERROR,
        "{what}: {field} cannot change from {old} to {new}",
        "{advice}",
        "Kubernetes refuses this change on an object that exists: applying it fails after the"
        " merge. The output folder tells what exists, so it is refused before.",
        "command: [python, train.py]   # was [python, main.py]: etcompile render --run auto",
    ),
    Rule(
        "ET5009",
        "image-in-place",
        _WARNING,
        "{what}: {field} changes from {old} to {new}, which restarts that container in place",
        "{advice}",
        "An image is nearly the only field of a Pod that may change. Each container restarts when"
        " its node sees the change, so for a while old and new versions train together.",
        "image: trainer:2   # was trainer:1",
    ),
    Rule(
        "ET5010",
        "replaced-object",
        _WARNING,
        "{what} must be deleted before this is applied: {field} changes from {old} to {new}",
        "",
        "With --replace a change is rendered that the API server refuses for an existing object."
        " etcompile does not delete the object in the cluster.",
        "etcompile render jobs/ -o out/ --replace",
    ),
    Rule(
        "ET5011",
        "lock-unreadable",
        _ERROR,
        "cannot use {path}: {reason}",
        "restore it from Git, or pass --force to render anew over everything with our header",
        "The lock file tells which files are etcompile's own and which were edited. A merge"
        " conflict in it is solved by rendering again with --force.",
        "<<<<<<< HEAD   # in out/etcompile.lock.json",
    ),
    Rule(
        "ET5012",
        "unused-template",
        _WARNING,
        "this file in the folder of --templates replaces no template",
        "{advice}",
        "A template replaces the one of the same name that etcompile ships; under any other name"
        " it is never read, unless one that is read includes it.",
        "mytemplates/discover_host.sh.j2   # discover_hosts.sh.j2",
    ),
    Rule(
        "ET5013",
        "nothing-to-migrate",
        _ERROR,
        "there is no job in this input",
        "dump the custom resource, too: kubectl get {example} NAME -o yaml",
        "A hand-over starts from the custom resource that an operator runs. Its Pods, Services and"
        " other objects may be in the input, to be compared with what is rendered, but they do not"
        " say what was asked for.",
        "kubectl get pods -l training-job-name=bert -o yaml | etcompile migrate -",
    ),
    Rule(
        "ET5014",
        "encrypted-needs-folder",
        _ERROR,
        "job '{job}' would get a new key pair each time: --secret {kind} needs the folder of the"
        " last"
        " output",
        "render to a folder with -o DIR, and apply or compare that folder",
        "A key pair that the output holds encrypted is made once and then kept as it stands: what"
        " was encrypted cannot be read again here, and another pair would cut a running job in two."
        " Where nothing is kept, as on a stream, there is nothing to keep it in.",
        "etcompile render jobs/ --secret sealed:cert.pem   # without -o out/",
    ),
    Rule(
        "ET5015",
        "key-pair-stays",
        _ERROR,
        "{what} cannot stay as it is: {problem}",
        "{advice}",
        "Only who holds the private key of the certificate, or the identity of the recipient, can"
        " read an encrypted key pair and encrypt it for somebody else; etcompile cannot. A new pair"
        " would not fit the Pods that run with the old one, and the Secret is immutable. So stay"
        " with what it was encrypted for until the run has ended, or begin a new run: its Secret"
        " has a name and a key pair of its own.",
        "etcompile render jobs/ -o out/ --secret sealed:renewed.pem   # sealed with the old one",
    ),
    Rule(
        "ET5016",
        "secret-source",
        _ERROR,
        "{option}: {problem}",
        "see docs/secrets.md",
        "What a mode of --secret needs cannot be used: the certificate of Sealed Secrets, the"
        " recipients of age, or the pattern of a SecretProviderClass.",
        "etcompile render jobs/ -o out/ --secret sealed:expired.pem",
    ),
    Rule(
        "ET5017",
        "scaffold-in-the-way",
        _ERROR,
        "{file} exists already with other content",
        "move it away, or pass --keep to leave it as it is",
        "init never overwrites a file whose content differs from what it would write.",
        "etcompile init .   # twice, and a file was edited in between",
    ),
    Rule(
        "ET5023",
        "link-in-output",
        _ERROR,
        "{path} is not written: {reason}, and nothing is written outside of {folder}",
        "remove it, or name the place that it leads to as the output",
        "The folder that a command is told to write to may itself be a link. A link inside of it,"
        " and a link in the place of a file, would let whoever made the link choose which file"
        " elsewhere is written over, so none is followed.",
        "etcompile schema --all -o schemas   # where schemas/kai.alibabacloud.com is a link",
    ),
    # 7xxx: plan ----------------------------------------------------------------------------------
    Rule(
        "ET7001",
        "deadlock",
        _ERROR,
        "{ring}",
        "move one of them to another wave: etcompile.dev/wave or argocd.argoproj.io/sync-wave",
        "A tool that applies in waves finishes a wave before it begins the next, and a Pod does not"
        " start without what its spec names. Objects that wait for each other wait for ever.",
        'a ConfigMap in wave "200" that a Pod of wave 100 mounts',
    ),
    Rule(
        "ET7002",
        "left-side",
        _ERROR,
        "cannot compare with {side}: it does not compile",
        "compare with another revision, or with a folder of manifests: --against REV:DIR",
        "Two states are compared by what they compile to. The errors above this one are in the"
        " older state; nothing has to be corrected if that is an old commit.",
        "etcompile diff jobs/ --against v0.1   # whose jobs/ had a mistake",
    ),
    # 8xxx: the cluster ----------------------------------------------------------------------
    Rule(
        "ET8001",
        "kubeconfig",
        _ERROR,
        "{problem}",
        "{advice}",
        "The cluster and who asks are found as kubectl finds them: --kubeconfig, else the files of"
        " KUBECONFIG, else ~/.kube/config, else the ServiceAccount of the Pod it runs in.",
        "etcompile diff jobs/ --context prdo   # kubectl config get-contexts",
    ),
    Rule(
        "ET8002",
        "cluster-credentials",
        _ERROR,
        "{problem}",
        "{advice}",
        "A credential plugin failed, a token cannot be read, or the API server does not accept"
        " what it was shown, also after it was renewed once.",
        "aws sso login   # then again",
    ),
    Rule(
        "ET8003",
        "cluster-unreachable",
        _ERROR,
        "{problem}",
        "{advice}",
        "No answer came, or none that an API server gives. What may be sent again was, with"
        " growing pauses.",
        "kubectl cluster-info   # the same from kubectl",
    ),
    Rule(
        "ET8004",
        "cluster-refuses",
        _ERROR,
        "{problem}",
        "{advice}",
        "The API server refused a request, in its own words.",
        'pods is forbidden: User "ci" cannot list resource "pods"',
    ),
    Rule(
        "ET8005",
        "no-such-job-in-cluster",
        _ERROR,
        "there is no job '{job}' in {where}",
        "{advice}",
        "A job is in the cluster when the ConfigMap that holds it is: it carries the label"
        " etcompile.dev/job, and the key job.yaml.",
        "etcompile status bret",
    ),
    Rule(
        "ET8006",
        "foreign-object",
        _ERROR,
        "{object}: {problem}",
        "{advice}",
        "Somebody else manages the object, or a field that is to change. Two writers of one field"
        " would undo each other's changes for ever, so nothing was changed. Remove the field from"
        " the job, or take it over and make sure that the other writer stops.",
        "kubectl label pod bert-worker-0 team=b --overwrite   # and the template says team: a",
    ),
    Rule(
        "ET8007",
        "must-be-replaced",
        _ERROR,
        "{object}: {problem}",
        "{advice}",
        "The API refuses this change on an object that exists. With --replace it is deleted and,"
        " once it is gone, created again: a Pod loses its progress. A run of its own"
        " (--run auto) has new names instead, and prunes the old Pods.",
        "etcompile apply jobs/   # after the command of a running worker was changed",
    ),
    Rule(
        "ET8008",
        "object-refused",
        _ERROR,
        "{object}: {problem}",
        "{advice}",
        "The API server, or a policy of the cluster, does not accept the object; found by a dry"
        " run before anything is written. Some policies answer only when the object is really"
        " written.",
        "a Pod without resource requests in a namespace whose quota demands them",
    ),
    Rule(
        "ET8009",
        "changed-world",
        _ERROR,
        "{plan}: {object}: {problem}",
        "make a new plan with `etcompile diff -o`, and review it",
        "A plan is approved for the objects that it was made for. If they have changed since, doing"
        " it would do something that nobody has seen.",
        "etcompile diff jobs/ -o plan.json; kubectl delete pod bert-worker-0;"
        " etcompile apply plan.json",
    ),
    Rule(
        "ET8010",
        "unusable-plan",
        _ERROR,
        "{plan}: {problem}",
        "{advice}",
        "The file is no plan of this version, was changed after it was written, or was made"
        " for something else: a folder, a revision, another cluster's context or namespace than"
        " the one that an option names.",
        "etcompile diff jobs/ --against main -o plan.json; etcompile apply plan.json",
    ),
    Rule(
        "ET8011",
        "no-name-to-apply",
        _ERROR,
        "{object} has generateName and no name: each apply would create another object",
        "give it a name, or create it with `kubectl create`",
        "To apply is to make an object what a file says, so the file must say which object. A"
        " generated name is another one every time.",
        "metadata: {generateName: eval-}",
    ),
    Rule(
        "ET8012",
        "no-such-target",
        _ERROR,
        "--target {target} names no object of the plan",
        "{advice}",
        "A run with --target changes the objects that are named, and nothing else. A name that"
        " matches nothing is most likely misspelt, so nothing is done at all.",
        "etcompile apply jobs/ --target Pod/bret-worker-0",
    ),
    Rule(
        "ET8013",
        "not-confirmed",
        _ERROR,
        "the question was not answered with yes: nothing was changed",
        "answer y to go on, or pass --yes",
        "Objects that are deleted or replaced are listed before anything is written, and on a"
        " terminal somebody has to agree. In scripts, where nobody can answer, --yes or the option"
        " that allows the deletion (--prune, --replace) is the answer.",
        "etcompile apply jobs/ --prune   # and then n",
    ),
    Rule(
        "ET8014",
        "cannot-be-restarted",
        _ERROR,
        "{job} cannot be run again: {problem}",
        "{advice}",
        "A job is run again as its ConfigMap in the cluster holds it. One that is suspended has no"
        " Pods to run, and one that another version of etcompile wrote has to be applied first.",
        "etcompile restart bert   # and its file says suspend: true",
    ),
    Rule(
        "ET8021",
        "admission-not-asked",
        _WARNING,
        "the cluster {cluster} was not asked what admission makes of the differences: {problem}",
        "whoever makes the plan needs the verb patch for the objects; a dry run writes nothing",
        "Admission plugins and policies change objects when they are written. Whether a difference"
        " is one, the API server's dry run tells, which needs the right to write. Without it the"
        " differences are worked out from the live objects, and what a policy has changed may be"
        " among them.",
        "etcompile diff jobs/   # by somebody who may only read",
    ),
    Rule(
        "ET8022",
        "no-room-in-quota",
        _ERROR,
        "{object} cannot be created: {problem}",
        "raise the quota, make the run smaller, or end what else uses it",
        "A run that takes the place of another needs room in the quotas of its namespace: beside"
        " the old Pods, or once they are deleted. Where it would fit in neither way, the old Pods"
        " are not deleted, and nothing is changed.",
        "etcompile apply jobs/ --run auto --prune   # with more workers than the quota allows",
    ),
    Rule(
        "ET8023",
        "not-tried",
        _WARNING,
        "{object} could not be tried, as a quota is full: {problem}",
        "the plan deletes Pods that use the quota before it creates this object",
        "A dry run changes nothing, so what the plan deletes still uses the quota while new objects"
        " are tried. Whether they are accepted otherwise is known when the plan is done.",
        "etcompile apply jobs/ --run auto --prune --dry-run server   # under a full quota",
    ),
)

RULES: dict[str, Rule] = {rule.code: rule for rule in _RULES}
"""The catalogue by code, in the order of the codes."""
