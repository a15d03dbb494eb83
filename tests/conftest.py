"""What all tests share: how a test says that it needs something of the machine."""

import collections
import functools
import gc
import inspect
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Tests start etcompile hundreds of times, and each process of pytest-xdist imports all of them:
# without bytecode, that is a third of the time that they take.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import yaml  # noqa: E402
from click.testing import CliRunner, Result  # noqa: E402

# How long an example takes says how busy the machine is. A change is tried with the same examples
# each time; `pytest --hypothesis-profile=explore` looks for others.
_PATIENT = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("explore", _PATIENT)
hypothesis.settings.register_profile("etcompile", _PATIENT, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("etcompile")

if yaml.__with_libyaml__:
    # What tests read and write with `yaml.safe_load` and `yaml.safe_dump` is read and written by
    # libyaml, ten times as quickly. etcompile calls neither.
    yaml.SafeLoader, yaml.SafeDumper = yaml.CSafeLoader, yaml.CSafeDumper  # type: ignore[misc]

if "mix_stderr" in inspect.signature(CliRunner).parameters:
    # click before 8.2 keeps standard error apart only on request, and then `output` lacks it.
    CliRunner.__init__ = functools.partialmethod(  # type: ignore[method-assign]
        CliRunner.__init__, mix_stderr=False
    )
    Result.output = property(lambda done: done.stdout + done.stderr)  # type: ignore[method-assign]

for _variable in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_DIFF_BASE_SHA"):
    # The pull request that these tests run for is not one to a repository of a test.
    os.environ.pop(_variable, None)

pytest_plugins = ["browsers.fixtures", "controlplane.fixtures", "consumers.fixtures"]

_SYSTEM = os.environ.get("ETCOMPILE_SBIN", "/usr/local/sbin:/usr/sbin:/sbin")
"""Not in everybody's PATH, and sshd is there. CI hides it to see that its tests are skipped."""


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Started in the background, a process and its children ignore SIGINT; a terminal's do not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def require() -> Callable[..., str]:
    """`require(thing, which=PROGRAM)` or `require(thing, present=BOOL, why=TEXT)`.

    Skips the test when the machine lacks it. Where the environment variable ETCOMPILE_REQUIRE
    lists the thing (`ssh,shells`), as in CI, the test fails instead: there a skip would hide that
    nothing was tested. Returns the program's path, or "".
    """
    demanded = {thing.strip() for thing in os.environ.get("ETCOMPILE_REQUIRE", "").split(",")}

    def need(thing: str, *, which: str = "", present: bool = True, why: str = "") -> str:
        search = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}"
        program = (shutil.which(which, path=search) or "") if which else ""
        if present and (program or not which):
            return program
        reason = f"needs {thing}: {why or f'there is no {which}'}"
        if thing in demanded:
            pytest.fail(f"{reason} (ETCOMPILE_REQUIRE lists {thing})")
        pytest.skip(reason)

    return need


LAYERS = {
    "gang_scheduler": "schedulers",
    "control_plane": "cluster",
    "consumer": "programs",
    "kubectl_program": "programs",
    "others": "programs",
    "browser": "programs",
    "start": "programs",  # of tests/scripts: a process that goes on while the test waits
    "runner": "programs",  # of tests/action: steps of a workflow, each of several commands
}
"""The layer that a test belongs to by a fixture that it uses; the first one counts. The default
command runs what uses none of them."""


_ALONE = str(Path(__file__).parent / "scripts")
"""The tests of scripts share nothing, and there are minutes of them in a file."""


@pytest.hookimpl(tryfirst=True)  # before `-m` is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its layer, and with those that one process is to run (`loadgroup`)."""
    for item in items:
        used = getattr(item, "fixturenames", ())
        if layer := next((LAYERS[name] for name in LAYERS if name in used), None):
            item.add_marker(layer)
        if not str(item.path).startswith(_ALONE):
            item.add_marker(pytest.mark.xdist_group(item.path.name))


_DEFAULT = "not cluster and not programs and not schedulers and not node and not gitops"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes `-n auto` is.

    Tests of the default layer compute; all others wait for processes that they have started.
    """
    processors = os.cpu_count() or 1
    return processors if config.option.markexpr == _DEFAULT else processors + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a file to one process, unless told otherwise: they share what they build.

    The files with the most tests come first.
    """
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_collection_finish() -> None:
    """Takes thousands of collected tests out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()


_LEFT_OUT = pytest.StashKey[int]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if not items:
        return  # --last-failed tells of none, too
    config = items[0].config
    config.stash[_LEFT_OUT] = config.stash.get(_LEFT_OUT, 0) + len(items)
    output = getattr(config, "workeroutput", None)
    if output is not None:  # of pytest-xdist: to the process above
        output["left out"] = config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a process of pytest-xdist counted; each collects all tests."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[_LEFT_OUT] = output.get("left out", 0)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Says in the very last lines which tests did not run, and why."""
    terminalreporter = config.pluginmanager.get_plugin("terminalreporter")
    if terminalreporter is None:
        return  # a process of pytest-xdist
    chosen = config.option.keyword or "not cluster" not in config.option.markexpr
    lacking = collections.Counter(
        match[1]
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
        and (match := re.search(r"needs ([\w-]+: .+)", report.longrepr[2]))
    )
    left = config.stash.get(_LEFT_OUT, 0)
    if left and not chosen:
        terminalreporter.write_line(
            f"not run: {left} tests of other layers; see CONTRIBUTING.md, or run all that need no "
            "cluster of yours: pytest -n auto -m 'not node and not gitops'"
        )
    if lacking:
        things = "; ".join(f"{thing} ({count} tests)" for thing, count in sorted(lacking.items()))
        terminalreporter.write_line(f"not proven on this machine: {things}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flags that write anew what tests compare with."""
    parser.addoption("--update-goldens", action="store_true", help="write golden/ anew")
    parser.addoption(
        "--update-version", action="store_true", help="write the version wherever a file names it"
    )
