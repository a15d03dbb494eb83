"""For each rule of advice an input that shows it, and one that is nearly the same and does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

import specs
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
    """

    shown: list[Value]
    near: list[Value]
    at: str
    says: str = ""
    settings: Settings = field(default_factory=Settings)


SIGNAL = {
    "annotations": {"etcompile.dev/restart": "in-place", "etcompile.dev/checkpoint-signal": "USR1"}
}


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
    main = {"command": ["python", "train.py"], **(container or {})}
    worker = {**specs.replicas("PyTorchJob", replicas, **main), **(role or {})}
    worker["template"]["spec"] |= pod or {}
    value = specs.kubeflow_job("PyTorchJob", {"Worker": worker}, **spec)
    value["metadata"] = {"name": "bert", "namespace": "ml", **(metadata or {})}
    return [value]


def mpi(
    worker: Mapping[str, Any],
    container: Mapping[str, Any] | None = None,
    command: Sequence[str] = ("mpirun", "-n", "2", "./train"),
    **spec: Any,
) -> list[Value]:
    """An MPIJob v2beta1 of two workers, whose Pods serve ssh, and whose launcher runs this."""
    value = specs.mpi_job("v2beta1")
    value["metadata"]["namespace"] = "ml"
    types = value["spec"]["mpiReplicaSpecs"]
    types["Launcher"]["template"]["spec"]["containers"][0]["command"] = [*command]
    types["Worker"]["template"]["spec"]["containers"][0] |= container or {}
    types["Worker"]["template"]["spec"] |= worker
    value["spec"] |= spec
    return [value]


def launching(
    command: list[str], worker: Mapping[str, Any], container: Mapping[str, Any] | None = None
) -> list[Value]:
    return mpi(worker, container, command)


def claim(mode: str, namespace: str = "ml") -> Value:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }


def in_place(grace: int) -> list[Value]:
    return job(None, {"terminationGracePeriodSeconds": grace}, metadata=SIGNAL)


def with_volume(source: Value, path: str = "/checkpoints") -> list[Value]:
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
    container = {**TORCHRUN, "resources": {"claims": [{"name": "gpus"}], "limits": MEMORY}}
    return job(container, {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": name}]})


def claim_template(**request: Any) -> Value:
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
        )
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
        )
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
        )
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
        )
    ],
    "ET9012": [
        Case(
            job({"args": ["--backend", "nccl"]}), job({"args": ["--backend", "gloo"]}), "--backend"
        )
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
        )
    ],
    "ET9020": [
        Case(job(None, {"hostNetwork": True}), job(None, HOST), "hostNetwork: true"),
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
            job(env(NCCL_SOCKET_IFNAME="ens5")), job(env(NCCL_SOCKET_IFNAME="eth")), "value: ens5"
        ),
        Case(
            job(env(GLOO_SOCKET_IFNAME="ib0,ens5")),
            job(env(GLOO_SOCKET_IFNAME="ib0"), HOST),
            "ib0,ens5",
        ),
        Case(
            launching(["mpirun", "-x", "NCCL_SOCKET_IFNAME=ens5", "./train"], {}),
            launching(["mpirun", "-x", "NCCL_SOCKET_IFNAME=ens5", "./train"], {**HOST, **APART}),
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
                None, {"tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]}
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
        Case(
            job(limits(cpu="1", memory="1Gi")),
            job(
                limits(cpu="1", memory="1Gi"), runPolicy={"schedulingPolicy": {"queue": "research"}}
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
        )
    ],
}


def training_job(worker: Mapping[str, Any], **spec: Any) -> list[Value]:
    """A TrainingJob, whose workers come and go, with a PodSpec of the workers."""
    value = specs.training_job(**spec)
    value["metadata"]["namespace"] = "ml"
    specs.worker(value)["template"]["spec"] |= worker
    return [value]


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
    documents = job(container)
    template = documents[0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": dict(annotations)}
    return documents


def on_host(path: str, pod: Mapping[str, Any], **mount: Any) -> list[Value]:
    return job(
        {"volumeMounts": [{"name": "files", "mountPath": "/checkpoints", **mount}]},
        {"volumes": [{"name": "files", "hostPath": {"path": path}}], **pod},
    )


AT_DATA = {"volumeMounts": [{"name": "files", "mountPath": "/data"}]}
FILES = {"volumes": [{"name": "files", **CLAIM}]}
TOGETHER = {"annotations": {"etcompile.dev/restart-together": "true"}}
READ_ONLY = {"volumeMounts": [{"name": "files", "mountPath": "/base", "readOnly": True}]}
OF_A_CLAIM = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]}

QUIET: dict[str, list[Value]] = {
    "ET9003: an option for checkpoints that are only read": job(
        {"command": ["python", "train.py", "--checkpoint=/base/ckpt.pt"], **READ_ONLY},
        {"volumes": [{"name": "files", "emptyDir": {}}]},
    ),
    "ET9004: checkpoints on the node that is named": on_host("/mnt", HERE),
    "ET9004: checkpoints that are only read": on_host("/mnt", {}, readOnly=True),
    "ET9006: a claim of one node, and all Pods on it": [
        *job(AT_DATA, {**FILES, **HERE}),
        claim("ReadWriteOnce"),
    ],
    "ET9006: a claim of one node, and one Pod": [
        *job(AT_DATA, FILES, replicas=1),
        claim("ReadWriteOnce"),
    ],
    "ET9010: memory of the whole Pod": job(
        {**limits(gpu=1), **ROOMY}, {**SHARED, "resources": {"requests": MEMORY}}
    ),
    "ET9011: processes of MPI that share a GPU": mpi(
        {}, limits(gpu=1, memory="8Gi"), ["mpirun", "./train"], slotsPerWorker=2
    ),
    "ET9012: GPUs by a claim of devices": job(
        {"args": ["--backend", "nccl"], "resources": {"claims": [{"name": "gpus"}]}}, OF_A_CLAIM
    ),
    "ET9021: replicas that are spread over nodes": mpi({**HOST, **SPREAD}),
    "ET9022: an interface that Multus brings": annotated(
        {"k8s.v1.cni.cncf.io/networks": "rdma"}, env(NCCL_SOCKET_IFNAME="net1")
    ),
    "ET9022: an interface that a variable names": job(env(NCCL_SOCKET_IFNAME="$(INTERFACE)")),
    "ET9030: the backoffLimit that the API server fills in": training_job(
        {}, backoffLimit=6, restartPolicy="Never"
    ),
    "ET9030: restarts of all replicas together": job(
        role={"restartPolicy": "Never"}, metadata=TOGETHER, runPolicy={"backoffLimit": 3}
    ),
    "ET9030: a Job that makes another Pod of its launcher": mpi({}, runPolicy={"backoffLimit": 3}),
    "ET9032: workers that come and go on spot nodes": training_job(SPOT),
}
"""Inputs in which a rule finds nothing: which one, and why, in words."""


def text(documents: list[Value]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False)
