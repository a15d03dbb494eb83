"""Diagnostics about the cluster: 8xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.KUBECONFIG,
        "kubeconfig",
        _ERROR,
        "{problem}",
        "{advice}",
        "The cluster and who asks are found as kubectl finds them: --kubeconfig, else the files of"
        " KUBECONFIG, else ~/.kube/config, else the ServiceAccount of the Pod it runs in.",
        "etcompile diff jobs/ --context prdo   # kubectl config get-contexts",
    ),
    Rule(
        codes.CLUSTER_CREDENTIALS,
        "cluster-credentials",
        _ERROR,
        "{problem}",
        "{advice}",
        "A credential plugin failed, a token cannot be read, or the API server does not accept"
        " what it was shown, also after it was renewed once.",
        "aws sso login   # then again",
    ),
    Rule(
        codes.CLUSTER_UNREACHABLE,
        "cluster-unreachable",
        _ERROR,
        "{problem}",
        "{advice}",
        "No answer came, or none that an API server gives. What may be sent again was, with"
        " growing pauses.",
        "kubectl cluster-info   # the same from kubectl",
    ),
    Rule(
        codes.CLUSTER_REFUSES,
        "cluster-refuses",
        _ERROR,
        "{problem}",
        "{advice}",
        "The API server refused a request, in its own words.",
        'pods is forbidden: User "ci" cannot list resource "pods"',
    ),
    Rule(
        codes.NO_SUCH_JOB_IN_CLUSTER,
        "no-such-job-in-cluster",
        _ERROR,
        "there is no job '{job}' in {where}",
        "{advice}",
        "A job is in the cluster when the ConfigMap that holds it is: it carries the label"
        " etcompile.dev/job, and the key job.yaml.",
        "etcompile status bret",
    ),
    Rule(
        codes.FOREIGN_OBJECT,
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
        codes.MUST_BE_REPLACED,
        "must-be-replaced",
        _ERROR,
        "{object}: {problem}",
        "{advice}",
        "The API refuses this change on an object that exists. With --replace it is deleted and,"
        " once it is gone, created again: a Pod loses its progress. A run of its own"
        " (the annotation etcompile.dev/run) has new names instead, and prunes the old Pods.",
        "etcompile apply jobs/   # after the command of a running worker was changed",
    ),
    Rule(
        codes.OBJECT_REFUSED,
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
        codes.CHANGED_WORLD,
        "changed-world",
        _ERROR,
        "{plan}: {object}: {problem}",
        "make a new plan with `etcompile diff --plan`, and review it",
        "A plan is approved for the objects that it was made for. If they have changed since, doing"
        " it would do something that nobody has seen.",
        "etcompile diff jobs/ --plan plan.json; kubectl delete pod bert-worker-0;"
        " etcompile apply plan.json",
    ),
    Rule(
        codes.UNUSABLE_PLAN,
        "unusable-plan",
        _ERROR,
        "{plan}: {problem}",
        "{advice}",
        "The file is no plan of this version, was changed after it was written, or was made"
        " for something else: a folder, a revision, another cluster's context or namespace than"
        " the one that an option names.",
        "etcompile diff jobs/ --against main --plan plan.json; etcompile apply plan.json",
    ),
    Rule(
        codes.NO_NAME_TO_APPLY,
        "no-name-to-apply",
        _ERROR,
        "{object} has generateName and no name: each apply would create another object",
        "give it a name, or create it with `kubectl create`",
        "To apply is to make an object what a file says, so the file must say which object. A"
        " generated name is another one every time.",
        "metadata: {generateName: eval-}",
    ),
    Rule(
        codes.NO_SUCH_TARGET,
        "no-such-target",
        _ERROR,
        "--target {target} names no object of the plan",
        "{advice}",
        "A run with --target changes the objects that are named, and nothing else. A name that"
        " matches nothing is most likely misspelt, so nothing is done at all.",
        "etcompile apply jobs/ --target Pod/bret-worker-0",
    ),
    Rule(
        codes.NOT_CONFIRMED,
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
        codes.CANNOT_BE_RESTARTED,
        "cannot-be-restarted",
        _ERROR,
        "{job} cannot be run again: {problem}",
        "{advice}",
        "A job is run again as its ConfigMap in the cluster holds it. One that is suspended has no"
        " Pods to run, and one that another version of etcompile wrote has to be applied first.",
        "etcompile restart bert   # and its file says suspend: true",
    ),
    Rule(
        codes.CANNOT_BE_ASKED,
        "cannot-be-asked",
        _ERROR,
        "{job} cannot be asked for a checkpoint: {problem}",
        "{advice}",
        "A checkpoint is asked for by a signal, which the supervisor of each command passes on. It"
        " needs the annotations etcompile.dev/restart: in-place and etcompile.dev/checkpoint-signal"
        " on the job, applied to the cluster, and a command that runs.",
        "etcompile checkpoint bert   # and the job has no checkpoint-signal",
    ),
    Rule(
        codes.ADMISSION_NOT_ASKED,
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
        codes.NO_ROOM_IN_QUOTA,
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
        codes.NOT_TRIED,
        "not-tried",
        _WARNING,
        "{object} could not be tried, as a quota is full: {problem}",
        "the plan deletes Pods that use the quota before it creates this object",
        "A dry run changes nothing, so what the plan deletes still uses the quota while new objects"
        " are tried. Whether they are accepted otherwise is known when the plan is done.",
        "etcompile apply jobs/ --run auto --prune --dry-run=server   # under a full quota",
    ),
    Rule(
        codes.UNUSABLE_NAMESPACE,
        "unusable-namespace",
        _WARNING,
        "the namespace {namespace} {problem}, and apply would be refused",
        "{advice}",
        "A namespace must be there before anything can be created in it. `diff` shows what would"
        " be created nevertheless; `apply` refuses it before it writes anything. A Namespace among"
        " the inputs is created first.",
        "etcompile diff jobs/ -n team-nlp   # before anybody has created team-nlp",
    ),
    Rule(
        codes.API_SERVER_WARNS,
        "api-server-warns",
        _WARNING,
        "the API server warns: {text}",
        "",
        "The API server sends warnings with its answers, for example about deprecated API versions,"
        " Pods that a Pod Security standard would refuse, or a policy in warning mode. Each text is"
        " shown once, also if it came with a dry run.",
        "etcompile apply jobs/   # in a namespace with pod-security.kubernetes.io/warn: restricted",
    ),
    Rule(
        codes.SET_CHANGED,
        "set-changed",
        _WARNING,
        "jobs of the set {former} are now in the set {set}; not declared, and still there: {jobs}",
        "`etcompile delete --job NAME` deletes those that no file declares any more",
        "A folder is a set of jobs, and --prune deletes those that the folder no longer declares."
        " Once the folder has another name, its jobs are in another set, and nothing compares the"
        " former one with files any more.",
        "git mv jobs training && etcompile apply training/",
    ),
    Rule(
        codes.OPERATOR_UNREAD,
        "operator-unread",
        _WARNING,
        "whether an operator runs a {kind} of the same name is unknown: {problem}",
        "whoever applies needs the verb get for {kind} objects",
        "Where an operator runs a job of the same name in the same namespace, both would start"
        " Pods for it, which train side by side and write to one checkpoint. `apply` refuses that,"
        " if it may read the operator's objects.",
        "etcompile apply jobs/   # where the operator's kind is served, and may not be read",
    ),
    Rule(
        codes.FIELD_DROPPED,
        "field-dropped",
        _WARNING,
        "the API server does not keep {field} of a {kind}",
        "enable its feature gate, upgrade the cluster, or remove the field",
        "An API server drops a field without a word if the feature gate of the field is off. The"
        " object is created, and behaves as if the field were not there.",
        "etcompile apply jobs/   # a Pod with spec.hostnameOverride, and HostnameOverride is off",
    ),
)
