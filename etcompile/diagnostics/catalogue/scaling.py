"""Diagnostics about ScaleOut, ScaleIn and ScalePlan: 3xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.NO_SUCH_JOB,
        "no-such-job",
        _ERROR,
        "{intent} selects job '{job}', which is not among the inputs",
        "{advice}",
        "A scale intent is folded into its job when both are compiled together. et-operator"
        " silently drops an intent whose job is missing.",
        "selector: {name: mnits}",
    ),
    Rule(
        codes.NO_SUCH_WORKER,
        "no-such-worker",
        _ERROR,
        "{intent} removes '{pod}', which {problem}",
        "workers at that point: {workers}",
        "et-operator drops unknown names, and when none is left it deletes every worker of the"
        " job.",
        "podNames: [mnist-worker-7]",
    ),
    Rule(
        codes.SAME_SEQUENCE,
        "same-sequence",
        _ERROR,
        "{intent} has the same sequence {sequence} as {other}",
        "give each intent of a job another sequence number",
        "The annotation etcompile.dev/sequence orders the intents of a job; two equal numbers"
        " leave the order open.",
        'annotations: {etcompile.dev/sequence: "2"}',
    ),
    Rule(
        codes.ABOVE_MAX,
        "above-max",
        _ERROR,
        "{intent} would make {replicas} workers, but {limit} is {maximum}",
        "raise {limit} in the job, or add fewer",
        "et-operator never reads maxReplicas.",
        "toAdd: {count: 9} with maxReplicas: 4",
    ),
    Rule(
        codes.BELOW_MIN,
        "below-min",
        _ERROR,
        "{intent} would leave {replicas} workers, but {floor}",
        "{advice}",
        "et-operator never reads minReplicas, and by names it can remove"
        " every worker. Horovod needs one surviving host to go on.",
        "toDelete: {count: 2} with 2 workers",
    ),
    Rule(
        codes.NOT_SCALABLE,
        "not-scalable",
        _ERROR,
        "{intent} selects job '{job}', which {problem}",
        "{advice}",
        "Only the workers of an elastic job can be scaled: all others are told at their start how"
        " many there are, and a running Pod cannot be told anew.",
        "a ScaleOut of a job without workers",
    ),
    Rule(
        codes.COUNT_IGNORED,
        "count-ignored",
        _WARNING,
        "toDelete.count has no effect when podNames is given",
        "remove one of the two",
        "If both are given, podNames decides which workers are removed, as with the operator.",
        "toDelete: {count: 1, podNames: [a-worker-1]}",
    ),
    Rule(
        codes.INTENT_HAD_FAILED,
        "intent-had-failed",
        _WARNING,
        "{intent} is recorded as ScaleFailed and was left out",
        "remove it, or its status to try it again",
        "The file is a dump from a cluster where this intent had failed: the running job does"
        " not contain it.",
        "status: {phase: ScaleFailed}",
    ),
    Rule(
        codes.SCRIPT_NOT_RUN,
        "script-not-run",
        _WARNING,
        "{where} is not run: no controller executes scripts in the launcher",
        "let the training react to the host list, or run the script yourself",
        "The host list is data in a ConfigMap here, not the result of a script.",
        "script: /workspace/scale.sh",
    ),
    Rule(
        codes.SEQUENCE_MALFORMED,
        "sequence-malformed",
        _ERROR,
        "annotation {name} must be {expected}, not '{found}'",
        "{advice}",
        "The order of intents must be decidable from the files alone.",
        "annotations: {etcompile.dev/sequence: second}",
    ),
    Rule(
        codes.INTENT_NAME,
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
        codes.ANCHORED_WORKER,
        "anchored-worker",
        _ERROR,
        "{intent} cannot remove {pod}: {reason}",
        "{advice}",
        "An elastic PyTorch job meets at its first worker unless elasticPolicy.rdzvHost names"
        " another place; without it all others would lose each other.",
        "toDelete: {podNames: [echo-worker-0]}",
    ),
    Rule(
        codes.NO_JOB_TO_SCALE,
        "no-job-to-scale",
        _ERROR,
        "there is no job '{job}' in {where}",
        "{advice}",
        "`etcompile scale` writes a scale intent beside the job it is for, so it looks for the job"
        " in the files, not in a cluster.",
        "etcompile scale bret --to 4 jobs/",
    ),
    Rule(
        codes.WHICH_JOB,
        "which-job",
        _ERROR,
        "'{job}' is the name of {count} jobs: {jobs}",
        "{advice}",
        "A job is known by its kind, its namespace and its name; the name alone is not enough where"
        " two share it.",
        "etcompile scale bert --to 4   # of nlp/bert and of vision/bert",
    ),
    Rule(
        codes.NOT_ELASTIC,
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
        codes.PLAN_NOT_POSSIBLE,
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
        codes.PLAN_WITHOUT_JOB,
        "plan-without-job",
        _ERROR,
        "this ScalePlan names no job",
        "add the label {label}: JOB",
        "DLRover's master finds plans by this label.",
        "kind: ScalePlan without metadata.labels",
    ),
    Rule(
        codes.PLAN_WITHOUT_LABEL,
        "plan-without-label",
        _WARNING,
        "this ScalePlan has no label {label}: its job is taken from ownerJob or an old label",
        "add the label",
        "DLRover's master looks at this label only; upstream's documents and samples use"
        " `elasticjob-name`, which no master has ever looked at.",
        "labels: {elasticjob-name: mnist}",
    ),
    Rule(
        codes.NUMBER_NOT_WRITTEN,
        "number-not-written",
        _ERROR,
        "the number of workers of '{job}' cannot be changed in its file: {reason}",
        "{advice}",
        "`etcompile scale --in-place` changes one number in the job's own file, and nothing else of"
        " it. Where there is no such number, or scale intents count from it, that would not do what"
        " was asked for; without --in-place an intent is written beside the job.",
        "etcompile scale bert --to 4 --in-place   # beside the job there is a ScaleOut",
    ),
)
