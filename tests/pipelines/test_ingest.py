"""Traces into the warehouse: every way a source may lie there, and no row twice however often it is delivered."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pipelines.ingest import ingest_source
from pipelines.progress import listening
from pipelines.sources import files, parquet, read_trace
from pipelines.sources.base import SourceError
from pipelines.sources.locations import find
from pipelines.workspace import TraceSpec
from tests.pipelines.conftest import SERVICE
from tests.pipelines.stores import HEADER, Store, lines, states


def test_a_stream_and_a_whole_read_give_the_same_rows_and_say_the_same(store: Store) -> None:
    text = lines(5).replace("00:07:00.5,107,17", "00:07:00.5,many,17").replace("00:09:00.5", "00:01:00.5")
    path = store.put("trace.csv", text)
    whole = read_trace(path, "trace.csv")
    done = store.ingest("trace.csv")
    stored = store.rows("SELECT * FROM request ORDER BY arrival_at, line")
    assert stored == whole.frame.to_dicts()
    assert store.rows("SELECT * FROM rejected_row") == whole.rejected.to_dicts()
    assert done[0].detail == whole.detail
    store.accounted()


def test_a_grid_is_spread_the_same_way_and_what_was_written_is_kept(store: Store) -> None:
    rows = [
        {"timestamp": 3000 * (i // 4), "input_length": 600, "output_length": 5, "hash_ids": [i, i]} for i in range(80)
    ]
    path = store.put("mooncake.jsonl", "\n".join(map(json.dumps, rows)))
    store.ingest("mooncake.jsonl", spread="uniform", options={"seed": 3})
    whole = read_trace(path, "mooncake.jsonl", options={"spread": "uniform", "seed": 3}).frame
    stored = store.rows("SELECT line, arrival_at, written_at FROM request ORDER BY arrival_at, line")
    assert stored == whole.select("line", "arrival_at", "written_at").to_dicts()
    assert len({row["arrival_at"] for row in stored}) > 70
    assert len({row["written_at"] for row in stored}) == 20


def test_caps_are_marked_over_the_whole_file(store: Store) -> None:
    rows = [f"2026-01-05 00:00:{i % 60:02d},{min(100 + i, 250)},{10 + i % 7}" for i in range(200)]
    store.put("trace.csv", "\n".join([HEADER, *rows]))
    detail = store.ingest("trace.csv")[0].detail
    assert "input capped at 250 tokens (50 requests)" in detail
    assert store.rows("SELECT count(*) AS n FROM request WHERE censored = 'input_cap'")[0]["n"] == 50


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "csv": lambda data: data,
    "csv.gz": gzip.compress,
    "csv.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", PACKINGS)
def test_a_packed_trace_is_read_like_the_plain_one(store: Store, ending: str) -> None:
    (store.folder / f"trace.{ending}").write_bytes(PACKINGS[ending](lines(5).encode()))
    assert [file.rows_kept for file in store.ingest(f"trace.{ending}")] == [30]
    assert store.rows("SELECT sum(isl_tokens)::INT AS n FROM request")[0]["n"] == sum(range(100, 130))


@pytest.mark.parametrize("ending", ["csv.gz", "csv.zst"])
def test_a_packed_trace_cut_short_is_said_and_leaves_what_stood(store: Store, ending: str) -> None:
    path = store.folder / f"trace.{ending}"
    packed = PACKINGS[ending](lines(5, requests=20_000).encode())
    path.write_bytes(packed)
    store.ingest(path.name)
    path.write_bytes(packed[:-20])
    with pytest.raises(SourceError, match="cut short"):
        store.ingest(path.name)
    assert store.requests == 20_000
    store.accounted()


def test_partitioned_parquet_is_read_by_its_hive_path(store: Store) -> None:
    for day in (5, 6):
        for tenant in ("a", "b b"):
            folder = store.folder / f"traces/date=2026-01-{day:02d}/tenant={tenant.replace(' ', '%20')}"
            folder.mkdir(parents=True)
            frame = pl.read_csv(lines(day).encode(), infer_schema=False).rename(
                {"TIMESTAMP": "arrival_at", "ContextTokens": "isl_tokens", "GeneratedTokens": "osl_tokens"}
            )
            frame.with_columns(session_id=pl.lit(f"{day}{tenant}")).write_parquet(folder / "part-0.parquet")
            (folder / "_SUCCESS").write_text("")
    assert [file.rows_kept for file in store.ingest("traces")] == [30] * 4
    counts = "SELECT tenant, count(*) AS n, count(DISTINCT arrival_at::DATE) AS d FROM request GROUP BY ALL ORDER BY 1"
    assert store.rows(counts) == [{"tenant": "a", "n": 60, "d": 2}, {"tenant": "b b", "n": 60, "d": 2}]
    names = [row["source_file"] for row in store.rows("SELECT DISTINCT source_file FROM request ORDER BY 1")]
    assert names[0] == "traces/date=2026-01-05/tenant=a/part-0.parquet"
    store.accounted()


@pytest.mark.parametrize("pattern", ["traces/*.csv", "traces", "traces/**/*.csv", "traces/2026-01-0[56].csv"])
def test_a_pattern_and_a_folder_name_every_file_that_fits(store: Store, pattern: str) -> None:
    for day in (5, 6):
        store.put(f"traces/2026-01-{day:02d}.csv", lines(day, first_isl=day))
    assert states(store.ingest(pattern)) == ["read", "read"]
    assert store.requests == 60


def test_a_file_whose_own_name_holds_a_star_is_that_file(store: Store) -> None:
    store.put("trace[1].csv", lines(5))
    assert [file.source_file for file in store.ingest("trace[1].csv")] == ["trace[1].csv"]


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("t/date=2026-01-05/a.csv", date(2026, 1, 5)),
        ("t/dt=20260105/date=x/a.csv", date(2026, 1, 5)),
        ("t/year=2026/month=1/day=5/a.csv", date(2026, 1, 5)),
        ("t/requests-2026-01-05T10.csv", date(2026, 1, 5)),
        ("t/2026-13-45.csv", None),
        ("t/build-120260105.csv", None),
        ("t/a.csv", None),
    ],
)
def test_the_day_of_a_file_is_what_its_path_says(store: Store, path: str, day: date | None) -> None:
    store.put(path, lines(5))
    assert [file.day for file in find("t", store.folder)] == [day]


@pytest.mark.parametrize("source", ["none/*.csv", "empty"])
def test_what_holds_no_file_is_said(store: Store, source: str) -> None:
    (store.folder / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no file"):
        store.ingest(source)


def test_what_stands_is_left_alone_and_what_changed_takes_its_place(store: Store) -> None:
    store.put("traces/a.csv", lines(5))
    store.put("traces/b.csv", lines(6))
    assert states(store.ingest("traces")) == ["read", "read"]
    loaded = store.rows("SELECT source_file, loaded_at FROM source_file ORDER BY 1")
    assert states(store.ingest("traces")) == ["unchanged", "unchanged"]
    assert store.rows("SELECT source_file, loaded_at FROM source_file ORDER BY 1") == loaded
    store.put("traces/b.csv", lines(6, requests=40))
    assert states(store.ingest("traces")) == ["unchanged", "read"]
    assert store.requests == 70
    store.accounted()


def test_other_options_read_a_file_again(store: Store) -> None:
    store.put("trace.csv", lines(5))
    store.ingest("trace.csv")
    assert states(store.ingest("trace.csv", options={"timezone": "Asia/Shanghai"})) == ["read"]
    assert store.rows("SELECT min(arrival_at)::VARCHAR AS t FROM request")[0]["t"] == "2026-01-04 16:00:00.5"


def test_a_file_that_breaks_half_way_leaves_the_former_rows(store: Store) -> None:
    path = store.put("trace.csv", lines(5, requests=50))
    store.ingest("trace.csv")
    before = store.rows("SELECT * FROM request ORDER BY line")
    path.write_text(lines(5).replace(",1", ",x"), encoding="utf-8")
    with pytest.raises(SourceError, match="are broken"):
        store.ingest("trace.csv")
    assert store.rows("SELECT * FROM request ORDER BY line") == before
    store.accounted()


def test_one_file_in_two_sources_is_refused(store: Store) -> None:
    store.put("traces/a.csv", lines(5))
    store.ingest("traces")
    with pytest.raises(SourceError, match="file of two sources"):
        ingest_source(store.warehouse, store.folder, TraceSpec(source="traces/a.csv"), 0.05, sources=["traces"])


def test_progress_is_told_in_mebibytes_and_files(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    for day in (5, 6):
        store.put(f"traces/{day}.csv", lines(day, first_isl=day))
    path = store.put("big.csv", lines(5, requests=100_000))
    monkeypatch.setattr(files, "BLOCK_BYTES", 2**20)
    monkeypatch.setattr(files.blocks, "__defaults__", (2**20,))
    with listening(lambda stage, done, total: told.append((stage, done, total))):
        store.ingest("traces")
        store.ingest("big.csv")
    assert [done for stage, done, _ in told if stage == "files of traces"] == [0, 1, 2]
    read = [done for stage, done, _ in told if stage == "reading big.csv (MiB)"]
    assert read == sorted(read) and len(set(read)) > 2 and read[-1] == path.stat().st_size // 2**20


def test_progress_of_parquet_is_told_in_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    columns = {"TIMESTAMP": "arrival_at", "ContextTokens": "isl_tokens", "GeneratedTokens": "osl_tokens"}
    frame = pl.read_csv(lines(5, requests=2500).encode(), infer_schema=False).rename(columns)
    frame.write_parquet(store.folder / "big.parquet")
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 1)
    monkeypatch.setattr(parquet, "BLOCK_ROWS", 1000)
    with listening(lambda stage, done, total: told.append((stage, done, total))):
        store.ingest("big.parquet")
    assert told == [("reading big.parquet (rows)", done, 2500) for done in (1000, 2000, 2500)]


def test_blocks_of_parquet_hold_fewer_rows_where_rows_are_wide(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = [list(range(200)) for _ in range(1000)]  # a dictionary of 200 in the file, 200,000 in memory
    narrow = pl.DataFrame({"arrival_s": range(1000), "isl_tokens": [5] * 1000, "osl_tokens": [5] * 1000})
    narrow.write_parquet(store.folder / "narrow.parquet")
    narrow.with_columns(pl.Series("prefix_hashes", hashes), prefix_block_tokens=16).write_parquet(
        store.folder / "wide.parquet"
    )
    monkeypatch.setattr(parquet, "BLOCK_MEMORY_BYTES", 200_000)
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 1)
    told: list[str] = []
    with listening(lambda stage, _done, _total: told.append(stage)):
        store.ingest("narrow.parquet")
        store.ingest("wide.parquet")
    assert told.count("reading narrow.parquet (rows)") == 1
    assert told.count("reading wide.parquet (rows)") > 8
    assert store.rows("SELECT sum(len(prefix_hashes))::INT AS n FROM request")[0]["n"] == 200_000


def test_a_day_is_read_alone_and_a_late_file_when_its_day_is_run_again(store: Store) -> None:
    workspace = "workspace: w\nservices:\n" + SERVICE.replace("source: trace.csv", "source: traces")
    store.put("capsheet.yaml", workspace)
    store.put("traces/date=2026-01-05/a.csv", lines(5))
    store.put("traces/date=2026-01-06/a.csv", lines(6))
    days = []
    for day in ("2026-01-05", "2026-01-05", "2026-01-06"):
        days.append(materialised(store.folder, day))
        store.accounted()
    assert days == [{"2026-01-05": 30}, {"2026-01-05": 30}, {"2026-01-05": 30, "2026-01-06": 30}]
    # Delivered for the 6th, with a request of the 5th in it: late, and counted where it belongs.
    store.put("traces/date=2026-01-06/b.csv", lines(5, requests=1, first_isl=7))
    assert materialised(store.folder, "2026-01-06") == {"2026-01-05": 31, "2026-01-06": 30}
    store.accounted()


def materialised(folder: Path, day: str) -> dict[str, int]:
    """Requests by day of arrival after the daily job ran for `day`, as the schedule would run it."""
    from pipelines.definitions import build_defs
    from pipelines.resources import release_run

    ran = build_defs(folder).resolve_job_def("ingest_day").execute_in_process(partition_key=day)
    release_run(folder / ".capsheet" / "run.lock")
    assert ran.success
    rows = Store(folder).rows("SELECT arrival_at::DATE::VARCHAR AS day, count(*) AS n FROM request GROUP BY 1")
    return {row["day"]: row["n"] for row in rows}
