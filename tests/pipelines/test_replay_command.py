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


def test_prompts_hold_up_decodes_where_the_engine_gives_them_steps_of_their_own(capsheet: Capsheet) -> None:
    load = ("--rate", 6, "--isl", 2000, "--osl", 100, "--requests", 200)
    own = asked(capsheet, *LLAMA, *load, "--engine", "sglang@0.5.9")
    mixed = asked(capsheet, *LLAMA, *load, "--engine", "sglang@0.5.9", "--mixed-prefill")
    assert (own["exclusive_prefill"], mixed["exclusive_prefill"]) == (True, False)
    assert own["percentiles_ms"]["itl"]["p99"] > mixed["percentiles_ms"]["itl"]["p99"]
    assert own["percentiles_ms"]["ttft"]["mean"] < mixed["percentiles_ms"]["ttft"]["mean"]


def test_accepted_drafts_shorten_the_time_per_token_and_rejected_ones_lengthen_it(capsheet: Capsheet) -> None:
    load = ("--rate", 2, "--isl", 800, "--osl", 200, "--requests", 200)
    plain = asked(capsheet, *LLAMA, *load)
    lucky = asked(capsheet, *LLAMA, *load, "--drafts", 3, "--accepted", 0.7, "--draft-ms", 0.5)
    unlucky = asked(capsheet, *LLAMA, *load, "--drafts", 3, "--accepted", 0, "--draft-ms", 0.5)
    tpot = [said["percentiles_ms"]["tpot"]["mean"] for said in (lucky, plain, unlucky)]
    assert tpot == sorted(tpot) and tpot[2] > tpot[1] + 0.5
    # 2.53 tokens a step (arXiv:2211.17192, equation 1), and each step verifies four tokens and drafts three.
    assert 1.7 < tpot[1] / tpot[0] < 2.53
    assert lucky["speculation"] == {"drafts": 3, "accepted": 0.7, "draft_ms": 0.5} and plain["speculation"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--drafts", 3), "needs --accepted"),
        (("--accepted", 0.5), "give --drafts too"),
        (
            ("--drafts", 3, "--accepted", 0.5, "--prefill-replicas", 1, "--decode-replicas", 1, "--link-gbs", 25),
            "leave the pools out",
        ),
    ],
)
def test_drafts_that_cannot_be_are_told(capsheet: Capsheet, options: tuple[object, ...], says: str) -> None:
    done = capsheet("replay", *LLAMA, "--rate", 2, "--isl", 100, "--osl", 10, *options)
    assert done.returncode != 0 and says in done.stderr and "Traceback" not in done.stderr


def test_the_burst_of_a_closed_loop_is_told_apart(capsheet: Capsheet) -> None:
    closed = asked(capsheet, *LLAMA, "--clients", 16, "--prompts", 10, "--isl", 1000, "--osl", 100)
    phases = closed["closed_loop"]
    assert closed["requests"] == 160 == sum(phase["requests"] for phase in phases.values())
    assert phases["burst"]["requests"] == 16
    # Of equal lengths, all clients end together: every wave is a burst like the first, and none is left to drain.
    assert phases["steady"]["ttft_mean_ms"] == pytest.approx(phases["burst"]["ttft_mean_ms"], rel=0.3)
    assert phases["drain"] == {"requests": 0, "ttft_mean_ms": None, "tpot_mean_ms": None, "e2e_mean_ms": None}


def test_prefill_and_decode_on_different_replicas(capsheet: Capsheet) -> None:
    load = ("--rate", 10, "--isl", 1500, "--osl", 50, "--requests", 300)
    pools = ("--prefill-replicas", 2, "--decode-replicas", 1, "--link-gbs", 25, "--post-ms", 2)
    said = asked(capsheet, *LLAMA, *load, *pools, "--prefill-max-num-batched-tokens", 4096)
    assert said["finished_requests"] == 300 and said["replicas"] == 3
    # 32 layers of 8 heads of 128 elements, keys and values, 2 bytes each.
    assert said["handoff_bytes_per_token_per_gpu"] == 32 * 2 * 8 * 128 * 2
    assert said["first_token"] == "decode"
    waits = {name: row["mean"] for name, row in said["handoff_ms"].items()}
    assert waits["post"] == pytest.approx(2)
    assert waits["transfer"] >= 1499 * said["handoff_bytes_per_token_per_gpu"] / 25e9 * 1000 * (1 - 1e-9)
    assert sum(waits.values()) - waits["visible_wait"] == pytest.approx(waits["visible_wait"])
    assert (said["pools"]["prefill"]["replicas"], said["pools"]["decode"]["replicas"]) == (2, 1)
    streamed = asked(capsheet, *LLAMA, *load, *pools, "--first-token", "prefill", "--ttft-ms", 500)
    assert streamed["goodput_rps"] > 10 and "goodput_rps_per_replica" not in streamed
    assert streamed["percentiles_ms"]["ttft"]["p50"] < said["percentiles_ms"]["ttft"]["p50"]
    shown = capsheet("replay", *LLAMA, *load, *pools)
    for word in ("visible_wait", "transfer", "prefill", "decode"):
        assert word in shown.stdout


def test_attention_ranks_of_a_model_with_experts_step_together(capsheet: Capsheet) -> None:
    qwen = ("--model", "Qwen/Qwen3-30B-A3B", "--gpu", "H100-SXM", "--engine", "vllm@0.19.0", "--offline")
    load = ("--rate", 20, "--isl", 500, "--osl", 50, "--requests", 300)
    ranks = asked(capsheet, *qwen, *load, "--dp", 4, "--ep", 4, "--ttft-ms", 500)
    assert (ranks["dp"], ranks["replicas"], ranks["finished_requests"]) == (4, 1, 300)
    # Ranks share the experts, so each has more room for KV than an engine that holds them all.
    one = asked(capsheet, *qwen, *load, "--rate", 5)
    assert ranks["kv_blocks"] > one["kv_blocks"]
    assert ranks["goodput_rps_per_replica"] > 20
    refused = capsheet("replay", *LLAMA, *load, "--dp", 2)
    assert refused.returncode == 1 and "use --replicas 2" in refused.stderr


def test_what_the_device_forgot_comes_from_its_host(tmp_path: Path, capsheet: Capsheet) -> None:
    # Twenty prompts of 6,144 tokens, asked for twice: more than one L40S has room for.
    rows = [
        {
            "timestamp": 8000 * i,
            "input_length": 6144,
            "output_length": 4,
            "hash_ids": [100 * (i % 20) + k for k in range(12)],
        }
        for i in range(40)
    ]
    trace = tmp_path / "mooncake.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asks = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "L40S", "--engine", "vllm@0.19.0", "--offline")
    load = (*asks, "--trace", trace, "--gpu-memory-utilization", 0.6)
    host = ("--host-cache-gib", 100, "--host-gbs", 20)
    without, within, beside = (asked(capsheet, *load, *how) for how in ((), host, (*host, "--async-loads")))
    assert without["kv_blocks"] * 16 < 20 * 6144
    assert without["host_tokens"] == 0 and within["host_tokens"] == beside["host_tokens"] > 19 * 6000
    assert within["prefix_hit_share"] > without["prefix_hit_share"]
    assert within["percentiles_ms"]["ttft"]["p50"] < without["percentiles_ms"]["ttft"]["p90"]
    refused = capsheet("replay", *load, "--host-cache-gib", 100)
    assert refused.returncode == 1 and "--host-gbs is missing" in refused.stderr


def test_a_trace_reaches_a_rate_by_playing_it_faster_or_by_copies_of_it(tmp_path: Path, capsheet: Capsheet) -> None:
    small = Small(tmp_path / "w").write()
    own = asked(capsheet, "--workspace", small.folder)
    rate = 3 * own["arrival_rps"]
    faster, more = (
        asked(capsheet, "--workspace", small.folder, "--rate", rate, *how) for how in ((), ("--superpose",))
    )
    assert faster["arrival_rps"] == pytest.approx(rate) and more["arrival_rps"] == pytest.approx(rate, rel=0.05)
    spread = asked(capsheet, "--workspace", small.folder, "--grid-s", 1, "--warmup-s", 5, "--drain-s", 5)
    assert spread["requests"] == own["requests"] > spread["requests_counted"] > 0
    assert spread["percentiles_ms"] != own["percentiles_ms"]
    assert faster["requests"] == own["requests"] and more["requests"] == 3 * own["requests"]


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


def test_every_request_and_every_bucket_can_be_had(tmp_path: Path, capsheet: Capsheet) -> None:
    small, out = Small(tmp_path / "w").write(), tmp_path / "requests.csv"
    said = asked(capsheet, "--workspace", small.folder, "--out", out)
    assert len(out.read_text().splitlines()) == said["requests"] + 1
    assert sum(row["requests"] for row in said["buckets"]) == said["requests_counted"]
    assert said["goodput_found"] and said["goodput_rps_per_replica"] < said["goodput_failed_rps"]


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
        ((*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--prefill-replicas", 1), "--decode-replicas go together"),
        (
            (*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--prefill-replicas", 1, "--decode-replicas", 1),
            "--link-gbs is missing",
        ),
        ((*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--superpose"), "copies of a --trace"),
        ((*LLAMA, "--rate", 5, "--isl", 5, "--osl", 5, "--grid-s", 1), "whose clock was coarse"),
        ((*LLAMA, "--clients", 2, "--isl", 5, "--osl", 5, "--prompts", 2, "--requests", 9), "in place of --requests"),
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
