"""Diagnostics about output: 5xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.FOREIGN_FILE,
        "foreign-file",
        _ERROR,
        "{path} was not written by etcompile and would be overwritten",
        "move it away, or choose another output directory",
        "Only files that carry etcompile's header are replaced or removed.",
        "etcompile render job.yaml -d .   # with a hand-written kustomization.yaml",
    ),
    Rule(
        codes.OUTPUT_DIRECTORY,
        "output-directory",
        _ERROR,
        "cannot use {path} as output directory: {reason}",
        "{advice}",
        "The directory is replaced as a whole, so that a reader never sees half of a render.",
        "etcompile render job.yaml -d .",
    ),
    Rule(
        codes.WRITE_FAILED,
        "write-failed",
        _ERROR,
        "cannot write {path}: {reason}",
        "",
        "The operating system refused to write, or the file is read-only or was changed by somebody"
        " since it was read. The files that were there before are unchanged.",
        "a full disk",
    ),
    Rule(
        codes.TEMPLATE,
        "template",
        _ERROR,
        "template {template}: {problem}",
        "compare with the one etcompile ships: {shipped}",
        "A template of the folder that the setting templates names does not render.",
        "{{ undefined_name }}",
    ),
    Rule(
        codes.OPTION,
        "option",
        _ERROR,
        "{option}: {problem}",
        "{advice}",
        "The option's value cannot be used.",
        "--config kubernetes-version=1.99",
    ),
    Rule(
        codes.NOTHING_RENDERED,
        "nothing-rendered",
        _ERROR,
        "the inputs hold no job and no object to render",
        "name the file that holds the job",
        "An empty render would, with pruning on, delete everything.",
        "etcompile render scale-out.yaml   # without its job",
    ),
    Rule(
        codes.IMPOSSIBLE_CHOICE,
        "impossible-choice",
        _ERROR,
        "{option} cannot be '{value}': {problem}",
        "choose another value",
        "A program that embeds etcompile chooses how to compile. A value that no option can have"
        " is refused before anything is compiled, as it is on the command line.",
        'Settings(kubernetes_version="9.9")    # Settings(kubernetes_version="1.34")',
    ),
    Rule(
        codes.EDITED_BY_HAND,
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
        codes.IMMUTABLE_CHANGE,
        "immutable-change",
        _ERROR,
        "{what}: {field} cannot change from {old} to {new}",
        "{advice}",
        "Kubernetes refuses this change on an object that exists: applying it fails after the"
        " merge. The output folder tells what exists, so it is refused before.",
        "command: [python, train.py]   # was [python, main.py]: annotate etcompile.dev/run: two",
    ),
    Rule(
        codes.IMAGE_IN_PLACE,
        "image-in-place",
        _WARNING,
        "{what}: {field} changes from {old} to {new}, which restarts that container in place",
        "{advice}",
        "An image is nearly the only field of a Pod that may change. Each container restarts when"
        " its node sees the change, so for a while old and new versions train together.",
        "image: trainer:2   # was trainer:1",
    ),
    Rule(
        codes.REPLACED_OBJECT,
        "replaced-object",
        _WARNING,
        "{what} must be deleted before this is applied: {field} changes from {old} to {new}",
        "",
        "With --replace a change is rendered that the API server refuses for an existing object."
        " etcompile does not delete the object in the cluster.",
        "etcompile render jobs/ -d out/ --replace",
    ),
    Rule(
        codes.LOCK_UNREADABLE,
        "lock-unreadable",
        _ERROR,
        "cannot use {path}: {reason}",
        "restore it from Git, or pass --force to render anew over everything with our header",
        "The lock file tells which files are etcompile's own and which were edited. A merge"
        " conflict in it is solved by rendering again with --force.",
        "<<<<<<< HEAD   # in out/etcompile.lock.json",
    ),
    Rule(
        codes.UNUSED_TEMPLATE,
        "unused-template",
        _WARNING,
        "this file in the folder of templates replaces no template",
        "{advice}",
        "A template replaces the one of the same name that etcompile ships; under any other name"
        " it is never read, unless one that is read includes it.",
        "mytemplates/discover_host.sh.j2   # discover_hosts.sh.j2",
    ),
    Rule(
        codes.NOTHING_TO_MIGRATE,
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
        codes.ENCRYPTED_NEEDS_FOLDER,
        "encrypted-needs-folder",
        _ERROR,
        "job '{job}' would get a new key pair each time: --secret {kind} needs the folder of the"
        " last"
        " output",
        "render to a folder with -d DIR, and apply or compare that folder",
        "A key pair that the output holds encrypted is made once and then kept as it stands: what"
        " was encrypted cannot be read again here, and another pair would cut a running job in two."
        " Where nothing is kept, as on a stream, there is nothing to keep it in.",
        "etcompile render jobs/ --secret sealed:cert.pem   # without -d out/",
    ),
    Rule(
        codes.KEY_PAIR_STAYS,
        "key-pair-stays",
        _ERROR,
        "{what} cannot stay as it is: {problem}",
        "{advice}",
        "Only who holds the private key of the certificate, or the identity of the recipient, can"
        " read an encrypted key pair and encrypt it for somebody else; etcompile cannot. A new pair"
        " would not fit the Pods that run with the old one, and the Secret is immutable. So stay"
        " with what it was encrypted for until the run has ended, or begin a new run: its Secret"
        " has a name and a key pair of its own.",
        "etcompile render jobs/ -d out/ --secret sealed:renewed.pem   # sealed with the old one",
    ),
    Rule(
        codes.SECRET_SOURCE,
        "secret-source",
        _ERROR,
        "{option}: {problem}",
        "see docs/secrets.md",
        "What a mode of --secret needs cannot be used: the certificate of Sealed Secrets, the"
        " recipients of age, or the pattern of a SecretProviderClass.",
        "etcompile render jobs/ -d out/ --secret sealed:expired.pem",
    ),
    Rule(
        codes.SCAFFOLD_IN_THE_WAY,
        "scaffold-in-the-way",
        _ERROR,
        "{file} exists already with other content",
        "move it away, or pass --keep to leave it as it is",
        "init never overwrites a file whose content differs from what it would write.",
        "etcompile init .   # twice, and a file was edited in between",
    ),
    Rule(
        codes.LINK_IN_OUTPUT,
        "link-in-output",
        _ERROR,
        "{path} is not written: {reason}, and nothing is written outside of {folder}",
        "remove it, or name the place that it leads to as the output",
        "The folder that a command is told to write to may itself be a link. A link inside of it,"
        " and a link in the place of a file, would let whoever made the link choose which file"
        " elsewhere is written over, so none is followed.",
        "etcompile schema --all -d schemas   # where schemas/kai.alibabacloud.com is a link",
    ),
    Rule(
        codes.ONLY_ANOTHER_RUN,
        "only-another-run",
        _WARNING,
        "all Pods of {jobs} are replaced by others, though only the ID of the run changes",
        "give the annotation etcompile.dev/run to the jobs that are to run again, and leave the"
        " setting as it was",
        "The setting `run` is for all jobs, so another ID ends what runs and begins it again under"
        " new names. `run: auto` gives new names only to jobs that have changed.",
        "settings: {run: two}   # was one, and one of three jobs was edited",
    ),
)
