"""Facts with which `explain` shows a diagnostic's message as it is told, instead of its template.

Apart from the catalogue, which every run loads: only `explain`, SARIF and the page of diagnostics
read these. They are what etcompile finds in the input that the catalogue has as the example, or in
one like it; `tests/diagnostics/test_samples.py` compiles such inputs.
"""

from collections.abc import Mapping

SAMPLES: Mapping[str, Mapping[str, str | int]] = {
    "ET1001": {
        "reason": "permission denied",
    },
    "ET1003": {
        "byte": 233,
    },
    "ET1004": {
        "character": "NUL (U+0000)",
    },
    "ET1005": {
        "problem": "this line is indented like no line above that it could belong to",
        "advice": "align it with the line above, or begin it in column 1 like line 1",
    },
    "ET1006": {
        "key": "replicas",
        "first": 13,
    },
    "ET1007": {
        "limit": 16,
    },
    "ET1008": {
        "limit": 64,
    },
    "ET1009": {
        "limit": 1000000,
    },
    "ET1010": {
        "limit": 10000,
    },
    "ET1011": {
        "what": "this file",
    },
    "ET1013": {
        "found": "a list",
    },
    "ET1014": {
        "field": "apiVersion",
    },
    "ET1015": {
        "what": "a list used as a key",
        "advice": "use plain strings, numbers, booleans, lists and mappings",
    },
    "ET1016": {
        "what": "a device",
    },
    "ET1018": {
        "what": "TrainingJob nlp/mnist",
        "first": "jobs/a.yaml:3:18",
    },
    "ET1020": {
        "what": "a kustomization",
    },
    "ET1021": {
        "problem": "there is nothing",
    },
    "ET1022": {
        "found": "ConfigMap (v1)",
        "known": "EtcompileGenerator or EtcompileTransformer",
        "version": "etcompile.dev/v1alpha1",
    },
    "ET1023": {
        "limit": 4,
    },
    "ET1024": {
        "what": "this TrainingJob",
        "limit": 200,
    },
    "ET1033": {
        "root": "/srv/repository",
    },
    "ET1040": {
        "found": "ET2040",
        "where": "on this line",
    },
    "ET1041": {
        "found": "ET204",
        "advice": "did you mean ET2040?",
    },
    "ET1042": {
        "found": "ET2003",
    },
    "ET1044": {
        "advice": "correct what ET2003 reports; `etcompile explain ET2003` says how",
        "found": "ET2003",
        "problem": "it is an error, and only warnings can be ignored",
    },
    "ET1050": {
        "problem": "invalid value",
    },
    "ET1051": {
        "name": "gang-schedular",
        "advice": "did you mean 'gang-scheduler'?",
    },
    "ET1052": {
        "name": "kubernetes-version",
        "problem": "it is a text",
        "advice": 'write "1.3"',
    },
    "ET1053": {
        "name": "prod",
        "advice": "it has production",
    },
    "ET1054": {
        "first": "team-a/etcompile.toml",
        "second": "team-b/etcompile.toml",
    },
    "ET2001": {
        "where": "spec",
        "field": "slotPerWorker",
        "advice": "did you mean 'slotsPerWorker'?",
    },
    "ET2002": {
        "where": "spec.etReplicaSpecs.worker",
        "advice": "",
        "field": "replicas",
    },
    "ET2003": {
        "where": "worker.replicas",
        "replicas": 12,
        "maximum": 9,
        "most": "maxReplicas",
    },
    "ET2004": {
        "where": "worker.replicas",
        "replicas": 1,
        "minimum": 2,
        "least": "minReplicas",
    },
    "ET2005": {
        "where": "worker",
        "minimum": 4,
        "maximum": 2,
        "least": "minReplicas",
        "most": "maxReplicas",
    },
    "ET2006": {
        "where": "spec.etReplicaSpecs.worker.replicas",
        "advice": "remove the quotes: 2",
        "expected": "a whole number",
        "found": "the text '2'",
    },
    "ET2007": {
        "where": "spec.cleanPodPolicy",
        "advice": "did you mean 'Running'?",
        "expected": "one of Running, All, None",
        "found": "'running'",
    },
    "ET2008": {
        "where": "spec.slotsPerWorker",
        "advice": "",
        "expected": "at least 1",
        "found": "0",
    },
    "ET2009": {
        "where": "spec.sshAuthMountPath",
        "advice": "",
        "expected": "an absolute path",
        "found": "root/.ssh",
    },
    "ET2010": {
        "where": "spec.etReplicaSpecs.worker.template.spec.containers",
        "advice": "",
    },
    "ET2011": {
        "kind": "TrainingJob",
        "version": "kai.alibabacloud.com/v2",
        "advice": "use kai.alibabacloud.com/v1alpha1",
    },
    "ET2012": {
        "where": "spec.runPolicy",
        "problem": "fits none of the allowed forms",
        "advice": "",
    },
    "ET2013": {
        "group": "kai.alibabacloud.com",
        "kind": "Scaleout",
        "advice": "did you mean 'ScaleOut'?",
    },
    "ET2014": {
        "where": "limits.nvidia.com/gpu",
        "found": "0",
    },
    "ET2020": {
        "name": "bert.v2",
        "problem": "it contains a dot",
    },
    "ET2021": {
        "name": "a-very-long-name-of-a-job-that-somebody-made-up-for-fun-worker-1",
        "length": 64,
        "limit": 63,
        "excess": 1,
        "what": "the job's name",
        "advice": "",
    },
    "ET2030": {
        "program": "horovodrun",
        "flag": "-np",
        "value": 8,
        "problem": "the job starts with 2 workers of 1 slot, 2 in all",
        "advice": "lower it, or start with more workers, or more slots for each",
    },
    "ET2031": {
        "replicas": 1,
    },
    "ET2040": {
        "image": "horovod/horovod:latest",
    },
    "ET2041": {
        "advice": "remove it",
        "reason": "no operator has ever read it",
        "where": "spec.backoffLimit",
    },
    "ET2042": {
        "where": "label",
        "advice": "use another label",
        "name": "training-job-role",
        "reason": "it is how the job finds its Pods",
    },
    "ET2043": {
        "job": "pi",
        "reason": "its RoleBinding must name one",
    },
    "ET2044": {
        "where": "container 'main' of launcher",
    },
    "ET2045": {
        "path": "/root/.ssh",
        "where": "worker",
    },
    "ET2046": {
        "job": "bert",
        "field": "the annotation",
    },
    "ET2047": {
        "where": "volume",
        "name": "training-job-config",
        "what": "name",
    },
    "ET2048": {
        "name": "trainr",
        "known": "trainer",
    },
    "ET2049": {
        "first": "log-shipper",
        "other": "trainer",
        "program": "horovodrun",
    },
    "ET2050": {
        "name": "etcompile.dev/gate-timeout",
        "expected": "a number of seconds, at most 9 digits",
        "found": "soon",
        "advice": "",
    },
    "ET2051": {
        "advice": "put it into a file, of a ConfigMap for example",
        "role": "worker",
        "size": 129,
        "variable": "KEY",
    },
    "ET2060": {
        "manager": "kueue.x-k8s.io/multikueue",
        "own": "kubeflow.org/training-operator",
    },
    "ET2061": {
        "name": "worker",
        "first": "Worker",
    },
    "ET2062": {
        "kind": "TFJob",
        "container": "tensorflow",
        "names": "main",
    },
    "ET2064": {
        "job": "bert",
    },
    "ET2066": {
        "job": "mnist",
    },
    "ET2067": {
        "where": "Worker",
    },
    "ET2068": {
        "job": "bert",
        "where": "Worker",
    },
    "ET2069": {
        "field": "standalone",
        "reason": "each trains by itself, and there may be 4",
        "advice": "remove it; it is for a job of one worker",
    },
    "ET2070": {
        "job": "mnist",
        "version": "0.6",
    },
    "ET2071": {
        "names": "PriorityClasses named high and low",
        "where": "worker.priority",
    },
    "ET2072": {
        "name": "etcompile.dev/nnodes",
        "seen": "takes --nnodes or --node_unit from a variable",
    },
    "ET2073": {
        "where": "replicaSpecs.ps",
    },
    "ET2074": {
        "job": "ranking",
    },
    "ET2075": {
        "said": "is the default of distributionStrategy",
    },
    "ET2076": {
        "where": "the launcher command of worker",
        "flag": "--enable_auto_scaling=True",
    },
    "ET2077": {
        "where": "worker",
    },
    "ET2080": {
        "problem": (
            "5 Pods must fit before any starts, and only 4 are there: it would wait for ever"
        ),
        "advice": "lower it, or add replicas",
    },
    "ET2081": {
        "expected": "a full path such as root.research, of 63 characters at most",
        "name": "research",
        "scheduler": "YuniKorn",
        "what": "queue",
    },
    "ET2082": {
        "field": "schedulerName",
        "values": "default-scheduler (worker) and my-scheduler (launcher)",
    },
    "ET2083": {
        "where": "launcher/main (cpu and memory), worker/main (cpu and memory)",
    },
    "ET2084": {
        "pod": "mnist-r1-worker-1",
        "role": "worker",
    },
    "ET2085": {
        "problem": "Kueue waits for Pods of other names when it has taken some away",
        "advice": "give the run an ID: annotation etcompile.dev/run: auto",
    },
    "ET2086": {
        "group": "mnist-r1",
        "problem": "minMember is 2, and minTaskMember adds up to 3",
    },
    "ET2087": {
        "problem": "nobody said which version of Kubernetes the cluster has",
        "advice": "set kubernetes-version in etcompile.toml, or kubernetesVersion in an overlay",
    },
    "ET2088": {
        "problem": "Pods of worker ask for more cpu than their placeholders",
    },
    "ET2089": {
        "group": "mnist-r1",
        "problem": "subgroup ps has no minMember",
    },
    "ET2090": {
        "objects": "mnist-r1-worker-0 in wave 100 and mnist-r1-ps-0 in wave 200",
    },
    "ET2091": {
        "count": 1,
        "first": "mnist-r1-ps-0",
        "pod": "mnist-r1-worker-0",
        "scheduler": "Koordinator",
    },
    "ET2092": {
        "field": "queue",
        "reason": "it has no queues",
        "scheduler": "coscheduling",
    },
    "ET2093": {
        "role": "worker",
        "label": "kueue.x-k8s.io/queue-name",
    },
    "ET2094": {
        "ports": "the workers' sshd listens on 2222, the launcher connects to 2022",
        "job": "pi",
        "name": "etcompile.dev/ssh-port",
        "port": 2222,
    },
    "ET2095": {
        "what": "ConfigMap 'bert-config' of job 'bert'",
        "size": 459,
        "limit": 256,
    },
    "ET2096": {
        "what": "Role 'every-pod'",
        "size": 1624,
        "limit": 1536,
    },
    "ET2100": {
        "scheduler": "KAI",
        "values": "usual (worker) and urgent (launcher)",
    },
    "ET2101": {
        "advice": ("remove schedulerName, or choose that scheduler with --gang instead of Kueue"),
        "found": "volcano",
        "roles": "ps and worker",
        "scheduler": "Kueue",
    },
    "ET2102": {
        "found": "my-scheduler",
        "role": "worker",
        "wanted": "volcano",
    },
    "ET2103": {
        "by": "label kai.scheduler/queue",
        "queue": "other",
        "used": "research",
        "where": "label kai.scheduler/queue of worker",
    },
    "ET2104": {
        "gang": "kai",
        "key": "label kai.scheduler/queue",
        "role": "master",
        "scheduler": "KAI",
    },
    "ET2105": {
        "what": "annotation scheduling.k8s.io/group-name",
        "found": "mine",
        "role": "worker",
        "wanted": "bert",
    },
    "ET2110": {
        "fields": "spec.cleanPodPolicy",
        "verb": "stands",
        "operator": "Training Operator",
        "them": "it",
        "advice": (
            "move spec.cleanPodPolicy to spec.runPolicy.cleanPodPolicy; it is compiled so, and"
            " `etcompile migrate` writes it so"
        ),
    },
    "ET2111": {
        "kind": "PyTorchJob",
        "version": "kubeflow.com/v1",
        "meant": "kubeflow.org/v1",
    },
    "ET2112": {
        "what": "PyTorchJob bert",
        "manager": "kueue.x-k8s.io/multikueue",
    },
    "ET2113": {
        "kind": "XGBoostJob",
        "version": "xgboostjob.kubeflow.org/v1",
        "today": "kubeflow.org/v1",
    },
    "ET2130": {
        "what": "spec.etReplicaSpecs.worker.replicas",
        "count": 2147483647,
        "limit": 150000,
    },
    "ET2131": {
        "size": 10,
        "limit": 2,
    },
    "ET2136": {
        "where": "the environment variable 'HF_TOKEN'",
        "what": "a Hugging Face token",
        "advice": (
            "keep it in a Secret and refer to it: replace value by valueFrom: {secretKeyRef:"
            " {name: SECRET, key: HF_TOKEN}}"
        ),
    },
    "ET2137": {
        "job": "bert",
        "problem": (
            "with hostPID: true its supervisor is not process 1 of launcher, and cannot end all"
            " that its command started"
        ),
        "advice": "remove hostPID",
    },
    "ET2138": {
        "job": "llm",
        "kind": "ClusterTrainingRuntime",
        "name": "torch-distribted",
        "advice": "known are jax-distributed, torch-distributed, xgboost-distributed",
    },
    "ET2139": {
        "where": "spec.initializer",
        "reason": "nothing here fetches data or models",
        "advice": "fetch them in the command",
    },
    "ET2140": {"waiting": "node", "awaited": "dataset-initializer"},
    "ET2141": {
        "where": "spec.runPolicy.cleanPodPolicy",
        "reason": "JobSet deletes what still runs at the end and leaves what has ended",
        "advice": "remove it",
    },
    "ET2142": {
        "where": "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources",
        "reason": "all nodes are made of the master's template",
    },
    "ET2143": {
        "kind": "TFJob",
        "reason": "Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several"
        " roles",
    },
    "ET2144": {"kind": "ClusterTrainingRuntime", "name": "torch-2023"},
    "ET2145": {
        "field": "spec.podTemplateOverrides",
        "advice": "write it as spec.runtimePatches",
    },
    "ET2146": {
        "where": "container 'main' of worker",
        "image": "gcr.io/distroless/python3-debian12",
    },
    "ET2147": {"role": "worker", "port": 22},
    "ET3001": {
        "intent": "ScaleOut more",
        "job": "mnits",
        "advice": "did you mean 'mnist'?",
    },
    "ET3002": {
        "intent": "ScaleIn less",
        "pod": "mnist-worker-7",
        "problem": "is no worker of the job",
        "workers": "mnist-worker-0, mnist-worker-1, mnist-worker-2",
    },
    "ET3003": {
        "intent": "ScaleOut b",
        "sequence": 2,
        "other": "ScaleOut a",
    },
    "ET3004": {
        "intent": "ScaleOut more",
        "replicas": 11,
        "maximum": 4,
        "limit": "maxReplicas",
    },
    "ET3005": {
        "intent": "ScaleIn less",
        "replicas": 0,
        "floor": "at least one must stay",
        "advice": "delete the job instead, or remove fewer",
    },
    "ET3006": {
        "advice": (
            "make it elastic, if its kind can be; or change its replicas, in another run"
            " (etcompile.dev/run)"
        ),
        "intent": "ScaleOut more",
        "job": "mnist",
        "problem": "is not elastic",
    },
    "ET3008": {
        "intent": "ScaleOut a",
    },
    "ET3009": {
        "where": "spec.script",
    },
    "ET3010": {
        "advice": "",
        "expected": "a whole number, quoted",
        "found": "second",
        "name": "etcompile.dev/sequence",
    },
    "ET3011": {
        "intent": "ScaleOut",
        "length": 64,
    },
    "ET3012": {
        "intent": "ScaleIn less",
        "pod": "echo-worker-0",
        "reason": "it holds the rendezvous of all others",
        "advice": "name at most 2 of the others: echo-worker-1, echo-worker-2",
    },
    "ET3013": {
        "job": "bret",
        "where": "the input",
        "advice": "did you mean 'bert'?",
    },
    "ET3014": {
        "job": "bert",
        "count": 2,
        "jobs": "TrainingJob nlp/bert (jobs/a.yaml), TrainingJob vision/bert (jobs/b.yaml)",
        "advice": "choose one with -n: nlp, vision",
    },
    "ET3015": {
        "kind": "XGBoostJob",
        "job": "iris",
        "reason": (
            "each of its replicas is told how many there are, and that cannot change in a Pod"
        ),
        "advice": "change its replicas, and its annotation etcompile.dev/run: a new gang of Pods",
    },
    "ET3016": {
        "advice": "remove it",
        "intent": "ScalePlan plan",
        "reason": "no version of DLRover reads psHosts of a plan that a person wrote",
    },
    "ET3017": {
        "label": "elasticjob.dlrover/name",
    },
    "ET3018": {
        "label": "elasticjob.dlrover/name",
    },
    "ET3019": {
        "job": "bert",
        "reason": "it has scale intents, which count from the number in its file",
        "advice": "leave out --in-place, or fold the intents into it",
    },
    "ET4001": {
        "where": "spec.etReplicaSpecs.worker.template.spec.containers[0]",
        "field": "imag",
        "advice": "did you mean 'image'?",
        "kind": "Container",
        "version": "1.37",
    },
    "ET4002": {
        "where": ("spec.etReplicaSpecs.worker.template.spec.containers[0].ports[0].containerPort"),
        "problem": "must be a whole number, not the text '80'",
        "advice": "remove the quotes: 80",
    },
    "ET4003": {
        "kind": "Widget",
        "kubernetes": "1.31",
        "version": "example.com/v1",
    },
    "ET4004": {
        "name": "A",
        "where": "template.spec.containers[0]",
    },
    "ET4005": {
        "what": "Service 'mnist-worker-0'",
        "job": "mnist",
    },
    "ET4006": {
        "what": "Pod bert-worker-0 of job 'bert'",
    },
    "ET4007": {
        "what": "Secret 'tokens'",
    },
    "ET4008": {
        "name": "bert-config",
        "size": 1310,
    },
    "ET4009": {
        "what": "ConfigMap 'report'",
        "wave": "200",
    },
    "ET4010": {
        "what": "ConfigMap 'settings'",
        "fields": "metadata.resourceVersion, metadata.uid",
    },
    "ET4011": {
        "size": 334,
        "what": (
            "Pod a-job-with-a-rather-long-name-of-fifty-characters-launcher of job"
            " 'a-job-with-a-rather-long-name-of-fifty-characters'"
        ),
    },
    "ET4012": {
        "job": "bert",
        "pods": "bert-worker-0 in 5 and bert-launcher in 0",
    },
    "ET4013": {
        "job": "JAXJob 'bert'",
        "what": "ConfigMap 'bert-etcompile'",
        "other": "PyTorchJob 'bert' of kubeflow.org/v1",
    },
    "ET4014": {
        "what": "HorizontalPodAutoscaler 'by-load'",
        "kind": "PyTorchJob",
        "job": "bert",
    },
    "ET4015": {
        "pod": "bert-launcher",
        "account": "bert-launcher",
    },
    "ET4020": {
        "image": "pytorch/pytorch: 2.5.1",
        "problem": "it contains a blank",
        "advice": "did you mean 'pytorch/pytorch:2.5.1'?",
    },
    "ET4021": {
        "what": "role 'worker' of job 'llama'",
        "name": "llama-etcompile",
        "job": "llama",
    },
    "ET5001": {
        "path": "out/kustomization.yaml",
    },
    "ET5002": {
        "path": ".",
        "reason": "it is the current directory, or holds it",
        "advice": "name a folder of its own, such as out/",
    },
    "ET5003": {
        "path": "out",
        "reason": "No space left on device",
    },
    "ET5004": {
        "template": "run-once.sh.j2",
        "problem": "'undefined_name' is undefined",
        "shipped": "templates/run-once.sh.j2",
    },
    "ET5005": {
        "option": "--namespace research",
        "problem": "TrainingJob 'bert' is in 'nlp'",
        "advice": "leave the namespace out of the file, or leave out --namespace",
    },
    "ET5007": {
        "path": "out/bert/91-workers.yaml",
        "reason": "it was edited by hand",
    },
    "ET5008": {
        "what": "Pod nlp/bert-launcher",
        "field": "spec.containers[main].command",
        "old": '…2", "python", "main.py"]',
        "new": '…2", "python", "train.py"]',
        "advice": (
            "give the job the annotation etcompile.dev/run with a new ID, so that its Pods have new"
            " names; or delete it in the cluster"
            " before this is applied and pass --replace"
        ),
    },
    "ET5009": {
        "what": "Pods bert-worker-0 and bert-worker-1",
        "field": "spec.containers[main].image",
        "old": '"example.com/trainer:1"',
        "new": '"example.com/trainer:2"',
        "advice": "give the job the annotation etcompile.dev/run with a new ID for a new gang"
        " instead of one that mixes versions",
    },
    "ET5010": {
        "what": "Pod nlp/bert-launcher",
        "field": "spec.containers[main].command",
        "old": '…2", "python", "main.py"]',
        "new": '…2", "python", "train.py"]',
    },
    "ET5011": {
        "path": "out/etcompile.lock.json",
        "reason": "it is not JSON",
    },
    "ET5012": {
        "advice": "did you mean 'discover_hosts.sh.j2'?",
    },
    "ET5013": {
        "example": "trainingjob",
    },
    "ET5014": {
        "job": "bert",
        "kind": "sealed",
    },
    "ET5015": {
        "advice": "stay with sealed; or begin a run with a key pair of its own: annotation"
        " etcompile.dev/run: ID",
        "problem": "its key pair is encrypted for sealed, not for sops",
        "what": "Secret 'bert'",
    },
    "ET5016": {
        "option": "--secret csi",
        "problem": "its spec must name a provider",
    },
    "ET5017": {
        "file": "jobs/hello.yaml",
    },
    "ET5018": {
        "option": "Settings.kubernetes_version",
        "value": "9.9",
        "problem": "there are schemas for 1.25 to 1.37",
    },
    "ET5023": {
        "path": "schemas/kai.alibabacloud.com",
        "reason": "it is a link",
        "folder": "schemas",
    },
    "ET5026": {"jobs": "bert, llama"},
    "ET6001": {
        "entry": "patches[0]",
        "what": "TrainingJob named 'brt'",
        "advice": "each TrainingJob here: bert",
    },
    "ET6002": {
        "known": "dev, prod, resilient, spot",
        "near": "did you mean prod? Otherwise ",
    },
    "ET6003": {
        "found": "TrainingJob (kai.alibabacloud.com/v1alpha1)",
        "version": "etcompile.dev/v1alpha1",
    },
    "ET6004": {
        "file": "./prod/overlay.yaml",
    },
    "ET6005": {
        "version": "1.99",
        "known": "1.25 to 1.37",
    },
    "ET6006": {
        "what": "spec.selector of Services",
        "reason": "it selects the Pods of the job",
    },
    "ET6007": {
        "what": "TrainingJob nlp/bert",
        "problem": "fails at replace '/spec/replicas': there is no 'replicas'",
        "advice": "",
    },
    "ET6008": {
        "gang": "vulcano",
        "known": "none, volcano, coscheduling, kueue, native, yunikorn, kai, koordinator",
    },
    "ET6009": {
        "problem": "'Not_A_Name' is no name of a Secret",
    },
    "ET6010": {
        "version": "etcompile.dev/v1alpha1",
    },
    "ET7001": {
        "ring": (
            "Pod bert-launcher mounts ConfigMap late, which is in wave 200 and so waits for Pod"
            " bert-launcher in wave 100"
        ),
    },
    "ET7002": {
        "side": "revision v0.1",
    },
    "ET8001": {
        "problem": "there is no context 'prdo' in ~/.kube/config",
        "advice": "the contexts are: dev, prod",
    },
    "ET8002": {
        "problem": "GET /api/v1: Unauthorized (401 Unauthorized)",
        "advice": "log in again: the cluster does not accept these credentials",
    },
    "ET8003": {
        "problem": "GET /api/v1: cannot connect to 10.0.0.1: connection refused",
        "advice": "check that the cluster runs and can be reached from here",
    },
    "ET8004": {
        "problem": (
            'GET /api/v1/namespaces/nlp/pods: pods is forbidden: User "ci" cannot list'
            ' resource "pods" in API group "" in the namespace "nlp" (403 Forbidden)'
        ),
        "advice": "ask for these rights; `kubectl auth can-i --list` shows yours",
    },
    "ET8005": {
        "job": "bret",
        "where": "namespace 'nlp'",
        "advice": "did you mean 'bert'?",
    },
    "ET8006": {
        "object": "Pod nlp/bert-worker-0",
        "problem": (
            'kubectl-label owns metadata.labels.team; metadata.labels.team is "b", and would be "a"'
        ),
        "advice": "--take-ownership kubectl-label takes the field over",
    },
    "ET8007": {
        "object": "Pod nlp/bert-worker-0",
        "problem": "spec.containers[main].command cannot be changed on an existing object",
        "advice": "--replace deletes and recreates it; another ID in the annotation"
        " etcompile.dev/run of its job creates new Pods instead",
    },
    "ET8008": {
        "object": "Pod nlp/bert-worker-0",
        "problem": (
            'pods "bert-worker-0" is forbidden: failed quota: compute: must specify'
            " requests.cpu for: main"
        ),
        "advice": "",
    },
    "ET8009": {
        "plan": "plan.json",
        "object": "Pod nlp/bert-worker-0",
        "problem": "it no longer exists",
    },
    "ET8010": {
        "plan": "plan.json",
        "problem": "it was made against revision main, and not against a cluster",
        "advice": "",
    },
    "ET8011": {
        "object": "Pod nlp/eval-",
    },
    "ET8012": {
        "target": "Pod/bret-worker-0",
        "advice": "did you mean Pod/bert-worker-0?",
    },
    "ET8014": {
        "job": "bert",
        "problem": "it is suspended",
        "advice": "take the suspension out of the job's file, and apply it",
    },
    "ET8015": {
        "job": "bert",
        "problem": "it names no signal for that",
        "advice": "set etcompile.dev/restart: in-place and etcompile.dev/checkpoint-signal: USR1",
    },
    "ET8021": {
        "cluster": "prod",
        "problem": (
            'pods "bert-worker-0" is forbidden: User "ann" cannot patch resource "pods" in API'
            ' group "" in the namespace "nlp"'
        ),
    },
    "ET8022": {
        "object": "Pod nlp/bert-1-worker-0",
        "problem": (
            "the quota gpus has 0 requests.nvidia.com/gpu left, and 8 are needed; what the plan"
            " deletes gives back 4 only, so the Pods that are there would be deleted for Pods that"
            " cannot be created"
        ),
    },
    "ET8023": {
        "object": "Pod nlp/bert-1-worker-0",
        "problem": (
            'pods "bert-1-worker-0" is forbidden: exceeded quota: small, requested: pods=1, used:'
            " pods=3, limited: pods=3"
        ),
    },
    "ET8024": {
        "namespace": "team-nlp",
        "problem": "does not exist",
        "advice": "kubectl create namespace team-nlp",
    },
    "ET8026": {
        "text": 'would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    },
    "ET8027": {
        "former": "git.example.com/team/repo/jobs",
        "set": "git.example.com/team/repo/training",
        "jobs": "nlp/bert",
    },
    "ET8028": {
        "kind": "PyTorchJob",
        "problem": (
            "GET /apis/kubeflow.org/v1/namespaces/nlp/pytorchjobs/bert: pytorchjobs.kubeflow.org"
            ' "bert" is forbidden: User "ci" cannot get resource "pytorchjobs" (403 Forbidden)'
        ),
    },
    "ET8029": {
        "field": "spec.hostnameOverride",
        "kind": "Pod",
    },
    "ET9001": {
        "role": "worker",
        "needed": "the data loaders of a training on a GPU",
    },
    "ET9002": {
        "volume": "shm",
        "size": "8Gi",
        "container": "pytorch",
        "limit": "8Gi",
    },
    "ET9003": {
        "said": "--checkpoint-dir /checkpoints",
        "volume": "ckpt",
    },
    "ET9004": {
        "said": "volume ckpt at /checkpoints",
        "path": "/mnt/ckpt",
    },
    "ET9005": {
        "role": "worker",
        "said": "--checkpoint-dir /checkpoints",
    },
    "ET9006": {
        "pods": 2,
        "claim": "data",
        "mode": "ReadWriteOnce",
        "where": "one node",
    },
    "ET9010": {
        "container": "pytorch",
        "count": 1,
        "device": "nvidia.com/gpu",
    },
    "ET9011": {
        "role": "worker",
        "said": "--nproc-per-node 8",
        "gpus": "4 GPUs",
    },
    "ET9012": {
        "role": "worker",
        "option": "--backend nccl",
    },
    "ET9013": {
        "container": "pytorch",
        "limit": "4",
        "threads": 16,
        "said": "OMP_NUM_THREADS 16",
    },
    "ET9014": {
        "container": "pytorch",
        "device": "rdma/hca",
    },
    "ET9020": {
        "role": "worker",
        "policy": "ClusterFirst",
    },
    "ET9021": {
        "count": 2,
        "role": "worker",
        "port": 22,
    },
    "ET9022": {
        "variable": "NCCL_SOCKET_IFNAME",
        "value": "ens5",
        "problem": "a Pod outside the network of its node has eth0 and lo only",
    },
    "ET9030": {
        "limit": 3,
        "problem": "restartPolicy Never lets nothing be tried again, so that nothing is counted",
    },
    "ET9031": {
        "role": "worker",
        "grace": 10,
        "problem": (
            "half of it is left for the checkpoint, 5 s, and etcompile.dev/stop-timeout says that"
            " the command needs 10 s to end"
        ),
    },
    "ET9032": {
        "role": "worker",
        "label": "karpenter.sh/capacity-type",
    },
    "ET9033": {
        "what": "etcompile.dev/gate-timeout",
        "seconds": 1800,
        "deadline": 600,
    },
    "ET9034": {
        "job": "bert",
        "roles": "worker",
    },
    "ET9040": {
        "job": "bert",
        "scheduler": "Kueue",
        "queue": "default",
        "label": "kueue.x-k8s.io/queue-name",
    },
    "ET9041": {
        "role": "worker",
    },
}
"""By the code: a value for each fact that the message and the hint of its rule name."""
