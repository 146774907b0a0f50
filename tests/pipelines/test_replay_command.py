"""`capsheet replay`: what it takes, what it answers, and that its answer is the replay's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import SERVICE, Capsheet, Small

LLAMA = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100-SXM", "--engine", "vllm@0.19.0", "--offline")


def asked(capsheet: Capsheet, *options: object) -> dict[str, Any]:
    done = capsheet("replay", *options, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_rate_needs_no_workspace_and_the_same_seed_gives_the_same_answer(capsheet: Capsheet) -> None:
    load = ("--rate", 5, "--isl", 800, "--osl", 100, "--requests", 400, "--seed", 3)
    first = asked(capsheet, *LLAMA, *load, "--ttft-ms", 500, "--tpot-ms", 40)
    assert first == asked(capsheet, *LLAMA, *load, "--ttft-ms", 500, "--tpot-ms", 40)
    assert first["finished_requests"] == 400
    assert first["attainment"] == 1.0 and first["meets_slo"]
    assert first["goodput_rps_per_replica"] > 5
    for row in first["percentiles_ms"].values():
        quantiles = [row[f"p{q}"] for q in (50, 90, 95, 99)]
        assert quantiles == sorted(quantiles)
    assert first["percentiles_ms"]["e2e"]["p50"] > first["percentiles_ms"]["ttft"]["p50"]
    series = first["series"]
    assert len(series["start_s"]) == len(series["running"]) == len(series["queue_limit"])
    running = sum(series["running"]) * series["bin_s"] / first["makespan_s"]
    assert running == pytest.approx(first["running_mean"])


def test_beyond_the_rate_it_serves_a_replica_says_what_held_the_queue(capsheet: Capsheet) -> None:
    over = asked(capsheet, *LLAMA, "--rate", 500, "--isl", 800, "--osl", 100, "--requests", 2000, "--ttft-ms", 500)
    assert not over["meets_slo"] and over["slo_binding"] == "ttft_p99"
    assert over["queue_limit"] != "none"
    assert over["goodput_rps_per_replica"] < 500


def test_clients_wait_for_their_answers(capsheet: Capsheet) -> None:
    closed = asked(capsheet, *LLAMA, "--clients", 8, "--isl", 500, "--osl", 50, "--requests", 80)
    assert closed["running_mean"] <= 8
    assert closed["arrival_rps"] is None and "goodput_rps_per_replica" not in closed


def test_a_service_of_the_workspace_is_replayed_on_its_own_trace_however_many_files_it_is_in(
    tmp_path: Path, capsheet: Capsheet
) -> None:
    small = Small(tmp_path / "w").write()
    own = asked(capsheet, "--workspace", small.folder)
    assert own["gpu"] == "H100-SXM" and own["engine"] == "vllm@0.19.0"
    assert own["requests"] == len(small.lines) - 1
    assert own["attainment_target"] == 0.99
    (small.folder / "logs").mkdir()
    for name, lines in (("a", small.lines[1:600]), ("b", small.lines[600:])):
        (small.folder / f"logs/{name}.csv").write_text("\n".join([small.lines[0], *lines]))
    small.service = SERVICE.replace("source: trace.csv", "source: logs")
    assert asked(capsheet, "--workspace", small.write().folder) == own
    other = asked(capsheet, "--workspace", small.folder, "--gpu", "L40S", "--replicas", 2)
    assert other["gpu"] == "L40S" and other["percentiles_ms"]["tpot"]["p50"] > own["percentiles_ms"]["tpot"]["p50"]


def test_people_get_tables(capsheet: Capsheet) -> None:
    done = capsheet("replay", *LLAMA, "--rate", 2, "--isl", 100, "--osl", 20, "--requests", 50, "--tpot-ms", 50)
    assert done.returncode == 0, done.stderr
    for word in ("ttft", "itl", "tpot", "e2e", "queue", "p99", "promise kept", "goodput of one replica"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*LLAMA, "--rate", 5), "give --trace FILE, or --isl and --osl"),
        ((*LLAMA, "--isl", 5, "--osl", 5), "--rate is missing"),
        ((*LLAMA, "--isl", 5, "--osl", 5, "--arrival", "closed"), "--clients"),
        ((*LLAMA, "--isl", 5, "--osl", 5, "--arrival", "poisson", "--clients", 2), "goes with --arrival closed"),
        (("--model", "meta-llama/Llama-3.1-8B-Instruct", "--isl", 5, "--osl", 5, "--rate", 1), "--gpu is missing"),
        ((*LLAMA, "--trace", "missing.csv"), "missing.csv"),
        ((*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--tp", 3), "TP 3"),
        ((*LLAMA, "--rate", 5, "--isl", 500_000, "--osl", 5), "max_model_len"),
        ((*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--warmup-s", 1e6), "no request to count"),
    ],
)
def test_options_that_make_no_replay_are_one_clear_line(
    tmp_path: Path, capsheet: Capsheet, options: tuple[object, ...], message: str
) -> None:
    done = capsheet("replay", *options, "--workspace", tmp_path)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
