"""For each rule of advice an input that shows it, and one that is nearly the same and does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from etcompile import Settings

Value = dict[str, Any]

SHM = {"name": "shm", "emptyDir": {"medium": "Memory"}}
AT_SHM = {"name": "shm", "mountPath": "/dev/shm"}
MEMORY = {"memory": "8Gi"}
HOST_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Case:
    """An input that shows a rule, and a near miss.

    Args:
        shown: The documents that show it, and no other advice.
        near: Those in which nothing is to be said.
        at: What the line has at which it is told.
        says: A part of the message.
        settings: How both are compiled.
    """

    shown: list[Value]
    near: list[Value]
    at: str
    says: str = ""
    settings: Settings = field(default_factory=Settings)


def job(
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    *,
    replicas: int = 2,
    role: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> list[Value]:
    """A PyTorchJob of two workers, and what is changed in it."""
    main = {
        "name": "pytorch",
        "image": "example.com/trainer:1",
        "command": ["python", "train.py"],
        **(container or {}),
    }
    template = {"spec": {"containers": [main], **(pod or {})}}
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "bert", "namespace": "ml", **(metadata or {})},
            "spec": {
                **spec,
                "pytorchReplicaSpecs": {
                    "Worker": {"replicas": replicas, "template": template, **(role or {})}
                },
            },
        }
    ]


def mpi(worker: Mapping[str, Any], container: Mapping[str, Any] | None = None) -> list[Value]:
    """An MPIJob v2beta1 of two workers, whose Pods serve ssh."""
    launcher = {"name": "main", "image": "example.com/mpi:1"}
    main = {**launcher, **(container or {})}
    command = ["mpirun", "-n", "2", "./train"]
    return [
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": "bert", "namespace": "ml"},
            "spec": {
                "mpiReplicaSpecs": {
                    "Launcher": {
                        "replicas": 1,
                        "template": {"spec": {"containers": [{**launcher, "command": command}]}},
                    },
                    "Worker": {
                        "replicas": 2,
                        "template": {"spec": {"containers": [main], **worker}},
                    },
                }
            },
        }
    ]


def launching(
    command: list[str], worker: Mapping[str, Any], container: Mapping[str, Any] | None = None
) -> list[Value]:
    """An MPIJob v2beta1 whose launcher runs this."""
    documents = mpi(worker, container)
    launcher = documents[0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = command
    return documents


def claim(mode: str, namespace: str = "ml") -> Value:
    """A claim that is called data."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }


def in_place(grace: int) -> list[Value]:
    """A job that is asked for checkpoints."""
    return job(
        None,
        {"terminationGracePeriodSeconds": grace},
        metadata={
            "annotations": {
                "etcompile.dev/restart": "in-place",
                "etcompile.dev/checkpoint-signal": "USR1",
            }
        },
    )


def with_volume(source: Value, path: str = "/checkpoints") -> list[Value]:
    """A job with a volume that is called files."""
    mount = {"name": "files", "mountPath": path}
    return job({"volumeMounts": [mount]}, {"volumes": [{"name": "files", **source}]})


def saving(*arguments: str, volume: Value | None = None) -> list[Value]:
    """A job whose command has these arguments, with a volume at /ckpt."""
    command = {"command": ["python", "train.py", *arguments]}
    if volume is None:
        return job(command)
    mount = {"volumeMounts": [{"name": "files", "mountPath": "/ckpt"}]}
    return job({**command, **mount}, {"volumes": [{"name": "files", **volume}]})


def env(**variables: str) -> Value:
    """The environment of a container."""
    return {"env": [{"name": name, "value": value} for name, value in variables.items()]}


def limits(**amounts: str | int) -> Value:
    """The limits of a container: `gpu` is that of NVIDIA."""
    named = {"gpu": "nvidia.com/gpu", "rdma": "rdma/hca"}
    return {"resources": {"limits": {named.get(name, name): n for name, n in amounts.items()}}}


ROOMY = {"volumeMounts": [AT_SHM]}
SHARED = {"volumes": [SHM]}
CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
TORCHRUN = {"command": ["torchrun", "--nproc-per-node=4", "train.py"]}
V1_37 = Settings(kubernetes_version="1.37")


def claiming(name: str) -> list[Value]:
    """A job whose devices come from a ResourceClaimTemplate."""
    container = {**TORCHRUN, "resources": {"claims": [{"name": "gpus"}], "limits": MEMORY}}
    return job(container, {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": name}]})


def claim_template(**request: Any) -> Value:
    """The ResourceClaimTemplate `four`."""
    return {
        "apiVersion": "resource.k8s.io/v1" if "exactly" in request else "resource.k8s.io/v1beta1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "four", "namespace": "ml"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", **request}]}}},
    }


SPOT = {"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}
HOST = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": HOST_LABEL,
                    "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "bert"}},
                }
            ]
        }
    }
}
SIGNAL = {
    "annotations": {
        "etcompile.dev/restart": "in-place",
        "etcompile.dev/checkpoint-signal": "USR1",
    }
}

CASES: dict[str, list[Case]] = {
    "ET9001": [
        Case(
            job(limits(gpu=1, memory="8Gi")),
            job({**limits(gpu=1, memory="8Gi"), **ROOMY}, SHARED),
            "name: pytorch",
            "the data loaders of a training on a GPU",
        ),
        Case(
            job({"command": ["python", "train.py", "--num-workers", "4"]}),
            job({"command": ["python", "train.py", "--num-workers", "0"]}),
            "name: pytorch",
            "--num-workers 4",
        ),
        Case(
            job({"command": ["sh", "-c", "python train.py --dataloader_num_workers=2"]}),
            job({"command": ["sh", "-c", "python train.py --dataloader_num_workers=$N"]}),
            "name: pytorch",
            "--dataloader_num_workers 2",
        ),
        Case(
            job(limits(gpu=8, memory="8Gi")),
            job(limits(gpu=8, memory="8Gi"), {"hostIPC": True}),
            "name: pytorch",
            "NCCL between 8 GPUs",
        ),
    ],
    "ET9002": [
        Case(
            job(
                {**limits(memory="8Gi"), **ROOMY},
                {"volumes": [{**SHM, "emptyDir": {"medium": "Memory", "sizeLimit": "8192Mi"}}]},
            ),
            job(
                {**limits(memory="8Gi"), **ROOMY},
                {"volumes": [{**SHM, "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}]},
            ),
            "sizeLimit: 8192Mi",
        ),
    ],
    "ET9003": [
        Case(with_volume({"emptyDir": {}}), with_volume({"emptyDir": {}}, "/cache"), "/checkpoint"),
        Case(
            saving("--checkpoint-dir=/ckpt/run1", volume={"emptyDir": {}}),
            saving("--checkpoint-dir=/ckpt/run1", volume=CLAIM),
            "--checkpoint-dir",
            "--checkpoint-dir /ckpt/run1 is in 'files'",
        ),
    ],
    "ET9004": [
        Case(
            with_volume({"hostPath": {"path": "/mnt/ckpt"}}),
            with_volume({"hostPath": {"path": "/mnt/data"}}, "/data"),
            "mountPath: /checkpoints",
            "/mnt/ckpt of the node",
        ),
    ],
    "ET9005": [
        Case(
            saving("--checkpoint_dir", "/models/ckpt"),
            saving("--checkpoint_dir", "s3://models/ckpt"),
            "--checkpoint_dir",
        ),
        Case(
            launching(["mpirun", "./train", "--checkpoint-dir=/ckpt"], {}),
            launching(
                ["mpirun", "./train", "--checkpoint-dir=/ckpt"],
                {"volumes": [{"name": "files", **CLAIM}]},
                {"volumeMounts": [{"name": "files", "mountPath": "/ckpt"}]},
            ),
            "--checkpoint-dir",
            "no volume of worker holds",
        ),
        Case(
            job(env(CHECKPOINT_PATH="/out/ckpt")),
            job(env(INIT_CHECKPOINT="/out/ckpt")),
            "/out/ckpt",
            "CHECKPOINT_PATH=/out/ckpt",
        ),
        Case(
            saving("--checkpoint-file=/workspace/ckpt.pt"),
            saving("--resume-from-checkpoint=/workspace/ckpt.pt", "--gradient-checkpointing"),
            "--checkpoint-file",
        ),
    ],
    "ET9006": [
        Case(
            [*with_volume(CLAIM, "/data"), claim("ReadWriteOnce")],
            [*with_volume(CLAIM, "/data"), claim("ReadWriteMany")],
            "claimName: data",
            "2 Pods use claim 'data', which is ReadWriteOnce: one node",
        ),
        Case(
            [*with_volume(CLAIM, "/data"), claim("ReadWriteOncePod")],
            [*with_volume(CLAIM, "/data"), claim("ReadWriteOnce", "other")],
            "claimName: data",
            "one Pod can use it",
        ),
    ],
    "ET9010": [
        Case(
            job({**limits(gpu=1), **ROOMY}, SHARED),
            job({**limits(gpu=1, memory="8Gi"), **ROOMY}, SHARED),
            "resources:",
            "asks for 1 nvidia.com/gpu and for no memory",
        ),
    ],
    "ET9011": [
        Case(
            job({**limits(gpu=2, memory="8Gi"), **TORCHRUN, **ROOMY}, SHARED),
            job({**limits(gpu=4, memory="8Gi"), **TORCHRUN, **ROOMY}, SHARED),
            "--nproc-per-node=4",
            "--nproc-per-node 4, and 2 GPUs",
        ),
        *(
            Case(
                job({**TORCHRUN, **limits(memory="8Gi", **{name: 2})}),
                job({**TORCHRUN, **limits(memory="8Gi", **{name: 4})}),
                "--nproc-per-node=4",
                f"--nproc-per-node 4, and 2 devices ({name})",
            )
            for name in ("habana.ai/gaudi", "aws.amazon.com/neuron", "huawei.com/Ascend910")
        ),
    ],
    "ET9015": [
        Case(
            job({**limits(gpu=8, memory="8Gi"), **TORCHRUN, **ROOMY}, SHARED),
            job({**limits(gpu=4, memory="8Gi"), **TORCHRUN, **ROOMY}, SHARED),
            "--nproc-per-node=4",
            "--nproc-per-node 4, and 8 GPUs",
        ),
        Case(
            [*claiming("four"), claim_template(exactly={"deviceClassName": "gpu", "count": 8})],
            [*claiming("four"), claim_template(exactly={"deviceClassName": "gpu", "count": 4})],
            "--nproc-per-node=4",
            "8 claimed devices",
            V1_37,
        ),
    ],
    "ET9016": [
        Case(
            claiming("elsewhere"),
            [*claiming("four"), claim_template(exactly={"deviceClassName": "gpu", "count": 4})],
            "--nproc-per-node=4",
            settings=V1_37,
        ),
    ],
    "ET9012": [
        Case(
            job({"args": ["--backend", "nccl"]}),
            job({"args": ["--backend", "gloo"]}),
            "--backend",
        ),
    ],
    "ET9013": [
        Case(
            job({**limits(cpu="4"), **env(OMP_NUM_THREADS="16")}),
            job({**limits(cpu="4"), **env(OMP_NUM_THREADS="4")}),
            "cpu:",
            "4 CPUs for 16 threads: OMP_NUM_THREADS 16",
        ),
        Case(
            job({**limits(cpu="3500m"), **TORCHRUN}),
            job({**limits(memory="1Gi"), **TORCHRUN}),
            "cpu: 3500m",
            "--nproc-per-node 4",
        ),
        Case(
            launching(["mpirun", "-x", "OMP_NUM_THREADS=8", "./train"], {}, limits(cpu="4")),
            launching(["mpirun", "-x", "OMP_NUM_THREADS=8", "./train"], {}, limits(cpu="8")),
            "cpu:",
            "4 CPUs for 8 threads",
        ),
        Case(
            job({**limits(cpu="500m"), **env(OMP_NUM_THREADS="2")}),
            job({**limits(cpu="500m"), **env(OMP_NUM_THREADS="1")}),
            "cpu: 500m",
            "500m CPUs for 2 threads",
        ),
    ],
    "ET9014": [
        Case(
            job(limits(rdma=1)),
            job({**limits(rdma=1), "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}),
            "resources:",
        ),
    ],
    "ET9020": [
        Case(
            job(None, {"hostNetwork": True}),
            job(None, HOST),
            "hostNetwork: true",
        ),
        Case(
            job(None, {"hostNetwork": True}),
            job(None, {"hostNetwork": True}, replicas=1),
            "hostNetwork: true",
        ),
    ],
    "ET9021": [
        Case(mpi(HOST), mpi({**HOST, **APART}), "hostNetwork: true", "both need port 22"),
        Case(
            mpi(HOST),
            mpi(HOST, {"ports": [{"name": "ssh", "containerPort": 22}]}),
            "hostNetwork: true",
        ),
    ],
    "ET9022": [
        Case(
            job(env(NCCL_SOCKET_IFNAME="ens5")),
            job(env(NCCL_SOCKET_IFNAME="eth")),
            "value: ens5",
        ),
        Case(
            job(env(GLOO_SOCKET_IFNAME="ib0,ens5")),
            job(env(GLOO_SOCKET_IFNAME="ib0"), HOST),
            "ib0,ens5",
        ),
        Case(
            launching(["mpirun", "-x", "NCCL_SOCKET_IFNAME=ens5", "./train"], {}),
            launching(
                ["mpirun", "-x", "NCCL_SOCKET_IFNAME=ens5", "./train"],
                {**HOST, **APART},
            ),
            "NCCL_SOCKET_IFNAME=ens5",
        ),
        Case(
            job(env(NCCL_SOCKET_IFNAME="=lo")),
            job(env(NCCL_SOCKET_IFNAME="^lo,docker0")),
            "=lo",
            "loopback",
        ),
    ],
    "ET9030": [
        Case(
            job(role={"restartPolicy": "Never"}, runPolicy={"backoffLimit": 3}),
            job(role={"restartPolicy": "OnFailure"}, runPolicy={"backoffLimit": 3}),
            "backoffLimit: 3",
            "allows no restarts",
        ),
        Case(
            job(role={"restartPolicy": "OnFailure"}, runPolicy={"backoffLimit": 0}),
            job(runPolicy={"backoffLimit": 0}),
            "backoffLimit: 0",
            "restartPolicy OnFailure of worker asks for another try",
        ),
    ],
    "ET9031": [
        Case(
            in_place(19),
            in_place(20),
            "terminationGracePeriodSeconds: 19",
            "9 s of it are for the checkpoint",
        ),
        Case(
            job({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 30"]}}}}),
            job({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 5"]}}}}),
            "name: pytorch",
            "its preStop hook sleeps 30 s",
        ),
    ],
    "ET9032": [
        Case(job(None, SPOT), job(None, SPOT, metadata=SIGNAL), "capacity-type: spot"),
        Case(
            job(
                None,
                {"tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]},
            ),
            job(None, {"tolerations": [{"key": "example.com/gpu", "operator": "Exists"}]}),
            "gke-spot",
        ),
    ],
    "ET9040": [
        Case(
            job(limits(cpu="1", memory="1Gi")),
            job(
                limits(cpu="1", memory="1Gi"),
                metadata={"labels": {"kueue.x-k8s.io/queue-name": "research"}},
            ),
            "name: bert",
            "'default' is assumed",
            Settings(gang="kueue", run="lr2"),
        ),
    ],
    "ET9041": [
        Case(
            job({"command": ["python", "-m", "torch.distributed.launch", "train.py"]}),
            job({"command": ["python", "-m", "torch.distributed.run", "train.py"]}),
            "torch.distributed.launch",
        ),
    ],
}


def training_job(worker: Mapping[str, Any], **spec: Any) -> list[Value]:
    """A TrainingJob, whose workers come and go, with a PodSpec of the workers."""
    main = {"name": "main", "image": "example.com/trainer:1"}
    launcher = {**main, "command": ["horovodrun", "-np", "2", "python", "train.py"]}
    return [
        {
            "apiVersion": "kai.alibabacloud.com/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "bert", "namespace": "ml"},
            "spec": {
                **spec,
                "etReplicaSpecs": {
                    "launcher": {"template": {"spec": {"containers": [launcher]}}},
                    "worker": {
                        "replicas": 2,
                        "template": {"spec": {"containers": [main], **worker}},
                    },
                },
            },
        }
    ]


HERE = {"nodeSelector": {"kubernetes.io/hostname": "dgx-1"}}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": HOST_LABEL,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "bert"}},
        }
    ]
}


def annotated(annotations: Mapping[str, str], container: Mapping[str, Any]) -> list[Value]:
    """A job whose Pods have annotations."""
    documents = job(container)
    template = documents[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": dict(annotations)}
    return documents


def on_host(path: str, pod: Mapping[str, Any], **mount: Any) -> list[Value]:
    """A job with a folder of the node at /checkpoints."""
    return job(
        {"volumeMounts": [{"name": "files", "mountPath": "/checkpoints", **mount}]},
        {"volumes": [{"name": "files", "hostPath": {"path": path}}], **pod},
    )


QUIET: dict[str, tuple[str, list[Value], Settings]] = {
    "a claim of one node, and all Pods on it": (
        "ET9006",
        [
            *job(
                {"volumeMounts": [{"name": "files", "mountPath": "/data"}]},
                {"volumes": [{"name": "files", **CLAIM}], **HERE},
            ),
            claim("ReadWriteOnce"),
        ],
        Settings(),
    ),
    "a claim of one node, and one Pod": (
        "ET9006",
        [
            *job(
                {"volumeMounts": [{"name": "files", "mountPath": "/data"}]},
                {"volumes": [{"name": "files", **CLAIM}]},
                replicas=1,
            ),
            claim("ReadWriteOnce"),
        ],
        Settings(),
    ),
    "checkpoints on the node that is named": ("ET9004", on_host("/mnt", HERE), Settings()),
    "checkpoints that are only read": ("ET9004", on_host("/mnt", {}, readOnly=True), Settings()),
    "an option for checkpoints that are only read": (
        "ET9003",
        job(
            {
                "command": ["python", "train.py", "--checkpoint=/base/ckpt.pt"],
                "volumeMounts": [{"name": "files", "mountPath": "/base", "readOnly": True}],
            },
            {"volumes": [{"name": "files", "emptyDir": {}}]},
        ),
        Settings(),
    ),
    "workers that come and go on spot nodes": ("ET9032", training_job(SPOT), Settings()),
    "the backoffLimit that the API server fills in": (
        "ET9030",
        training_job({}, backoffLimit=6, restartPolicy="Never"),
        Settings(),
    ),
    "restarts of all replicas together": (
        "ET9030",
        job(
            role={"restartPolicy": "Never"},
            metadata={"annotations": {"etcompile.dev/restart-together": "true"}},
            runPolicy={"backoffLimit": 3},
        ),
        Settings(),
    ),
    "a Job that makes another Pod of its launcher": (
        "ET9030",
        [
            {
                **mpi({})[0],
                "spec": {**mpi({})[0]["spec"], "runPolicy": {"backoffLimit": 3}},
            }
        ],
        Settings(),
    ),
    "an interface that Multus brings": (
        "ET9022",
        annotated({"k8s.v1.cni.cncf.io/networks": "rdma"}, env(NCCL_SOCKET_IFNAME="net1")),
        Settings(),
    ),
    "an interface that a variable names": (
        "ET9022",
        job(env(NCCL_SOCKET_IFNAME="$(INTERFACE)")),
        Settings(),
    ),
    "GPUs by a claim of devices": (
        "ET9012",
        job(
            {"args": ["--backend", "nccl"], "resources": {"claims": [{"name": "gpus"}]}},
            {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]},
        ),
        Settings(),
    ),
    "memory of the whole Pod": (
        "ET9010",
        job({**limits(gpu=1), **ROOMY}, {**SHARED, "resources": {"requests": MEMORY}}),
        Settings(),
    ),
    "replicas that are spread over nodes": ("ET9021", mpi({**HOST, **SPREAD}), Settings()),
    "a queue that the policy names": (
        "ET9040",
        job(limits(cpu="1", memory="1Gi"), runPolicy={"schedulingPolicy": {"queue": "research"}}),
        Settings(gang="kueue", run="lr2"),
    ),
    "processes of MPI that share a GPU": (
        "ET9011",
        [
            {
                **(SLOTS_BASE := launching(["mpirun", "./train"], {}, limits(gpu=1, memory="8Gi")))[
                    0
                ],
                "spec": {**SLOTS_BASE[0]["spec"], "slotsPerWorker": 2},
            }
        ],
        Settings(),
    ),
}
"""Inputs in which a rule, which is named, finds nothing: why, in words."""


def text(documents: list[Value]) -> str:
    """The documents as a file."""
    return yaml.safe_dump_all(documents, sort_keys=False)
