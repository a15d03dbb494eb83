"""Diagnostics about overlays: 6xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.OVERLAY_MATCHES_NOTHING,
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
        codes.NO_SUCH_OVERLAY,
        "no-such-overlay",
        _ERROR,
        "there is no overlay of this name, and no such file",
        "{near}give a file, a folder with an overlay.yaml, or the name of a built-in overlay:"
        " {known}",
        "`--overlay` takes the path of an overlay, or the name of one of etcompile's own.",
        "etcompile render jobs/ --overlay prd",
    ),
    Rule(
        codes.NOT_AN_OVERLAY,
        "not-an-overlay",
        _ERROR,
        "this is a {found}, not an overlay",
        "give it as an input, or begin it with 'apiVersion: {version}' and 'kind: Overlay'",
        "A file given with --overlay holds overlays and nothing else.",
        "etcompile render jobs/ --overlay kustomization.yaml",
    ),
    Rule(
        codes.KUSTOMIZATION_OVERLAY,
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
        codes.OVERLAY_AMONG_INPUTS,
        "overlay-among-inputs",
        _WARNING,
        "an overlay among the inputs is not applied",
        "pass it with --overlay {file}",
        "A folder may hold jobs and the overlays of their environments; which overlay counts is"
        " for the command line to say. With any --overlay this warning is not given.",
        "etcompile render .   # with ./prod/overlay.yaml",
    ),
    Rule(
        codes.OVERLAY_KUBERNETES_VERSION,
        "overlay-kubernetes-version",
        _ERROR,
        "Kubernetes {version} is not known",
        "there are schemas for {known}",
        "Pod templates are checked against the schema of the cluster's Kubernetes version.",
        'settings: {kubernetesVersion: "1.99"}',
    ),
    Rule(
        codes.OVERLAY_BREAKS_JOB,
        "overlay-breaks-job",
        _ERROR,
        "an overlay cannot change {what}: {reason}",
        "patch the job document instead, if it has such a field, or leave it out of the overlay",
        "Names, selectors, host names and the scripts around commands are what a job's Pods find"
        " each other by. Changed in the compiled objects only, they would no longer fit together.",
        "patches: [{target: {kind: Service}, patch: {spec: {selector: {app: x}}}}]",
    ),
    Rule(
        codes.OVERLAY_PATCH,
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
        codes.OVERLAY_GANG,
        "overlay-gang",
        _ERROR,
        "'{gang}' is not a known gang scheduler",
        "the known ones are {known}",
        "The setting names the scheduler of the cluster, in the spelling of `--gang`.",
        "settings: {gang: vulcano}",
    ),
    Rule(
        codes.OVERLAY_SECRET,
        "overlay-secret",
        _ERROR,
        "{problem}",
        "see docs/secrets.md",
        "The setting takes what `--secret` takes.",
        "settings: {secret: existing:Not_A_Name}",
    ),
)
