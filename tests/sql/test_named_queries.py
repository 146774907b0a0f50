"""The named queries answer what a platform, finance or reliability engineer asks first."""

from __future__ import annotations

import pytest

from warehouse.connection import Warehouse
from warehouse.query import named_queries, run_named, run_query
from warehouse.registry import tables


def test_every_query_has_a_title_and_says_what_its_parameters_mean() -> None:
    queries = named_queries()
    assert len(queries) >= 10
    for query in queries.values():
        assert query.title
        assert not query.title.startswith("param")
        assert query.text.count("-- param") == len(query.parameters)
        for parameter in query.parameters:
            assert f"${parameter.name}" in query.text


@pytest.mark.parametrize("name", sorted(named_queries()))
def test_every_query_answers_on_a_published_warehouse_and_twice_the_same(published: Warehouse, name: str) -> None:
    answer = run_named(published, name)
    assert answer.height > 0
    assert answer.equals(run_named(published, name))


@pytest.mark.parametrize("name", sorted(named_queries()))
def test_no_query_fails_on_a_warehouse_without_a_plan(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    empty = Warehouse(tmp_path_factory.getbasetemp() / "empty.duckdb")
    if not empty.path.exists():
        with empty.writer():
            pass
    assert run_named(empty, name).height == 0


@pytest.mark.parametrize(
    "name", sorted(n for n, q in named_queries().items() if "version" in {p.name for p in q.parameters})
)
def test_a_query_of_a_version_asks_the_newest_unless_told(published: Warehouse, name: str) -> None:
    assert run_named(published, name).equals(run_named(published, name, {"version": "2"}))
    assert run_named(published, name, {"version": 99}).height == 0


def test_the_history_shows_each_versions_cost_and_its_change_newest_first(published: Warehouse) -> None:
    history = run_named(published, "plan_history").select(
        "plan_version", "gpus_total", "gpus_change", "usd_per_month", "usd_per_month_change"
    )
    assert history.rows() == [(2, 5, 2, 6935.0, 1825.0), (1, 3, None, 5110.0, None)]


def test_the_current_plan_is_one_row_a_service(published: Warehouse) -> None:
    plan = run_named(published, "current_plan").select("plan_version", "service", "candidate_id", "margin_ratio")
    assert plan.rows() == [(2, "chat", "H100 tp1", 0.25), (2, "code", "L40S tp1", 0.05)]


def test_what_binds_is_told_for_the_planned_fleet_and_with_one_replica_down(published: Warehouse) -> None:
    binding = run_named(published, "binding").select(
        "service", "replica_binding", "k_bound", "l_bound", "fleet_margin_ratio", "margin_ratio_one_down"
    )
    assert binding.rows() == [
        ("chat", "TPOT (L)", 40.0, 25.0, 0.25, -0.1),
        ("code", "KV memory (K)", 8.0, 12.0, 0.05, None),
    ]


def test_headroom_is_priced_by_risk_and_its_shares_are_the_whole(published: Warehouse) -> None:
    headroom = run_named(published, "headroom_cost").select("service", "risk", "usd_per_month", "share_of_service")
    assert headroom.rows() == [
        ("chat", "demand", 5475.0, 1.0),
        ("code", "demand", 730.0, 0.5),
        ("code", "failure", 730.0, 0.5),
    ]


def test_the_bridge_parts_a_change_of_cost_into_quantity_and_price(published: Warehouse) -> None:
    bridge = run_named(published, "cost_bridge")
    found = bridge.select("service", "item", "usd_per_month_change", "from_quantity", "from_price").rows()
    assert found == [
        ("chat", "demand", 1095.0, 2190.0, -1095.0),  # one GPU more at the old $3, three at $0.50 less
        ("code", "failure", 730.0, 730.0, 0.0),  # new: all of it quantity
        ("code", "demand", 0.0, 0.0, 0.0),
    ]
    history = run_named(published, "plan_history")
    assert bridge["usd_per_month_change"].sum() == history["usd_per_month_change"][0]


def test_the_bridge_read_backwards_is_the_opposite_change(published: Warehouse) -> None:
    back = run_named(published, "cost_bridge", {"from_version": 2, "to_version": 1})
    assert back["usd_per_month_change"].sum() == -1825.0
    assert (back["from_quantity"] + back["from_price"]).to_list() == back["usd_per_month_change"].to_list()


def test_the_worst_prediction_comes_first_and_saturated_runs_last(published: Warehouse) -> None:
    errors = run_named(published, "prediction_errors").select("error_ratio", "saturated", "source_file")
    assert errors.rows() == [
        (0.3, False, "source_file 1"),
        (-0.1, False, "source_file 0"),
        (9.0, True, "source_file 2"),
    ]


def test_rejected_rows_are_counted_by_reason_whatever_the_value(published: Warehouse) -> None:
    rejected = run_named(published, "rejected_rows")
    assert rejected.rows() == [
        ("trace.csv", "osl_tokens: must be above 0", 2, 7, "seven"),
        ("trace.csv", "same source_file, line as line 3", 1, 12, "twelve"),
        ("trace.csv", "ttft_ms: not a finite number", 1, 9, "nine"),
    ]


def test_sources_show_the_share_they_lost(published: Warehouse) -> None:
    sources = run_named(published, "source_files").select("kind", "rejected_share")
    assert sources.rows() == [("model", None), ("trace", 0.3)]


def test_assumptions_are_those_nobody_measured_unless_another_label_is_asked(published: Warehouse) -> None:
    assumed = run_named(published, "assumptions").select("name", "value")
    assert assumed.rows() == [("hours_per_month", "730.0"), ("growth", "none expected")]
    assert run_named(published, "assumptions", {"label": "cited"})["name"].to_list() == ["ttft_p99_target_ms"]


def test_candidates_are_ranked_by_cost_with_those_that_work_first(published: Warehouse) -> None:
    chat = run_named(published, "candidates", {"service": "chat"}).select("candidate_id", "status")
    assert chat.rows() == [("H200 tp1", "feasible"), ("H100 tp1", "chosen"), ("L40S tp1", "does_not_fit")]
    assert run_named(published, "candidates")["service"].to_list() == ["chat", "chat", "chat", "code"]


def test_the_capacity_table_has_every_replay_with_its_engine(published: Warehouse) -> None:
    capacity = run_named(published, "capacity").select("service", "candidate_id", "scenario")
    assert capacity.rows() == [
        ("chat", "H200 tp1", "fleet_planned"),
        ("chat", "H100 tp1", "fleet_one_down"),
        ("chat", "H100 tp1", "fleet_planned"),
        ("code", "L40S tp1", "fleet_planned"),
    ]


def test_the_memory_account_is_that_of_the_chosen_configuration(published: Warehouse) -> None:
    assert run_named(published, "memory").select("term", "value").rows() == [("weights", 14.96), ("KV cache", 50.0)]


def test_a_number_is_found_by_name_with_its_formula(published: Warehouse) -> None:
    assert run_named(published, "numbers")["number"].to_list() == ["chat.gpus", "code.gpus"]
    one = run_named(published, "numbers", {"number": "code.gpus"})
    assert one.select("number", "formula").rows() == [("code.gpus", "sizing.replicas")]


def test_every_public_column_can_be_asked_for_without_quotes(published: Warehouse) -> None:
    for table in tables():
        names = [column.name for column in table.columns]
        assert run_query(published, f"SELECT {', '.join(names)} FROM {table.name} LIMIT 0").columns == names
