"""Every `etcompile` command that a page shows is one that there is, and those that can be are run.

Commands in blocks are parsed as etcompile parses them, with all options and arguments. Within a
sentence a command may be cut short; what is named there has to exist. What needs no cluster is run
in a repository as the pages presuppose it. `docs/start.md` and `docs/tutorial.md` are walks with
tests of their own, which run every line.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
import yaml
from commands_on_pages import PAGES, ROOT, Command, commands

import keysources
from capacity.clusters import gpu_cluster
from commandline import etcompile
from etcompile.capacity.snapshot import to_document
from etcompile.cli.main import program
from specs import kubeflow_job, training_job

WALKS = {
    "README.md": "test_start_page.py",
    "docs/start.md": "test_start_page.py",
    "docs/tutorial.md": "test_tutorial.py",
}
OF_MESSAGES = "docs/diagnostics"
"""Its commands show what is refused; tests/diagnostics brings each message about."""

_REFUSED = {
    "docs/diagnostics/et2xxx.md": [
        "etcompile cannot read kai.alibabacloud.com/v2 of TrainingJob",
        "etcompile does not know a kind 'Scaleout' of kai.alibabacloud.com",
    ]
}
"""What etcompile says, by page."""
_SUGGESTED = {
    "docs/reference/gang-scheduling.md": ["etcompile replace"],
    "docs/reference/gitops.md": [
        *("etcompile secret init", "etcompile render --commit-message", "etcompile gc"),
    ],
}
"""Suggestions that were not followed, by page."""
NO_COMMANDS = {
    (page, text)
    for table in (_REFUSED, _SUGGESTED)
    for page, texts in table.items()
    for text in texts
}
"""What is written like a command and is none, by page and text."""

NEED_A_CLUSTER = frozenset(
    {"apply", "capacity", "checkpoint", "delete", "logs", "restart", "status", "watch", "why"}
)

every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)


@every_page
def test_every_command_of_a_page_exists(page: Path, tmp_path: Path, monkeypatch) -> None:
    # Options that name a file which has to be there: of docs/migrate.md and docs/diagnostics.
    write(tmp_path, dict.fromkeys(("training/bert.yaml", "bert.yaml", "other-job.yaml"), ""))
    monkeypatch.chdir(tmp_path)
    problems = (problem(command) for command in commands(page) if not is_exception(command))
    assert [text for text in problems if text] == []


def test_no_exception_is_left_over() -> None:
    broken = {(one.page, one.line) for page in PAGES for one in commands(page) if problem(one)}
    assert NO_COMMANDS - broken == set()


def test_the_pages_of_walks_have_their_tests() -> None:
    assert [name for name in WALKS.values() if not (Path(__file__).parent / name).exists()] == []


@pytest.mark.parametrize(
    ("words", "whole", "right"),
    [
        (("render", "jobs/", "-d", "out/"), True, True),
        (("render", "jobs/", "--outptu", "out/"), True, False),
        (("render",), True, False),
        (("render",), False, True),
        (("diff", "jobs/", "--output", "pdf"), True, False),
        (("rendr", "jobs/"), False, False),
        (("scale", "bert", "--to", "N"), False, True),
        (("scale", "bert", "--to", "N"), True, False),
        (("init", "[--gitops", "argocd/flux]"), False, True),
        (("init", "[--gitop", "argocd/flux]"), False, False),
        (("argocd", "plugin", "--help"), True, True),
        (("argocd", "plugins"), False, False),
    ],
)
def test_what_is_wrong_with_a_command(words: tuple[str, ...], whole: bool, right: bool) -> None:
    assert (problem(Command("page", words, whole, " ".join(words))) == "") is right


def is_exception(command: Command) -> bool:
    return (command.page, command.line) in NO_COMMANDS


def problem(command: Command) -> str:
    if command.whole:
        try:
            _parsed(program, command.words)
        except click.ClickException as error:
            return f"{command}: {error.format_message()}"
        except click.exceptions.Exit:  # of --help and --version
            pass
        return ""
    current: click.Command = program
    context = click.Context(current, info_name="etcompile")
    known = {"--help"}
    for word in command.words:
        name = word.strip("[]")
        if (
            isinstance(current, click.Group)
            and name.isascii()
            and name.islower()
            and name[0] != "-"
        ):
            below = current.get_command(context, name)
            if below is None:
                return f"{command}: there is no command {name}"
            current, context = below, click.Context(below, info_name=name, parent=context)
        elif name.startswith("-"):
            known |= {
                option
                for param in current.get_params(context)
                for option in (*param.opts, *param.secondary_opts)
            }
            if name not in known:
                return f"{command}: there is no option {name}"
    return ""


def _parsed(command: click.Command, words: tuple[str, ...]) -> None:
    """Parses words as etcompile does, down to the command that is run."""
    context = click.Context(command, info_name="etcompile")
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            command.parse_args(context, list(words))
            return
        name, below, _ = command.resolve_command(context, [words[0]])
        assert name is not None
        assert below is not None
        words = words[1:]
        if isinstance(below, click.Group):
            context = click.Context(below, info_name=name, parent=context)
        else:
            below.make_context(name, list(words), parent=context)
        command = below


# ---- and run -----------------------------------------------------------------------------------


def run_here(page: Path) -> list[Command]:
    """The commands of a page that need no cluster, in order."""
    return [
        command for command in commands(page) if command.whole and not _needs_a_cluster(command)
    ]


def _needs_a_cluster(command: Command) -> bool:
    name, *rest = command.words
    if name == "watch":
        return "--manifests" not in rest
    if name == "diff":
        return "--against" not in rest
    return name in NEED_A_CLUSTER or "--from-cluster" in rest


GIT = ("git", "-c", "user.name=You", "-c", "user.email=you@example.com")


RUN = [
    page
    for page in PAGES
    if page.relative_to(ROOT).as_posix() not in WALKS
    and page.parent != ROOT / OF_MESSAGES
    and run_here(page)
]


OVERLAY = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"
BERT = yaml.safe_dump(
    {**training_job("bert", replicas=4), "metadata": {"name": "bert", "namespace": "nlp"}}
)
AS_PYTORCH = kubeflow_job("PyTorchJob", {"Worker": 2})
[SETTINGS] = re.findall(
    r"^```toml\n(# etcompile\.toml\n.*?)^```$",
    (ROOT / "docs" / "configuration.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)
PARTICULAR: dict[str, dict[str, str]] = {
    "docs/configuration.md": {"etcompile.toml": SETTINGS, "platform/overlay.yaml": OVERLAY},
    "docs/capacity.md": {"capacity.yaml": yaml.safe_dump(to_document(gpu_cluster()))},
    "docs/checks.md": {"job.yaml": (ROOT / "tests" / "fixes" / "before.yaml").read_text("utf-8")},
    "docs/kinds/trainjob.md": {
        "jobs/bert.yaml": (ROOT / "examples/trainjob/elastic/job.yaml").read_text("utf-8"),
        "platform/runtimes/mine.yaml": etcompile("kinds", "--runtime", "torch-distributed").stdout,
    },
    "docs/migrate.md": {"jobs/bert.yaml": yaml.safe_dump(AS_PYTORCH)},
}
"""Files that the commands of one page are about, by their name."""
WALKED = frozenset({"docs/flux.md"})
"""Pages whose commands follow one upon the other, from an empty folder."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository as the pages presuppose it: a job `bert`, environments, what was rendered."""
    folder = tmp_path / "training"
    write(folder, {"jobs/bert.yaml": BERT})
    write(folder, {"overlays/prod/overlay.yaml": OVERLAY, "deploy/eu.yaml": OVERLAY})
    etcompile("render", "jobs/", "-d", "out/", cwd=folder)
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("commit", "-q", "-m", "A job"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
    ):
        subprocess.run([*GIT, *words], cwd=folder, check=True)
    return folder


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_needs_no_cluster_runs(page: Path, repository: Path, tmp_path: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    write(repository, PARTICULAR.get(name, {}))
    if name == "docs/secrets.md":
        keysources.certificate(repository / "cert.pem")
    if name == "docs/migrate.md":  # what somebody has saved of a cluster
        write(repository, {"live.yaml": BERT})
    walked = tmp_path / "walked"
    walked.mkdir()
    for number, command in enumerate(run_here(page)):
        folder = walked
        if any(word.startswith("examples/") for word in command.words):
            folder = ROOT
        elif name not in WALKED:  # each by itself: a page shows what one may do, not in which order
            folder = tmp_path / f"{number}"
            shutil.copytree(repository, folder)
        done = etcompile(*command.words, cwd=folder, stdin=BERT if "-" in command.words else "")
        differs = done.returncode == 1 and command.words[0] == "diff"
        assert done.returncode == 0 or differs, f"{command}\n{done.stdout}{done.stderr}"
