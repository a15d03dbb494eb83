"""Advice about training: 9xxx. Its rules are modules of `etcompile.lint.rules`."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_WARNING = Severity.WARNING
_KUBERNETES = "https://kubernetes.io/docs/"
_TORCH = "https://docs.pytorch.org/docs/stable/"

RULES = (
    Rule(
        codes.NO_SHARED_MEMORY,
        "no-shared-memory",
        _WARNING,
        "{role} has 64 MiB of shared memory, and {needed} may need more",
        "mount an emptyDir with medium: Memory at /dev/shm",
        "A container runtime gives a container 64 MiB at /dev/shm. Worker processes of a data"
        " loader of PyTorch hand their batches over there, and NCCL its buffers between GPUs of one"
        " node. When it is full, a worker dies of a bus error, often hours into the run. A volume"
        " in memory counts against the container's memory limit.",
        "kind: PyTorchJob\n…\n  - name: pytorch\n    resources: {limits: {nvidia.com/gpu: 1}}",
        source="https://github.com/pytorch/pytorch#using-pre-built-images",
    ),
    Rule(
        codes.MEMORY_VOLUME_TOO_LARGE,
        "memory-volume-too-large",
        _WARNING,
        "volume '{volume}' may take {size} of memory, and container '{container}' has {limit}",
        "lower its sizeLimit, or raise the memory limit",
        "Files in an emptyDir with medium: Memory count against the memory limit of the container"
        " that writes them. Before the volume is full, the container is killed for its memory.",
        "resources: {limits: {memory: 8Gi}}\n…\n"
        "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]",
        source=_KUBERNETES + "concepts/storage/volumes/#emptydir",
    ),
    Rule(
        codes.CHECKPOINT_IN_EMPTY_DIR,
        "checkpoint-in-empty-dir",
        _WARNING,
        "checkpoints are lost with their Pod: {said} is in '{volume}', an emptyDir",
        "use a PersistentVolumeClaim, or an object store",
        "An emptyDir is deleted with its Pod. A replica that is replaced, for a lost node or after"
        " a preemption, finds nothing to begin from: exactly then a checkpoint is needed.",
        "args: [--checkpoint-dir=/checkpoints]\n"
        "volumeMounts: [{name: ckpt, mountPath: /checkpoints}]\n…\n"
        "volumes: [{name: ckpt, emptyDir: {}}]",
        source=_KUBERNETES + "concepts/storage/volumes/#emptydir",
    ),
    Rule(
        codes.CHECKPOINT_ON_ONE_NODE,
        "checkpoint-on-one-node",
        _WARNING,
        "checkpoints stay on one node: {said} is in {path} of the node",
        "use a PersistentVolumeClaim, or an object store",
        "A hostPath is a folder of the node that the Pod runs on. The Pod that replaces it may run"
        " on another node, and finds other files there, or none.",
        "volumeMounts: [{name: ckpt, mountPath: /checkpoints}]\n…\n"
        "volumes: [{name: ckpt, hostPath: {path: /mnt/ckpt}}]",
        source=_KUBERNETES + "concepts/storage/volumes/#hostpath",
    ),
    Rule(
        codes.CHECKPOINT_IN_CONTAINER,
        "checkpoint-in-container",
        _WARNING,
        "checkpoints are lost with their container: no volume of {role} holds {said}",
        "mount a PersistentVolumeClaim there, or write to an object store",
        "What no volume holds is in the file system of the container. It is gone when the container"
        " ends, also where the kubelet starts it again in the same Pod.",
        "args: [--checkpoint-dir=/checkpoints]   # and no volumeMounts",
        source=_KUBERNETES + "concepts/storage/volumes/#background",
    ),
    Rule(
        codes.CLAIM_OF_ONE_NODE,
        "claim-of-one-node",
        _WARNING,
        "{pods} Pods use claim '{claim}', which is {mode}: {where} can use it at a time",
        "use a claim that is ReadWriteMany, or one for each Pod (volumes[].ephemeral)",
        "A ReadWriteOnce volume is attached to one node at a time, a ReadWriteOncePod volume is"
        " used by one Pod. Pods of the job on other nodes wait for it in ContainerCreating, and"
        " their peers wait for them.",
        "kind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], …}\n---\n"
        "kind: PyTorchJob   # two workers, both with that claim",
        source=_KUBERNETES + "concepts/storage/persistent-volumes/#access-modes",
    ),
    Rule(
        codes.GPU_WITHOUT_MEMORY,
        "gpu-without-memory",
        _WARNING,
        "container '{container}' asks for {count} {device} and for no memory",
        "set resources.limits.memory, which is its request too",
        "Without a request the scheduler puts the Pod on a node whose memory others have already"
        " asked for. When memory runs short there, Pods that use more than they asked for are"
        " evicted first, and with them a GPU and the run.",
        "resources: {limits: {nvidia.com/gpu: 1}}",
        source=_KUBERNETES + "concepts/scheduling-eviction/node-pressure-eviction/"
        "#pod-selection-for-kubelet-eviction",
    ),
    Rule(
        codes.MORE_PROCESSES_THAN_GPUS,
        "more-processes-than-gpus",
        _WARNING,
        "{role} starts more processes than it has GPUs: {said}, and {gpus}",
        "ask for as many GPUs as there are processes, or start fewer",
        "Each process takes the GPU of its local rank. The ones beyond the last GPU fail at once"
        " with 'invalid device ordinal', or share a GPU, which NCCL refuses.",
        'command: [torchrun, --nproc-per-node, "8", train.py]\n'
        "resources: {limits: {nvidia.com/gpu: 4}}",
        source=_TORCH + "elastic/run.html",
    ),
    Rule(
        codes.NCCL_WITHOUT_GPU,
        "nccl-without-gpu",
        _WARNING,
        "{role} uses {option}, and asks for no GPU",
        "ask for GPUs, or use gloo",
        "NCCL exchanges the memory of GPUs only. Without one, torch.distributed fails when the"
        " process group is made, or at the first exchange. A Pod that does not ask for a GPU has"
        " none, unless the node gives all of its GPUs to every container.",
        "args: [--backend, nccl]   # and no nvidia.com/gpu",
        source=_TORCH + "distributed.html#which-backend-to-use",
    ),
    Rule(
        codes.FEWER_PROCESSORS_THAN_THREADS,
        "fewer-processors-than-threads",
        _WARNING,
        "container '{container}' may use {limit} CPUs for {threads} threads: {said}",
        "raise or remove the CPU limit, or start fewer threads",
        "Threads beyond the CPU limit do not run beside the others: the kernel stops all of them"
        " for the rest of each period of 100 ms. Ranks that are stopped at different times wait for"
        " each other at every step.",
        "env: [{name: OMP_NUM_THREADS, value: '16'}]\nresources: {limits: {cpu: '4'}}",
        source=_KUBERNETES + "concepts/configuration/manage-resources-containers/"
        "#how-pods-with-resource-limits-are-run",
    ),
    Rule(
        codes.RDMA_WITHOUT_LOCKED_MEMORY,
        "rdma-without-locked-memory",
        _WARNING,
        "container '{container}' asks for {device} and may not lock memory",
        "set securityContext.capabilities.add: [IPC_LOCK]",
        "A device for RDMA reads memory that is locked in place. Without the capability IPC_LOCK a"
        " container may lock only as much as the limits of its runtime say: NCCL falls back to TCP,"
        " or fails with 'Cannot allocate memory'.",
        "resources: {limits: {rdma/hca: 1}}",
        source="https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/blob/master/example/test-hca-pod.yaml",
    ),
    Rule(
        codes.HOST_NETWORK_WITHOUT_DNS,
        "host-network-without-dns",
        _WARNING,
        "{role} cannot look its peers up: hostNetwork with dnsPolicy {policy} asks the node's DNS",
        "set dnsPolicy: ClusterFirstWithHostNet",
        "The ranks of a job find each other by the names of Services. In the network of its node, a"
        " Pod with the dnsPolicy ClusterFirst, which is the default, uses the node's own resolver."
        " It knows no Services.",
        "spec: {hostNetwork: true, containers: […]}",
        source=_KUBERNETES + "concepts/services-networking/dns-pod-service/#pod-s-dns-policy",
    ),
    Rule(
        codes.HOST_PORTS_CLASH,
        "host-ports-clash",
        _WARNING,
        "two of the {count} Pods of {role} may land on one node, where both want port {port}",
        "declare the port of the container, or add a podAntiAffinity over kubernetes.io/hostname",
        "Pods in the network of their node share its ports. The scheduler keeps two Pods with the"
        " same port apart only where their containers declare it, or an affinity does. Else the"
        " second one fails to listen, or is taken for the first.",
        "spec: {hostNetwork: true, containers: […]}   # and no ports",
        source=_KUBERNETES + "reference/scheduling/config/#scheduling-plugins",
    ),
    Rule(
        codes.INTERFACE_OF_THE_HOST,
        "interface-of-the-host",
        _WARNING,
        "{variable} is '{value}': {problem}",
        "remove it, name eth0, or set hostNetwork: true",
        "NCCL and Gloo talk through the interfaces that these variables name, in a container or by"
        " mpirun -x, and fail without them. A Pod has a network of its own, whose interface is"
        " called eth0 whatever those of the node are called; more come from an annotation for"
        " Multus only.",
        "env: [{name: NCCL_SOCKET_IFNAME, value: ens5}]   # without hostNetwork",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    Rule(
        codes.RETRIES_CONTRADICT,
        "retries-contradict",
        _WARNING,
        "backoffLimit {limit} contradicts the restart policy: {problem}",
        "change one of the two",
        "The limit counts what the restart policy brings back. With the policy Never there is"
        " nothing to count, and with the limit 0 the first failure ends the run.",
        "runPolicy: {backoffLimit: 3}\npytorchReplicaSpecs: {Worker: {restartPolicy: Never, …}}",
        source="reference/training-operator.md 5.4",
    ),
    Rule(
        codes.SHORT_GRACE_PERIOD,
        "short-grace-period",
        _WARNING,
        "{role} has {grace} s between TERM and KILL: {problem}",
        "raise terminationGracePeriodSeconds",
        "When a Pod is deleted or its node is drained, its command has the grace period to write a"
        " checkpoint and to end; then it is killed. A preStop hook runs within that time. With"
        " etcompile.dev/checkpoint-signal half of it is for the checkpoint (docs/recovery.md).",
        "terminationGracePeriodSeconds: 10\n…\n"
        "annotations: {etcompile.dev/checkpoint-signal: USR1}",
        source=_KUBERNETES + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
    Rule(
        codes.SPOT_WITHOUT_CHECKPOINT_SIGNAL,
        "spot-without-checkpoint-signal",
        _WARNING,
        "{role} runs on nodes that may be taken away ({label}), and nothing asks for a checkpoint",
        "set etcompile.dev/restart: in-place and etcompile.dev/checkpoint-signal: USR1",
        "Before a spot node goes, only the Pods on it are told, by TERM. All other ranks learn of"
        " it when they hang, and everything since the last checkpoint is lost. With a checkpoint"
        " signal the watcher tells all ranks at once (docs/recovery.md). Jobs that go on with fewer"
        " replicas do not need it.",
        "nodeSelector: {karpenter.sh/capacity-type: spot}",
        source="https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms",
    ),
    Rule(
        codes.DEADLINE_BEFORE_GATE,
        "deadline-before-gate",
        _WARNING,
        "{what} of {seconds} s never ends the wait: the run fails after {deadline} s",
        "make it shorter than activeDeadlineSeconds",
        "The deadline of a run counts from its start, the wait for its Pods included. Where it"
        " comes first, the run fails for its deadline, and nobody says which Pod was missing.",
        "annotations: {etcompile.dev/gate-timeout: '1800'}\n…\n"
        "runPolicy: {activeDeadlineSeconds: 600}",
        source="reference/training-operator.md 5.5",
    ),
    Rule(
        codes.EVICTABLE,
        "evictable",
        _WARNING,
        "nothing keeps an autoscaler from evicting the Pods of job '{job}': {roles}",
        'annotate the Pods with karpenter.sh/do-not-disrupt: "true" and'
        ' cluster-autoscaler.kubernetes.io/safe-to-evict: "false", or add a PodDisruptionBudget',
        "An autoscaler moves Pods to fewer nodes through the eviction API. For a training that is a"
        " failure of all ranks. An annotation of the Pods or a PodDisruptionBudget among the inputs"
        " forbids it. Whether there is an autoscaler, no file says.",
        "a job without these annotations, in a cluster with Karpenter",
        source="https://karpenter.sh/docs/concepts/disruption/",
        opt_in=True,
    ),
    Rule(
        codes.GANG_WITHOUT_QUEUE,
        "gang-without-queue",
        _WARNING,
        "job '{job}' names no queue for {scheduler}: '{queue}' is assumed",
        "label the job with {label}",
        "Kueue and KAI leave Pods waiting, and say little of it, where their queue is not there."
        " Without a name the default one is taken, which not every cluster has.",
        "etcompile check job.yaml --gang kueue   # and no kueue.x-k8s.io/queue-name",
        source="reference/gang-scheduling.md 4",
    ),
    Rule(
        codes.RETIRED_LAUNCHER,
        "retired-launcher",
        _WARNING,
        "{role} starts its processes by torch.distributed.launch, which torchrun has replaced",
        "use torchrun, and read the local rank from the variable LOCAL_RANK",
        "PyTorch keeps the module for old scripts only. It passes --local-rank to the script, or"
        " --local_rank before PyTorch 2.0, which a script that reads the variable does not expect.",
        "command: [python, -m, torch.distributed.launch, train.py]",
        source=_TORCH + "elastic/run.html",
    ),
)
