"""What other programs rely on: a change here breaks a script, a running job or a watcher."""

import re
from pathlib import Path

import pytest
import yaml

from etcompile import exitcodes
from etcompile.model import protocol, run_record
from etcompile.plan.plan_file import VERSION

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text("utf-8")


def test_exit_codes_keep_their_meaning() -> None:
    codes = {name: code for name, code in vars(exitcodes).items() if name.isupper()}
    assert codes == {
        "DIFFERENT": 1,
        "FAILED": 1,
        "REFUSED": 2,
        "NOT_READY": 3,
        "CONFLICT": 4,
        "REPLACEMENT": 5,
        "CLUSTER": 6,
        "INPUT": 7,
        "INTERNAL": 70,
        "INTERRUPTED": 130,
    }


def test_labels_and_the_spec_hash_keep_their_keys() -> None:
    prefix = "etcompile.dev/"
    names = ["job", "role", "index", "rank", "run"]
    assert list(protocol.RESERVED_LABELS) == [prefix + name for name in names]
    assert protocol.SPEC_HASH.removeprefix(prefix) == "spec-hash"
    assert (protocol.MANAGER, protocol.WATCHER) == ("etcompile", "etcompile-watcher")


def test_the_three_config_maps_keep_their_names_and_keys() -> None:
    assert protocol.config_names("bert") == ("bert-etcompile", "bert-config")
    assert protocol.hosts_name("bert") == "bert-etcompile-hosts"
    assert protocol.status_name("bert") == "bert-etcompile-status"
    assert protocol.STORED_JOB == "job.yaml"
    keys = {"record", "done", "phase", "run.yaml", "failures", "timeline", "completed"}
    assert keys == run_record.KEYS


def test_files_in_pods_keep_their_places() -> None:
    assert protocol.SPEC_HASH_FILE == "/etc/etcompile/scripts/spec-hash"
    assert protocol.HOSTS_PATH == "/etc/etcompile/hosts"
    assert protocol.DONE_FILE == "/etc/etcompile/status/done"
    assert protocol.COMPLETED_FILE == "/etc/etcompile/status/completed"


def test_the_form_of_a_plan_file_has_a_version() -> None:
    schema = yaml.safe_load((ROOT / "schemas" / "plan.json").read_text("utf-8"))
    assert schema["properties"]["version"]["const"] == VERSION


def test_the_page_names_the_versions_that_the_project_supports() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert f"| {pythons[0]} to {pythons[-1]} |" in PAGE


@pytest.mark.parametrize("name", ["docs/stability.md", "CHANGELOG.md", "SECURITY.md"])
def test_every_link_leads_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    assert links
    for link in links:
        target, _, anchor = link.partition("#")
        file = (ROOT / name).parent / target if target else ROOT / name
        assert file.exists(), link
        headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings}
        assert not anchor or anchor in anchors, link
