"""Which rank is elsewhere than the others, by the stacks that Python's faulthandler writes."""

import faulthandler
import tempfile
import threading

from etcompile.failures.stacks import elsewhere, stacks

HEAD = "etcompile: process {} is sent USR1 for its stack"
WAITS = """\
Thread 0x00007f48069b86c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f4807800b80 (most recent call first):
  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 2501 in all_reduce
  File "/x/site-packages/torch/distributed/c10d_logger.py", line 81 in wrapper
  File "/app/train.py", line {} in {}
  File "/app/train.py", line 90 in <module>"""
LOADS = """\
Current thread 0x00007f4807800b80 (most recent call first):
  File "/app/data.py", line 41 in load_batch
  File "/app/train.py", line 60 in main"""
AGENT = """\
Stack (most recent call first):
  File "/x/site-packages/elastic/agent.py", line 600 in _monitor_workers
  File "/x/site-packages/run.py", line 900 in main"""


def log(*texts: str) -> list[str]:
    parts = [f"{HEAD.format(number)}\n{text}" for number, text in enumerate(texts, 7)]
    return "\n".join(["step 8", *parts, "etcompile: hangs: these processes run"]).splitlines()


def waits(line: int = 60, function: str = "main") -> str:
    return WAITS.format(line, function)


def test_a_stack_is_that_of_the_first_thread_and_of_the_process_that_was_asked() -> None:
    agent, rank = stacks(log(AGENT, waits()))
    assert (agent.process, agent.frames[0].function) == (7, "_monitor_workers")
    assert rank.process == 8
    waiting = "all_reduce (distributed_c10d.py, line 2501)"
    assert rank.frames[0].text == waiting
    assert rank.text == f"{waiting}, called from main (train.py, line 60)"
    assert rank.lines[:2] == [
        "process 8, the innermost call first:",
        "  all_reduce (distributed_c10d.py, line 2501)",
    ]


def test_what_this_python_writes_is_understood() -> None:
    begun, done = threading.Event(), threading.Event()
    beside = threading.Thread(target=lambda: (begun.set(), done.wait()))
    beside.start()
    begun.wait()
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        [found] = stacks(log(file.read()))
    done.set()
    beside.join()
    assert found.frames[0].function == "test_what_this_python_writes_is_understood"


def test_a_rank_that_loads_while_all_others_wait_in_a_collective_is_elsewhere() -> None:
    ranks = {f"rank {n}": stacks(log(AGENT, waits(60 + n))) for n in range(7)}
    ranks["rank 7"] = stacks(log(AGENT, LOADS))
    [(rank, stack)] = elsewhere(ranks).items()
    assert (rank, stack.process, stack.frames[0].function) == ("rank 7", 8, "load_batch")


def test_ranks_that_come_to_a_collective_on_other_ways_are_where_the_others_are() -> None:
    ranks = {f"rank {n}": stacks(log(waits(60, "train"))) for n in range(3)}
    assert elsewhere({**ranks, "rank 3": stacks(log(waits(70, "evaluate")))}) == {}


def test_nobody_is_elsewhere_where_no_place_has_most_of_the_ranks() -> None:
    assert elsewhere({"a": stacks(log(waits())), "b": stacks(log(LOADS))}) == {}
    assert elsewhere({"a": [], "b": stacks(log("nothing of a stack"))}) == {}


def test_a_rank_of_which_nothing_is_known_is_not_counted() -> None:
    ranks = {"a": stacks(log(waits())), "b": stacks(log(waits())), "c": stacks(log(LOADS)), "d": []}
    assert list(elsewhere(ranks)) == ["c"]
