"""Diagnostics about loading: files, YAML, where documents may come from: 1xxx."""

from etcompile.diagnostics import codes
from etcompile.diagnostics.rule import Rule, Severity

_ERROR = Severity.ERROR
_WARNING = Severity.WARNING

RULES = (
    Rule(
        codes.UNREADABLE_FILE,
        "unreadable-file",
        _ERROR,
        "cannot read this file: {reason}",
        "check the path and its permissions",
        "The operating system refused to open or read the file.",
        "etcompile render /root/secret.yaml   # as another user",
    ),
    Rule(
        codes.NO_SUCH_PATH,
        "no-such-path",
        _ERROR,
        "no file matches this path",
        "give a file, a directory, a quoted glob such as 'jobs/**/*.yaml', or - for standard input",
        "A path named on the command line, or a glob, matches nothing. Nothing rendered would"
        " look like success to a pipeline, so it is refused.",
        "etcompile render jbos/",
    ),
    Rule(
        codes.NOT_UTF8,
        "not-utf8",
        _ERROR,
        "this is not UTF-8: byte 0x{byte:02x}",
        "save the file as UTF-8 (for example: iconv -f latin1 -t utf-8)",
        "Kubernetes tools read UTF-8 only. A file in another encoding would compile to other"
        " names on another machine.",
        "name: caf\\xe9    # latin-1",
    ),
    Rule(
        codes.CONTROL_CHARACTER,
        "control-character",
        _ERROR,
        "control character {character} is not allowed in YAML",
        "remove it; it usually comes from a binary file or a broken copy",
        "YAML allows printable characters, tabs and line breaks only. A NUL byte mostly means"
        " that the file is not text at all.",
        "name: job\\x00",
    ),
    Rule(
        codes.YAML_SYNTAX,
        "yaml-syntax",
        _ERROR,
        "not valid YAML: {problem}",
        "{advice}",
        "The YAML parser could not read on from here. The real mistake is often on the line"
        " above: a missing quote, a tab, or an indentation that differs by one.",
        "spec:\n  a: 1\n b: 2        # indented less than its sibling",
    ),
    Rule(
        codes.DUPLICATE_KEY,
        "duplicate-key",
        _ERROR,
        "key '{key}' appears twice in this mapping; first on line {first}",
        "remove one of the two",
        "YAML parsers keep one of two equal keys, and which one depends on the parser. kubectl"
        " refuses such a file too.",
        "replicas: 2\nreplicas: 3",
    ),
    Rule(
        codes.FILE_TOO_LARGE,
        "file-too-large",
        _ERROR,
        "this file is larger than {limit} MiB",
        "split it into several files",
        "A job specification is a few kilobytes. The limit protects a build from reading a data"
        " set, or /dev/zero, by mistake.",
        "etcompile render dataset.bin",
    ),
    Rule(
        codes.NESTING_TOO_DEEP,
        "nesting-too-deep",
        _ERROR,
        "nested more than {limit} levels deep",
        "no Kubernetes object nests that deep: look for a missing line break or quote",
        "A limit on depth keeps a hostile file from exhausting the stack.",
        "[[[[[[[[[[…]]]]]]]]]]",
    ),
    Rule(
        codes.ALIAS_EXPANSION,
        "alias-expansion",
        _ERROR,
        "YAML aliases expand to more than {limit} values here",
        "write the values out, or use fewer nested aliases",
        "Aliases of aliases grow exponentially (the 'billion laughs' attack), so their total"
        " expansion is bounded.",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]   # and so on",
    ),
    Rule(
        codes.TOO_MANY_DOCUMENTS,
        "too-many-documents",
        _ERROR,
        "more than {limit} documents in one file",
        "split the file",
        "The number of documents is bounded so that a wrong file cannot occupy a build machine.",
        "---\n---\n---   # and so on",
    ),
    Rule(
        codes.NO_DOCUMENTS,
        "no-documents",
        _ERROR,
        "nothing to compile: {what} holds no document",
        "name a file that holds a job, or pass --allow-empty if the last one is to go",
        "An empty input that renders to nothing would, with pruning on, delete a running job."
        " So it is refused, unless `allow-empty` of the configuration file or `--allow-empty` says"
        " that it is meant.",
        "etcompile render empty.yaml",
    ),
    Rule(
        codes.DIRECTORY_LOOP,
        "directory-loop",
        _ERROR,
        "this directory contains itself through a symbolic link",
        "remove the link, or name the directories you mean",
        "Following the link would never end.",
        "ln -s . jobs/again",
    ),
    Rule(
        codes.NOT_AN_OBJECT,
        "not-an-object",
        _ERROR,
        "a document must be a mapping with apiVersion and kind, not {found}",
        "",
        "Every Kubernetes object is a mapping.",
        "- just\n- a list",
    ),
    Rule(
        codes.NO_KIND,
        "no-kind",
        _ERROR,
        "this document has no {field}",
        "add it, or remove the file from the input",
        "apiVersion and kind say what a document is; without both nothing can be done with it.",
        "metadata: {name: job}",
    ),
    Rule(
        codes.UNSUPPORTED_YAML,
        "unsupported-yaml",
        _ERROR,
        "{what} cannot be turned into JSON",
        "{advice}",
        "Kubernetes objects are JSON: no null or structured keys, no custom tags, no binary"
        " values, no infinities.",
        "? [a, b]\n: value",
    ),
    Rule(
        codes.NOT_A_REGULAR_FILE,
        "not-a-regular-file",
        _ERROR,
        "this is {what}, not a file or a directory",
        "name a regular file, or pipe into -",
        "Reading a device or a pipe by name could block for ever.",
        "etcompile render /dev/zero",
    ),
    Rule(
        codes.MERGE_KEY,
        "merge-key",
        _ERROR,
        "the merge key << takes a mapping or a list of mappings",
        "give it an alias of a mapping: <<: *base",
        "A merge copies keys, so only mappings can be merged.",
        "<<: [1, 2]",
    ),
    Rule(
        codes.SAME_OBJECT_TWICE,
        "same-object-twice",
        _ERROR,
        "{what} is defined twice; first in {first}",
        "remove or rename one of the two",
        "Two documents with the same kind, namespace and name would overwrite one another in"
        " the cluster, in an order nobody chose.",
        "two files that both hold TrainingJob default/mnist",
    ),
    Rule(
        codes.LIST_ITEMS,
        "list-items",
        _ERROR,
        "a List must have items, a list of objects",
        "",
        "`kind: List` is how kubectl prints several objects at once.",
        "apiVersion: v1\nkind: List\nitems: {}",
    ),
    Rule(
        codes.KUSTOMIZATION_INPUT,
        "kustomization-input",
        _WARNING,
        "{what} is not an object: it was left out",
        "render the files it lists, and point kustomize at the output",
        "A kustomization.yaml, and an EtcompileGenerator or EtcompileTransformer that it lists,"
        " tell kustomize what to build; they are never applied to a cluster.",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization",
    ),
    Rule(
        codes.NO_RESOURCE_LIST,
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
        codes.FUNCTION_CONFIG,
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
        codes.ALIAS_BYTES,
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
        codes.MORE_PROBLEMS,
        "more-problems",
        _ERROR,
        "{what} has more than {limit} problems; the others are not listed",
        "correct those that are listed, and check again",
        "The problems of one document are listed up to a limit: nobody reads thousands of them,"
        " and they mostly have one cause, such as a wrong indentation or a generated key.",
        'labels: {"a b0": x, "a b1": x, ...}   # thousands of them',
    ),
    Rule(
        codes.OUTSIDE_THE_BOUNDARY,
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
        codes.UNUSED_IGNORE,
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
        codes.UNKNOWN_IGNORE_CODE,
        "unknown-ignore-code",
        _WARNING,
        "this ignore comment names {found}, which is not a diagnostic code",
        "{advice}",
        "A misspelt code silences nothing. `etcompile explain --all` lists the codes.",
        "image: trainer:latest    # etcompile: ignore[ET204]",
    ),
    Rule(
        codes.IGNORED_ERROR,
        "ignored-error",
        _WARNING,
        "{found} is an error and cannot be ignored",
        "correct what {found} reports, and remove it from the comment",
        "An error means that no correct output exists. Only warnings can be ignored.",
        "replicas: 12    # etcompile: ignore[ET2003]",
    ),
    Rule(
        codes.MALFORMED_IGNORE,
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
        codes.IGNORE_OPTION,
        "ignore-option",
        _ERROR,
        "{found} cannot be ignored: {problem}",
        "{advice}",
        "`--ignore`, `spec.ignore` of a KRM function, the parameter `ignore` of the Argo CD plugin"
        " and `Options.ignore` take the codes of warnings.",
        "etcompile check --ignore ET2003 jobs/",
    ),
    Rule(
        codes.CONFIGURATION_SYNTAX,
        "configuration-syntax",
        _ERROR,
        "the configuration file cannot be read: {problem}",
        "correct it, or leave it out with --isolated",
        "The settings of a repository stand in `etcompile.toml`, or in the table `[tool.etcompile]`"
        " of `pyproject.toml`. Without them the jobs would compile to something else than what was"
        " meant, so nothing is compiled.",
        "gang = volcano    # a text stands in quotes",
    ),
    Rule(
        codes.UNKNOWN_SETTING,
        "unknown-setting",
        _ERROR,
        "there is no setting '{name}'",
        "{advice}",
        "A setting has the name of an option of `etcompile render` or `etcompile check`, without"
        " the two hyphens. Options that are consent, or that say what to do instead of how, are"
        " given on the command line each time.",
        'gang-schedular = "volcano"',
    ),
    Rule(
        codes.WRONG_SETTING,
        "wrong-setting",
        _ERROR,
        "the value of '{name}' cannot be used: {problem}",
        "{advice}",
        "A setting takes what its option takes: an option that may be repeated has a list, a flag"
        " is true or false, and everything else is a text in quotes. Paths are seen from the folder"
        " of the file, and do not lead out of the repository.",
        "kubernetes-version = 1.30    # TOML reads the number 1.3",
    ),
    Rule(
        codes.UNKNOWN_ENVIRONMENT,
        "unknown-environment",
        _ERROR,
        "there is no environment '{name}'",
        "{advice}",
        "`--environment NAME` chooses the settings of the table `[environments.NAME]` of the"
        " configuration file.",
        "etcompile render --environment prod jobs/    # the file has [environments.production]",
    ),
    Rule(
        codes.SEVERAL_CONFIGURATIONS,
        "several-configurations",
        _ERROR,
        "the inputs have different configuration files: {first}, and {second}",
        "compile them one after the other, or name the file that counts with --config",
        "The nearest file above an input counts for it, and what is compiled together has the same"
        " settings.",
        "etcompile render team-a/ team-b/    # each has an etcompile.toml",
    ),
)
