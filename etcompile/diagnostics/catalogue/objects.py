"""Diagnostics about Kubernetes objects: 4xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.KUBERNETES_UNKNOWN_FIELD,
        "kubernetes-unknown-field",
        _ERROR,
        "{where}: {kind} of Kubernetes {version} has no field '{field}'",
        "{advice}",
        "The API server refuses or silently drops an unknown field, depending on the client;"
        " a dropped field is drift for ever in a GitOps tool.",
        "containers: [{name: main, imag: trainer:1}]",
    ),
    Rule(
        codes.KUBERNETES_INVALID,
        "kubernetes-invalid",
        _ERROR,
        "{where}: {problem}",
        "{advice}",
        "The object does not satisfy the API's own schema.",
        'containerPort: "80"',
    ),
    Rule(
        codes.KUBERNETES_UNKNOWN_KIND,
        "kubernetes-unknown-kind",
        _WARNING,
        "Kubernetes {kubernetes} has no kind {kind} ({version}): it is passed through unchecked",
        "",
        "A custom resource, or a kind of another Kubernetes version. It is rendered as it is.",
        "apiVersion: example.com/v1\nkind: Widget",
    ),
    Rule(
        codes.SAME_ENV_TWICE,
        "same-env-twice",
        _ERROR,
        "{where}: environment variable '{name}' is set twice",
        "remove one of the two",
        "Server-side apply refuses two entries of one name, and which one a container sees is"
        " not defined.",
        "env: [{name: A, value: x}, {name: A, value: y}]",
    ),
    Rule(
        codes.NAME_CLASH,
        "name-clash",
        _ERROR,
        "{what} is also created by job '{job}'",
        "rename the object or the job",
        "An object among the inputs has the name of a compiled one; one would overwrite the other.",
        "kind: Service\nmetadata: {name: mnist-worker-0}",
    ),
    Rule(
        codes.PRIVATE_KEY,
        "private-key",
        _ERROR,
        "{what} contains a private key",
        "keep the key in the cluster or in a vault, or encrypt it: see docs/secrets.md",
        "Rendered output is committed to Git and read by many. No option turns this off.",
        "stringData: {id_rsa: '-----BEGIN …'}",
    ),
    Rule(
        codes.PLAIN_SECRET,
        "plain-secret",
        _ERROR,
        "{what} holds its data in plain text",
        "use an ExternalSecret or a SealedSecret, encrypt it with SOPS, or set"
        " allow-plain-secrets in etcompile.toml",
        "Base64 is not encryption: anyone who reads the repository reads the Secret.",
        "kind: Secret\ndata: {token: c2VjcmV0}",
    ),
    Rule(
        codes.CONFIG_TOO_LARGE,
        "config-too-large",
        _ERROR,
        "ConfigMap '{name}' would be {size} KiB; the API server allows 1024",
        "use fewer workers per job, or shorten the pod templates",
        "The stored job and the host lists must fit into one ConfigMap.",
        "a job with tens of thousands of workers",
    ),
    Rule(
        codes.LATE_WAVE,
        "late-wave",
        _WARNING,
        "{what} is in wave {wave}, after the Pods (100)",
        "use a wave of at most 100",
        "Whatever comes after the Pods keeps an Argo CD sync running for the whole training, and"
        " no later commit is synced meanwhile.",
        'annotations: {argocd.argoproj.io/sync-wave: "200"}',
    ),
    Rule(
        codes.RUNTIME_METADATA,
        "runtime-metadata",
        _WARNING,
        "{what} was written by a cluster: {fields} are left out",
        "",
        "Fields that only a live object has (uid, resourceVersion, status …) mean nothing in Git.",
        "metadata: {uid: 3f0c…}",
    ),
    Rule(
        codes.ANNOTATIONS_TOO_LARGE,
        "annotations-too-large",
        _ERROR,
        "{what} would have {size} KiB of annotations; the API server allows 256",
        "remove --profile kpt: the launcher's gate waits for the workers anyway",
        "The kpt profile names each worker in an annotation of the launcher.",
        "a job with thousands of workers and long names, and --profile kpt",
    ),
    Rule(
        codes.PODS_IN_TWO_WAVES,
        "pods-in-two-waves",
        _WARNING,
        "the Pods of job '{job}' are in several waves of Argo CD: {pods}",
        "remove argocd.argoproj.io/sync-wave from the Pod templates",
        "Argo CD begins a wave when the Pods of the one before have ended, or are healthy. A"
        " worker that waits for its launcher and a launcher that waits for its wave wait for ever.",
        'template: {metadata: {annotations: {argocd.argoproj.io/sync-wave: "5"}}}',
    ),
    Rule(
        codes.JOBS_CLASH,
        "jobs-clash",
        _ERROR,
        "{job} would create {what}, which {other} creates already",
        "rename one of the two jobs",
        "Jobs of two kinds may have one name, but their Pods, Services and ConfigMaps cannot: one"
        " would overwrite the other. With the operators one of the two would never start.",
        "kind: JAXJob and kind: PyTorchJob, both with metadata: {name: bert}",
    ),
    Rule(
        codes.SCALES_NOTHING,
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
        codes.ACCOUNT_IN_THE_SAME_STAGE,
        "account-in-the-same-stage",
        _WARNING,
        "Flux cannot apply Pod '{pod}': its ServiceAccount '{account}' is in the same folder",
        "add --layout staged",
        "Flux tries all objects of a Kustomization out before it creates the first one, and the API"
        " server refuses a Pod whose ServiceAccount is not there yet. So neither is ever created."
        " With two Kustomizations, one after the other, the account comes first.",
        "etcompile render job.yaml --profile flux -d out/   # with a TrainingJob",
    ),
    Rule(
        codes.IMAGE_NOT_PULLABLE,
        "image-not-pullable",
        _WARNING,
        "image '{image}' can never be pulled: {problem}",
        "{advice}",
        "The API server takes any text for the name of an image, but no container runtime can read"
        " this one: the Pod would stay in InvalidImageName until it is deleted. A name is"
        " [REGISTRY[:PORT]/]PATH[:TAG][@DIGEST], in lower case up to the tag, without blanks."
        " If something replaces the name later, such as `images` of kustomize, ignore this warning"
        " with `# etcompile: ignore[ET4020]` or `--ignore ET4020`.",
        "image: pytorch/pytorch: 2.5.1   # write pytorch/pytorch:2.5.1",
    ),
    Rule(
        codes.GENERATED_NAME,
        "generated-name",
        _ERROR,
        "{what} reads ConfigMap '{name}', a name that etcompile generates for job '{job}'",
        "give your ConfigMap another name",
        "etcompile creates J-etcompile, and its watcher J-etcompile-hosts and J-etcompile-status. A"
        " ConfigMap of yours under such a name would be overwritten, and deleted with the job.",
        "volumes: [{name: settings, configMap: {name: llama-etcompile}}]   # in job llama",
    ),
)
