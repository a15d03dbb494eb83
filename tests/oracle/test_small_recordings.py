"""The recordings of `tests/recordings` say what those say that were taken, where they are at hand.

`pytest -m programs tests/oracle/test_small_recordings.py --update-goldens` writes them.
"""

from pathlib import Path

import pytest
from msgspec import to_builtins

from operator_recordings import FULL, SMALL, condensed, entries, lines, packed, unpacked

OPERATORS = ("dlrover", "et-operator", "mpi-operator", "trainer-v2", "training-operator")
FULL_RECORDINGS = [
    path.parent
    for operator in OPERATORS
    for path in sorted((FULL / operator).glob("*/requests.yaml"))
]

pytestmark = [
    pytest.mark.programs,  # reads megabytes of YAML
    pytest.mark.skipif(
        not FULL_RECORDINGS, reason=f"the recordings as they were taken are not in {FULL}"
    ),
]


@pytest.mark.parametrize(
    "folder", FULL_RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_the_small_form_says_the_same(folder: Path, request: pytest.FixtureRequest) -> None:
    file = SMALL / folder.parent.name / f"{folder.name}.json"
    recording = condensed(folder)
    if request.config.getoption("--update-goldens"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(packed(recording), "utf-8")
    if not file.exists():
        pytest.skip(f"{file.name} is no recording of ours")
    assert to_builtins(unpacked(file)) == to_builtins(recording)
    assert file.read_text("utf-8") == packed(recording)


def test_small_recording_of_runtimes_matches_the_installed_runtimes(
    request: pytest.FixtureRequest,
) -> None:
    files = sorted((FULL / "trainer-v2" / "runtimes").glob("*.yaml"))
    text = lines([one for file in files for one in entries(file)]) + "\n"
    if request.config.getoption("--update-goldens"):
        (SMALL / "trainer-runtimes.json").write_text(text, "utf-8")
    assert (SMALL / "trainer-runtimes.json").read_text("utf-8") == text
