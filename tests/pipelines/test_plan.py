"""The main job: what a plan publishes, what a second one repeats, and what bad input leaves untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.commands.plan import run as plan
from tests.pipelines.conftest import SERVICE, Capsheet, Small
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError
from warehouse.registry import tables


def test_two_runs_give_two_versions_with_the_same_numbers_and_no_row_twice(small: Small) -> None:
    plan(small.folder, json=True)
    plan(small.folder, json=True)
    versions = small.rows("SELECT * FROM plan ORDER BY plan_version")
    assert [v["plan_version"] for v in versions] == [1, 2]
    same = ("inputs_sha256", "gpus_total", "usd_per_hour", "usd_per_month", "services_meeting_slo", "checks_failed")
    assert [versions[0][k] for k in same] == [versions[1][k] for k in same]
    assert versions[0]["gpus_total"] > 0
    for table in tables():
        if table.versioned:
            first, second = (
                small.rows(f"SELECT * EXCLUDE plan_version FROM {table.name} WHERE plan_version = {v} ORDER BY ALL")
                for v in (1, 2)
            )
            assert first == second, table.name
        total = small.rows(f"SELECT count(*) AS n FROM {table.name}")[0]["n"]
        distinct = small.rows(f"SELECT count(*) AS n FROM (SELECT DISTINCT {', '.join(table.key)} FROM {table.name})")
        assert total == distinct[0]["n"], table.name
    assert small.rows("SELECT count(*) AS n FROM request")[0]["n"] == 1500
    assert len(small.workbooks()) == 2


def test_the_cost_lines_the_candidate_and_the_header_agree(published: Small) -> None:
    small = published
    head = small.rows("SELECT gpus_total, usd_per_hour, usd_per_month FROM plan")[0]
    cost = small.rows(
        "SELECT sum(gpus)::INT AS gpus, sum(usd_per_hour) AS hour, sum(usd_per_month) AS month FROM plan_cost"
    )[0]
    chosen = small.rows("SELECT gpus, usd_per_hour, replicas FROM plan_candidate WHERE status = 'chosen'")[0]
    headroom = small.rows("SELECT sum(replicas)::INT AS replicas, sum(gpus)::INT AS gpus FROM plan_headroom")[0]
    assert head["gpus_total"] == cost["gpus"] == chosen["gpus"] == headroom["gpus"]
    assert chosen["replicas"] == headroom["replicas"]
    assert head["usd_per_hour"] == pytest.approx(cost["hour"]) == pytest.approx(chosen["usd_per_hour"])
    assert head["usd_per_month"] == pytest.approx(cost["month"])


def test_the_chosen_fleet_keeps_its_promise_with_one_replica_down(published: Small) -> None:
    small = published
    runs = {
        row["scenario"]: row
        for row in small.rows(
            "SELECT f.* FROM plan_capacity f JOIN plan_candidate c USING (plan_version, service, candidate_id) "
            "WHERE c.status = 'chosen'"
        )
    }
    assert set(runs) == {"goodput_replica", "fleet_planned", "fleet_all_up", "fleet_one_down"}
    assert all(run["meets_slo"] and run["attainment"] >= 0.99 for run in runs.values())
    assert all(run["rejected_requests"] == 0 for run in runs.values())
    assert runs["fleet_all_up"]["requests"] == 1500


def test_the_chosen_fleet_is_seen_over_time_and_its_bins_add_up_to_its_figures(published: Small) -> None:
    runs = published.rows(
        "SELECT f.* FROM plan_capacity f JOIN plan_candidate c USING (plan_version, service, candidate_id) "
        "WHERE c.status = 'chosen' AND scenario LIKE 'fleet%'"
    )
    assert len(runs) == 3
    for run in runs:
        bins = published.rows(f"SELECT * FROM plan_series WHERE scenario = '{run['scenario']}' ORDER BY bin")
        assert {row["candidate_id"] for row in bins} == {run["candidate_id"]}
        assert [row["start_s"] for row in bins] == pytest.approx([i * bins[0]["bin_s"] for i in range(len(bins))])
        assert sum(row["preemptions"] for row in bins) == run["preemptions"]
        running_s = sum(row["running"] for row in bins) * bins[0]["bin_s"]
        accounted_s = running_s / run["running_mean"] / run["replicas"]
        assert len(bins) - 1 <= accounted_s / bins[0]["bin_s"] <= len(bins)
        queued = {row["queue_limit"] for row in bins} - {"none"}
        assert (run["queue_limit"] in queued) if queued else run["queue_limit"] == "none"


def test_every_latency_has_its_percentiles_whole_and_by_bucket(published: Small) -> None:
    capacity = published.rows("SELECT * FROM plan_capacity")
    buckets = published.rows("SELECT * FROM plan_bucket WHERE scenario = 'fleet_planned'")
    for rows, metrics in ((capacity, ("ttft", "tpot", "e2e", "itl", "queue")), (buckets, ("ttft", "tpot", "e2e"))):
        for row in rows:
            for metric in metrics:
                values = [row[f"{metric}_p{q}_ms"] for q in (50, 90, 95, 99)]
                assert values == sorted(values), (row["candidate_id"], metric)
    chosen = [row for row in capacity if row["candidate_id"] == buckets[0]["candidate_id"]]
    counted = next(row["requests_counted"] for row in chosen if row["scenario"] == "fleet_planned")
    assert sum(row["requests"] for row in buckets) == counted


def test_broken_rows_are_kept_with_line_and_reason_and_counted_on_the_checks_sheet(small: Small) -> None:
    import openpyxl

    broken = range(100, 1500, 100)
    for line in broken:
        small.lines[line] = small.lines[line].rsplit(",", 1)[0] + ",many"
    small.write()
    plan(small.folder, json=True)
    rejected = small.rows("SELECT source_file, line, reason, raw FROM rejected_row ORDER BY line")
    assert [row["line"] for row in rejected] == [line + 1 for line in broken]
    assert all(row["source_file"] == "trace.csv" and row["reason"] and row["raw"].endswith("many") for row in rejected)
    assert small.rows("SELECT count(*) AS n FROM request")[0]["n"] == 1500 - len(broken)
    book = openpyxl.load_workbook(small.folder / "plans" / small.workbooks()[0], data_only=True)
    text = "\n".join(
        str(cell) for row in book["Checks"].iter_rows(values_only=True) for cell in row if cell is not None
    )
    assert str(len(broken)) in text.split()


BAD = {
    "sixty_percent_broken": ("trace.csv", "are broken"),
    "html": ("trace.csv", "HTML"),
    "empty": ("trace.csv", "empty"),
    "missing_trace": ("trace.csv", "not"),
    "missing_model": ("nobody/no-such-model", "nobody/no-such-model"),
    "zero_slo": ("capsheet.yaml", "ttft_p99_ms is 0"),
    "unknown_gpu": ("H999", "no accelerator 'H999'"),
    "unknown_engine": ("sorcery", "sorcery"),
    "unreachable_slo": ("chat", "no candidate keeps its SLO"),
}


def spoil(small: Small, kind: str) -> None:
    """Make one thing of a good workspace bad."""
    trace = small.folder / "trace.csv"
    changes = {
        "missing_model": ("meta-llama/Llama-3.1-8B-Instruct", "nobody/no-such-model"),
        "zero_slo": ("ttft_p99_ms: 2000", "ttft_p99_ms: 0"),
        "unknown_gpu": ("[H100-SXM, L40S]", "[H999]"),
        "unknown_engine": ("name: vllm", "name: sorcery"),
        "unreachable_slo": ("tpot_p99_ms: 60", "tpot_p99_ms: 0.5"),
    }
    if kind in changes:
        small.service = SERVICE.replace(*changes[kind])
    if kind == "sixty_percent_broken":
        small.lines = [line if i == 0 or i % 5 < 2 else "garbage" for i, line in enumerate(small.lines)]
    small.write()
    if kind == "html":
        trace.write_text("<!DOCTYPE html>\n<html><body>Sign in to continue</body></html>\n")
    if kind == "empty":
        trace.write_text("")
    if kind == "missing_trace":
        trace.unlink()


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_clear_message_and_leaves_the_former_version_untouched(published: Small, kind: str) -> None:
    small = published
    before, books = small.rows("SELECT * FROM plan"), small.workbooks()
    content = (small.folder / "plans" / books[0]).read_bytes()
    spoil(small, kind)
    with pytest.raises(CapsheetError) as failure:
        plan(small.folder, json=True)
    where, what = BAD[kind]
    assert where in str(failure.value) and what in str(failure.value)
    assert "\n" not in str(failure.value)
    assert small.rows("SELECT * FROM plan") == before
    assert small.workbooks() == books
    assert (small.folder / "plans" / books[0]).read_bytes() == content


def test_a_burst_outside_the_busiest_stretch_is_bought_for(small: Small) -> None:
    """Two thousand short prompts in one second, far from the window: the whole trace is part of the promise."""
    quiet = [line.split(",") for line in small.lines[1:]]
    burst = [f"2026-03-02 12:00:00.{i:04d}000,24,8" for i in range(2000)]
    small.lines = [small.lines[0], *(",".join(cells) for cells in quiet), *burst]
    small.service = SERVICE.replace("[H100-SXM, L40S]", "[H100-SXM]").replace("demand_factor: 8", "demand_factor: 1")
    small.write()
    plan(small.folder, json=True)
    whole = small.rows("SELECT * FROM plan_capacity WHERE scenario = 'fleet_all_up'")[0]
    assert whole["meets_slo"] and whole["attainment"] >= 0.99
    assert small.rows("SELECT services_meeting_slo AS n FROM plan")[0]["n"] == 1
    assert small.rows("SELECT replicas FROM plan_headroom WHERE risk = 'traffic'")[0]["replicas"] > 0


def test_engines_stand_beside_each_other_and_a_group_stays_inside_a_node(small: Small) -> None:
    small.service = SERVICE.replace(
        "[{name: vllm, version: 0.19.0}]", "[{name: vllm, version: 0.19.0}, {name: sglang, version: 0.5.4}]"
    ).replace("[H100-SXM, L40S]", "[H100-SXM]\n      tensor_parallel: [1, 16]")
    small.write()
    plan(small.folder, json=True)
    found = {row["candidate_id"]: row for row in small.rows("SELECT * FROM plan_candidate")}
    assert {row["engine"] for row in found.values()} == {"vllm", "sglang"}
    for row in found.values():
        assert (row["tp"] == 16) == (row["status"] == "not_possible"), row["reason"]


def test_as_many_replicas_are_down_in_a_replay_as_the_headroom_is_for(small: Small) -> None:
    few = "{name: vllm, version: 0.19.0, max_num_seqs: 64}"
    small.service = (
        SERVICE.replace("{name: vllm, version: 0.19.0}", "{name: vllm, version: 0.19.0}, " + few)
        .replace("[H100-SXM, L40S]", "[H100-SXM]")
        .replace("failure_replicas: 1", "failure_replicas: 2")
    )
    small.write()
    plan(small.folder, json=True)
    found = small.rows("SELECT candidate_id, max_num_seqs FROM plan_candidate ORDER BY max_num_seqs")
    assert [row["max_num_seqs"] for row in found] == [64, 1024]
    assert [row["candidate_id"].rpartition(" / ")[2] for row in found] == ["max_num_seqs=64", "max_num_seqs=default"]
    runs = {row["scenario"]: row for row in small.rows("SELECT * FROM plan_capacity WHERE scenario LIKE 'fleet%'")}
    assert runs["fleet_failures_down"]["replicas"] == runs["fleet_all_up"]["replicas"] - 2
    assert runs["fleet_one_down"]["replicas"] == runs["fleet_all_up"]["replicas"] - 1
    assert runs["fleet_failures_down"]["meets_slo"]


def test_rejected_rows_are_those_of_this_plan(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    clean = list(small.lines)
    small.lines[5] = "garbage"
    small.write()
    plan(small.folder, json=True)
    (small.folder / "other.csv").write_text("\n".join(clean) + "\n")
    small.service = SERVICE.replace("source: trace.csv", "source: other.csv")
    (small.folder / "capsheet.yaml").write_text(f"{small.head}services:\n{small.service}{small.tail}")
    capsys.readouterr()
    plan(small.folder, json=True)
    assert json.loads(capsys.readouterr().out)["rejected_rows"] == 0


def test_a_failure_of_the_command_is_one_line_and_exit_1(small: Small, capsheet: Capsheet) -> None:
    (small.folder / "trace.csv").write_text("<html>no</html>")
    done = capsheet("plan", "--workspace", small.folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("capsheet: ")
    assert "Traceback" not in done.stderr
    assert not (small.folder / "plans").exists()


def test_the_command_says_what_it_published_as_json(small: Small, capsheet: Capsheet) -> None:
    done = capsheet("plan", "--workspace", small.folder, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["plan_version"] == 1
    assert Path(said["workbook"]).is_file()
    asked = capsheet("sql", "select * from plan", "--workspace", small.folder, "--json")
    assert [row["gpus_total"] for row in json.loads(asked.stdout)] == [said["gpus_total"]]


def test_a_second_run_at_the_same_time_is_refused(small: Small) -> None:
    from pipelines.workspace import Place
    from warehouse.lock import single_run

    with single_run(Place(small.folder).lock), pytest.raises(CapsheetError, match="running in this workspace"):
        plan(small.folder, json=True)


def test_the_azure_conversation_trace_plans_whole(shared: Path, tmp_path: Path) -> None:
    """KV budget against the engine's own start-up line for this model, GPU and version: 476,016 tokens at 0.95."""
    small = Small(tmp_path / "azure").write()
    source = shared / "data" / "traces" / "azure2023_conv.csv"
    small.service = (
        SERVICE.replace("trace.csv", str(source))
        .replace("[H100-SXM, L40S]", "[H100-SXM]\n      max_model_len: 8192")
        .replace("{name: vllm, version: 0.19.0}", "{name: vllm, version: 0.19.0, gpu_memory_utilization: 0.95}")
        .replace("failure_replicas: 1", "failure_replicas: 1, memory_gib_per_gpu: 0")
        .replace("demand_factor: 8", "demand_factor: 4")
    )
    small.write()
    plan(small.folder, json=True)
    assert small.rows("SELECT count(*) AS n FROM request")[0]["n"] == 19_366
    budget = small.rows("SELECT kv_budget_tokens FROM plan_candidate WHERE status = 'chosen'")[0]["kv_budget_tokens"]
    assert budget == pytest.approx(476_016, rel=0.05)


def test_drafts_of_a_failed_run_never_reach_a_version(published: Small) -> None:
    small = published
    spoil(small, "unreachable_slo")
    with pytest.raises(CapsheetError):
        plan(small.folder, json=True)
    with Warehouse(small.folder / "capsheet.duckdb").reader() as con:
        assert con.execute("SELECT max(plan_version) FROM plan_candidate").fetchall() == [(1,)]
