"""Which workers are left after scale intents, and which intents are refused."""

import itertools

import pytest

import etcompile
from specs import by_name, compiled, errors, pods, scale_in, scale_out, training_job, worker


def test_scale_out_numbers_on_from_the_highest_index() -> None:
    result = compiled(training_job(), scale_out("more", 2))
    assert pods(result) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-worker-3"]


def test_et_operator_50_scale_in_by_count_takes_the_highest_indexes() -> None:
    result = compiled(training_job(replicas=4), scale_in("fewer", 2))
    assert pods(result) == ["mnist-worker-0", "mnist-worker-1"]


def test_scale_in_by_names_removes_exactly_the_named_pods() -> None:
    result = compiled(training_job(replicas=3), scale_in("slow", ["mnist-worker-1"]))
    assert pods(result) == ["mnist-worker-0", "mnist-worker-2"]


def test_et_operator_24_an_index_freed_at_the_top_is_used_again() -> None:
    result = compiled(training_job(), scale_in("fewer", 1), scale_out("more", 2))
    assert pods(result) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


def test_an_index_freed_in_the_middle_stays_free() -> None:
    result = compiled(
        training_job(replicas=3), scale_in("slow", ["mnist-worker-1"]), scale_out("more", 1)
    )
    assert pods(result) == ["mnist-worker-0", "mnist-worker-2", "mnist-worker-3"]


def test_scaled_out_pods_carry_the_name_of_their_scale_out_and_services_do_not() -> None:
    objects = by_name(compiled(training_job(), scale_out("more", 1)))
    assert objects["Pod", "mnist-worker-2"]["metadata"]["labels"]["scaleout-name"] == "more"
    assert "scaleout-name" not in objects["Pod", "mnist-worker-1"]["metadata"]["labels"]
    assert "scaleout-name" not in objects["Service", "mnist-worker-2"]["metadata"]["labels"]


def test_a_generated_name_gets_the_first_index_so_that_two_stay_apart() -> None:
    first, second = scale_out("x", 1), scale_out("x", 1)
    for intent in (first, second):
        intent["metadata"] = {"generateName": "night-"}
    objects = by_name(compiled(training_job(), first, second))
    labels = [objects["Pod", f"mnist-worker-{i}"]["metadata"]["labels"] for i in (2, 3)]
    assert [label["scaleout-name"] for label in labels] == ["night-2", "night-3"]


def test_et_operator_09_10_the_host_list_is_that_of_the_workers_left() -> None:
    result = compiled(training_job(slotsPerWorker=4), scale_out("a", 1), scale_in("b", 2))
    data = by_name(result)["ConfigMap", "mnist-config"]["data"]
    assert data["hostfile"] == "mnist-worker-0:4\n"
    assert data["deepspeed-hostfile"] == "mnist-worker-0 slots=4\n"


# Order ------------------------------------------------------------------------------------------


def numbered(intent: dict, sequence: str) -> dict:
    intent["metadata"]["annotations"] = {"etcompile.dev/sequence": sequence}
    return intent


def received(intent: dict, time: str) -> dict:
    intent["metadata"]["creationTimestamp"] = time
    return intent


def test_sequence_decides_whatever_the_order_of_the_files() -> None:
    job = training_job()
    intents = [
        numbered(scale_out("a", 2), "1"),
        numbered(scale_in("b", ["mnist-worker-0", "mnist-worker-3"]), "2"),
        numbered(scale_out("c", 1), "10"),
    ]
    for order in itertools.permutations([job, *intents]):
        assert pods(compiled(*order)) == ["mnist-worker-1", "mnist-worker-2", "mnist-worker-3"]


def test_received_intents_precede_numbered_ones_which_precede_the_rest() -> None:
    last = scale_in("last", ["mnist-worker-3"])
    middle = numbered(scale_out("middle", 1), "1")
    first = received(scale_out("first", 1), "2026-01-01T00:00:00Z")
    result = compiled(training_job(), last, middle, first)
    assert pods(result) == ["mnist-worker-0", "mnist-worker-1", "mnist-worker-2"]


def test_received_intents_count_in_the_order_of_their_time() -> None:
    later = received(scale_in("later", ["mnist-worker-2"]), "2026-01-02T00:00:00Z")
    earlier = received(scale_out("earlier", 1), "2026-01-01T00:00:00Z")
    assert pods(compiled(training_job(), later, earlier)) == ["mnist-worker-0", "mnist-worker-1"]


def test_two_intents_with_one_sequence_collide() -> None:
    both = [numbered(scale_out("a", 1), "1"), numbered(scale_out("b", 1), "1")]
    assert errors(training_job(), *both) == ["ET3003"]


def test_the_same_sequence_in_two_jobs_is_no_collision() -> None:
    both = [numbered(scale_out("a", 1), "1"), numbered(scale_out("b", 1, job="bert"), "1")]
    assert errors(training_job(), training_job("bert"), *both) == []


def test_a_sequence_that_is_no_number_is_refused() -> None:
    assert errors(training_job(), numbered(scale_out("a", 1), "second")) == ["ET3010"]


# Refused ----------------------------------------------------------------------------------------


def test_et_operator_36_an_intent_for_a_job_that_is_not_there_is_refused() -> None:
    result = etcompile.compile([training_job(), scale_out("a", 1, job="mnits")])
    [problem] = result.diagnostics
    assert problem.code == "ET3001"
    assert "'mnist'" in (problem.hint or "")


def test_an_intent_of_another_namespace_selects_no_job() -> None:
    intent = scale_out("a", 1)
    intent["metadata"]["namespace"] = "ml"
    assert errors(training_job(), intent) == ["ET3001"]


def test_no_namespace_means_default_on_both_sides() -> None:
    job = training_job()
    job["metadata"]["namespace"] = "default"
    assert len(pods(compiled(job, scale_out("a", 1)))) == 3


def test_et_operator_01_each_unknown_pod_name_is_a_separate_error() -> None:
    intent = scale_in("a", ["mnist-worker-7", "mnist-worker-1", "other"])
    assert errors(training_job(replicas=4), intent) == ["ET3002", "ET3002"]


def test_a_worker_cannot_be_removed_twice_and_the_message_says_who_did() -> None:
    intents = [scale_in(name, ["mnist-worker-2"]) for name in ("first", "second")]
    [problem] = etcompile.compile([training_job(replicas=3), *intents]).diagnostics
    assert problem.code == "ET3002"
    assert "ScaleIn first has removed already" in problem.message


def test_et_operator_05_bounds_hold_for_scale_outs_and_scale_ins() -> None:
    job = training_job(replicas=3)
    worker(job).update(minReplicas=2, maxReplicas=4)
    assert errors(job, scale_out("a", 1)) == errors(job, scale_in("a", 1)) == []
    assert errors(job, scale_out("a", 1), scale_out("b", 1)) == ["ET3004"]
    assert errors(job, scale_in("a", 2)) == ["ET3005"]


@pytest.mark.parametrize("wanted", [2, 5, ["mnist-worker-0", "mnist-worker-1"]])
def test_et_operator_22_the_last_worker_always_stays(wanted: int | list[str]) -> None:
    assert errors(training_job(), scale_in("a", wanted)) == ["ET3005"]


def test_a_name_that_no_label_can_hold_is_refused() -> None:
    assert errors(training_job(), scale_out("n" * 63, 1)) == []
    assert errors(training_job(), scale_out("n" * 64, 1)) == ["ET3011"]


def test_every_refused_intent_of_a_run_is_reported() -> None:
    job = training_job()
    worker(job)["maxReplicas"] = 2
    wrong = [scale_out("a", 1), scale_in("b", ["nobody"]), scale_in("c", 9)]
    assert sorted(errors(job, *wrong)) == ["ET3002", "ET3004", "ET3005"]


def test_names_win_over_a_count_with_a_warning() -> None:
    intent = scale_in("a", ["mnist-worker-0"])
    intent["spec"]["toDelete"]["count"] = 1
    result = compiled(training_job(), intent)
    assert pods(result) == ["mnist-worker-1"]
    assert [d.code for d in result.diagnostics] == ["ET3007"]


def test_an_empty_list_of_names_counts_as_none() -> None:
    intent = scale_in("a", 1)
    intent["spec"]["toDelete"]["podNames"] = []
    assert pods(compiled(training_job(), intent)) == ["mnist-worker-0"]


def test_an_intent_that_had_failed_in_its_cluster_is_left_out() -> None:
    intent = scale_out("a", 1) | {"status": {"phase": "ScaleFailed"}}
    result = compiled(training_job(), intent)
    assert len(pods(result)) == 2
    assert [d.code for d in result.diagnostics] == ["ET3008"]


def test_et_operator_26_fields_that_no_compiler_can_act_on_are_warnings() -> None:
    intent = scale_out(
        "a", 1, timeout=300, backoffLimit=1, script="/s.sh", env=[{"name": "A", "value": "1"}]
    )
    result = compiled(training_job(), intent)
    assert sorted(d.code for d in result.diagnostics) == ["ET2041", "ET2041", "ET2041", "ET3009"]
