"""discover_hosts.sh, as Horovod runs it each second."""

import threading

import pytest

SEED = "mnist-worker-0:1\nmnist-worker-1:1\n"


@pytest.fixture
def discover(shell, script, run, place):
    """`discover(live=TEXT, seed=TEXT)`: a run of the script with these lists; None: no file."""

    def discover(*, live=None, seed=SEED):
        for name, text in (("live", live), ("seed", seed)):
            if text is not None:
                (place / name).write_text(text)
        path = script("discover_hosts.sh", live=str(place / "live"), seed=str(place / "seed"))
        # There is no command to start: it lives on what the shell has.
        return run(*shell, path, env={"PATH": "/nonexistent"})

    return discover


def test_without_a_live_list_the_seed_counts(discover):
    done = discover()
    assert (done.returncode, done.stdout, done.stderr) == (0, SEED, "")


def test_the_live_list_counts_before_the_seed(discover):
    assert discover(live="mnist-worker-7:2\n").stdout == "mnist-worker-7:2\n"


@pytest.mark.parametrize("live", ["", "\n", "  \n\t\n", "mnist-worker-1"])
def test_a_live_list_without_a_usable_line_does_not_count(discover, live):
    done = discover(live=live)
    assert (done.returncode, done.stdout, done.stderr) == (0, SEED, "")


def test_a_torn_last_line_is_not_a_host(discover):
    assert discover(live="mnist-worker-9:1\nmnist-worker-1").stdout == "mnist-worker-9:1\n"


def test_blank_lines_and_blanks_around_a_host_are_dropped(discover):
    # As et-operator's own write leaves one at the end (reference/et-operator.md 4.2).
    assert discover(seed="a:1\n\n  b:2 \n\n").stdout == "a:1\nb:2\n"


def test_a_line_is_printed_as_it_is(discover):
    assert discover(seed="a\\nb:1 *\n-n\n").stdout == "a\\nb:1 *\n-n\n"


@pytest.mark.parametrize("seed", [None, "", "\n", "torn"])
def test_no_host_at_all_fails_and_prints_nothing(discover, seed):
    done = discover(seed=seed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("etcompile: no host in ")


def test_it_runs_by_itself_when_executable(script, run, place):
    (place / "seed").write_text(SEED)
    path = script("discover_hosts.sh", live=str(place / "live"), seed=str(place / "seed"))
    assert run(path).stdout == SEED


def test_a_list_swapped_while_it_is_read_is_never_mixed(shell, script, run, place):
    versions = ["".join(f"v{v}-worker-{i}:1\n" for i in range(60 + v)) for v in range(2)]
    live = place / "live"
    live.write_text(versions[0])
    stop = threading.Event()

    def swap():
        count = 0
        while not stop.is_set():
            count += 1
            (place / "next").write_text(versions[count % 2])
            (place / "next").replace(live)

    path = script("discover_hosts.sh", live=str(live), seed="/nonexistent")
    loop = 'n=0; while [ $n -lt 400 ]; do "$@" || echo failed; echo; n=$((n + 1)); done'
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        done = run(*shell, "-c", loop, "loop", *shell, path)
    finally:
        stop.set()
        swapper.join()
    outputs = done.stdout.split("\n\n")[:-1]
    assert len(outputs) == 400
    assert {f"{output}\n" for output in outputs} == set(versions)
