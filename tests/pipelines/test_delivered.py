"""Files of a source that overlap: what was delivered before counts once, and what merely looks alike counts."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import delivered
from tests.pipelines.stores import HEADER, Store, lines, states

Row = tuple[int, int, int]
"""Second of the hour, input and output length."""


def text(rows: list[Row]) -> str:
    said = (f"2026-01-05 00:{at // 60:02d}:{at % 60:02d},{isl},{osl}" for at, isl, osl in rows)
    return "\n".join([HEADER, *said]) + "\n"


def kept(store: Store) -> list[tuple[int, int, int]]:
    query = (
        "SELECT epoch(arrival_at)::BIGINT % 3600 AS at, isl_tokens AS isl, osl_tokens AS osl FROM request ORDER BY ALL"
    )
    return [(row["at"], row["isl"], row["osl"]) for row in store.rows(query)]


def various(seconds: range, seed: int = 0) -> list[Row]:
    """Two requests a second, of lengths that are all different."""
    return [
        (at, 100 + (at * 97 + i * 31 + seed * 13) % 5000, 1 + (at * 7 + i + seed) % 900)
        for at in seconds
        for i in (0, 1)
    ]


def test_the_same_bytes_under_another_name_are_counted_once(store: Store) -> None:
    store.put("traces/a.csv", lines(5))
    store.ingest("traces")
    store.put("traces/a (1).csv", lines(5))
    assert sorted(states(store.ingest("traces"))) == ["delivered twice", "unchanged"]
    assert store.requests == 30
    assert store.rows("SELECT detail FROM source_file WHERE source_file = 'traces/a (1).csv'") == [
        {"detail": "same bytes as traces/a.csv: counted there"}
    ]
    (store.folder / "traces/a.csv").unlink()
    assert states(store.ingest("traces")) == ["read"]
    assert store.requests == 30
    store.accounted()


def test_a_copy_is_counted_where_the_file_it_copies_changed_in_the_meantime(store: Store) -> None:
    store.put("traces/b.csv", lines(5))
    store.ingest("traces")
    store.put("traces/a.csv", lines(5))
    store.put("traces/b.csv", lines(6, requests=40))
    assert [(file.source_file, file.state) for file in store.ingest("traces")] == [
        ("traces/a.csv", "read"),
        ("traces/b.csv", "read"),
    ]
    assert store.requests == 70
    store.accounted()


def canonical(ids: range, day: int = 5) -> str:
    rows = [f"2026-01-{day:02d}T00:00:{i % 60:02d},100,10,r{i}" for i in ids]
    return "\n".join(["arrival_at,isl_tokens,osl_tokens,request_id", *rows])


def test_a_late_file_that_repeats_requests_by_their_id_does_not_double_them(store: Store) -> None:
    store.put("traces/2026-01-05.csv", canonical(range(50)))
    store.put("traces/2026-01-06.csv", canonical(range(40, 70)))
    done = store.ingest("traces")
    assert [(file.rows_kept, file.rows_rejected) for file in done] == [(50, 0), (20, 10)]
    assert store.rows("SELECT count(DISTINCT request_id) AS n FROM request")[0]["n"] == store.requests == 70
    reason = store.rows("SELECT reason FROM rejected_row ORDER BY line LIMIT 1")[0]["reason"]
    assert reason == "not a request of its own: r40 stands at line 42 of traces/2026-01-05.csv"
    store.accounted()
    store.put("traces/2026-01-05.csv", canonical(range(45)))
    assert [(file.rows_kept, file.rows_rejected) for file in store.ingest("traces")] == [(45, 0), (25, 5)]
    assert store.requests == 70, "what the changed file no longer gives is the later one's"
    store.accounted()
    (store.folder / "traces/2026-01-05.csv").unlink()
    store.ingest("traces")
    assert store.requests == 30, "what only the file that is gone kept out is back"
    store.accounted()


def test_a_longer_window_delivered_again_adds_only_what_is_new(store: Store) -> None:
    store.put("traces/1.csv", text(various(range(100))))
    store.put("traces/2.csv", text(various(range(60, 160))))
    first, second = store.ingest("traces")
    assert (first.rows_kept, second.rows_kept, second.rows_rejected) == (200, 120, 80)
    assert "80 delivered before, the same in traces/1.csv" in second.detail
    assert kept(store) == sorted(various(range(160)))
    reason = store.rows("SELECT reason FROM rejected_row ORDER BY line LIMIT 1")[0]["reason"]
    assert reason == "not a request of its own: the same stands at line 122 of traces/1.csv"
    store.accounted()


def test_of_like_requests_in_a_common_stretch_the_larger_count_remains(store: Store) -> None:
    twice = [*various(range(50)), (10, 7, 7), (10, 7, 7)]
    thrice = [*twice, (10, 7, 7)]
    store.put("traces/1.csv", text(twice))
    store.put("traces/2.csv", text([*thrice, (51, 1, 1)]))
    store.ingest("traces")
    assert kept(store) == sorted([*thrice, (51, 1, 1)])
    store.accounted()


def test_replicas_that_serve_in_the_same_seconds_keep_all_their_requests(store: Store) -> None:
    for replica in (1, 2, 3):
        store.put(f"traces/replica-{replica}.csv", text(various(range(200), seed=replica)))
    done = store.ingest("traces")
    assert [file.rows_rejected for file in done] == [0, 0, 0]
    assert store.requests == 1200


def test_replicas_under_a_constant_load_keep_all_their_requests_and_that_is_said(store: Store) -> None:
    for replica in (1, 2):
        store.put(f"traces/replica-{replica}.csv", text([(at, 1024, 128) for at in range(200) for _ in range(replica)]))
    done = store.ingest("traces")
    assert [file.rows_rejected for file in done] == [0, 0]
    assert "the same as in traces/replica-1.csv are kept" in done[1].detail


def test_a_replica_keeps_its_requests_beside_another_that_was_delivered_again(store: Store) -> None:
    mine, other = various(range(100), seed=1), various(range(100), seed=2)
    store.put("traces/1.csv", text(mine))
    store.put("traces/2.csv", text(other))
    store.put("traces/3.csv", text([*mine, (101, 5, 5)]))
    store.ingest("traces")
    assert kept(store) == sorted([*mine, *other, (101, 5, 5)])
    store.accounted()


def test_what_a_file_gave_comes_back_where_it_is_refused_once_the_file_is_gone(store: Store) -> None:
    for day, seconds in ((1, range(100)), (2, range(50, 150))):
        store.put(f"traces/{day}.csv", text(various(seconds)))
    store.ingest("traces")
    store.put("traces/1.csv", text(various(range(80))))
    assert states(store.ingest("traces")) == ["read", "read"]
    assert kept(store) == sorted(various(range(150)))
    store.accounted()
    (store.folder / "traces/1.csv").unlink()
    store.ingest("traces")
    assert kept(store) == sorted(various(range(50, 150)))
    store.accounted()


def test_of_long_files_a_part_is_looked_at_first_and_the_answer_is_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivered, "_LOOKED_AT", 100)
    monkeypatch.setattr(delivered, "_ENOUGH", 20)
    store.put("traces/1.csv", text(various(range(600))))
    store.put("traces/2.csv", text(various(range(300, 900))))
    store.put("traces/3.csv", text([(at, 1024, 128) for at in range(600)]))
    store.put("traces/4.csv", text([(at, 1024, 128) for at in range(600, 900)]))
    store.put("traces/5.csv", text(various(range(900), seed=1)))
    assert [file.rows_rejected for file in store.ingest("traces")] == [0, 600, 0, 0, 0]
    store.accounted()


def test_requests_that_differ_in_any_column_are_not_the_same(store: Store) -> None:
    for tenant in ("a", "b"):
        rows = [f"2026-01-05T00:00:{i:02d},{100 + i * 7},{10 + i},{tenant}" for i in range(60)]
        store.put(f"traces/{tenant}.csv", "\n".join(["arrival_at,isl_tokens,osl_tokens,tenant", *rows]))
    store.ingest("traces")
    assert store.requests == 120


def test_a_stretch_is_known_again_where_its_arrivals_were_spread(store: Store) -> None:
    rows = [{"timestamp": 3000 * (i // 4), "input_length": 600 + i, "output_length": 5 + i} for i in range(120)]
    store.put("traces/1.jsonl", "\n".join(json.dumps(row) for row in rows[:80]))
    store.put("traces/2.jsonl", "\n".join(json.dumps(row) for row in rows[40:]))
    store.ingest("traces", spread="uniform")
    assert store.requests == 120
    store.accounted()


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_overlapping_slices_in_any_order_are_the_whole_file(empty_warehouse: Path, data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=40))
    at, rows = 0, list[Row]()
    for number, gap in enumerate(gaps):
        at += gap
        rows.append((at, 100 + number * 37 % 1000, 1 + number * 11 % 300))
    cuts = sorted({0, at + 1, *data.draw(st.lists(st.integers(0, at), max_size=4))})
    slices = [(start, end + data.draw(st.integers(0, 20))) for start, end in pairwise(cuts)]
    with TemporaryDirectory() as folder:
        shutil.copy(empty_warehouse, folder)
        store = Store(Path(folder))
        names = data.draw(st.permutations(range(len(slices))))
        written = 0
        for name, (start, end) in zip(names, slices, strict=True):
            part = [row for row in rows if start <= row[0] < end]
            written += bool(part)
            if part:
                store.put(f"traces/{name}.csv", text(part))
        store.ingest("traces")
        assert kept(store) == sorted(rows)
        store.accounted()


def test_a_copy_that_outlives_its_file_under_two_names_is_not_lost(store: Store) -> None:
    for name, seconds in (("1", range(60)), ("2", range(20, 60)), ("9", range(100, 160))):
        store.put(f"traces/{name}.csv", text(various(seconds)))
    store.ingest("traces")
    store.put("traces/7.csv", text(various(range(100, 160))))
    store.ingest("traces")
    (store.folder / "traces/7.csv").rename(store.folder / "traces/8.csv")
    store.ingest("traces")
    assert kept(store) == sorted([*various(range(60)), *various(range(100, 160))])
    store.accounted()


def test_what_a_file_gave_comes_back_elsewhere_once_the_file_is_a_copy_of_another(store: Store) -> None:
    for name, seconds in (("1", range(60)), ("2", range(20, 80)), ("3", range(100, 160))):
        store.put(f"traces/{name}.csv", text(various(seconds)))
    store.ingest("traces")
    store.put("traces/1.csv", text(various(range(100, 160))))
    store.ingest("traces")
    assert kept(store) == sorted([*various(range(20, 80)), *various(range(100, 160))])
    store.accounted()


def test_a_copy_of_a_file_that_is_a_copy_of_another_by_now_is_not_lost(store: Store) -> None:
    for name, seconds in (("b", range(40, 60)), ("c", range(15, 25))):
        store.put(f"traces/{name}.csv", text(various(seconds)))
    store.ingest("traces")
    for name, seconds in (("a", range(40, 60)), ("b", range(15, 25)), ("c", range(20))):
        store.put(f"traces/{name}.csv", text(various(seconds)))
    store.ingest("traces")
    assert kept(store) == sorted([*various(range(25)), *various(range(40, 60))])
    store.accounted()


def test_files_that_change_names_with_each_other_lose_nothing(store: Store) -> None:
    store.put("traces/a.csv", text(various(range(20))))
    store.put("traces/b.csv", text(various(range(40, 60))))
    store.ingest("traces")
    (store.folder / "traces/a.csv").rename(store.folder / "traces/x")
    (store.folder / "traces/b.csv").rename(store.folder / "traces/a.csv")
    (store.folder / "traces/x").rename(store.folder / "traces/b.csv")
    store.ingest("traces")
    assert kept(store) == sorted([*various(range(20)), *various(range(40, 60))])
    store.accounted()


@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_whatever_happens_to_the_files_the_requests_of_those_that_are_there_stand_once(
    empty_warehouse: Path, data: st.DataObject
) -> None:
    slices = [range(20), range(10, 30), range(15, 25), range(40, 60), range(50, 60)]
    with TemporaryDirectory() as folder:
        shutil.copy(empty_warehouse, folder)
        store, there = Store(Path(folder)), dict[str, range]()
        store.put("traces/z.csv", text(various(range(200, 205))))
        for _ in range(4):
            for _ in range(data.draw(st.integers(1, 3))):
                name = data.draw(st.sampled_from("abcd"))
                wanted = data.draw(st.sampled_from([None, *slices]))
                there.pop(name, None)
                (store.folder / f"traces/{name}.csv").unlink(missing_ok=True)
                if wanted is not None:
                    there[name] = wanted
                    store.put(f"traces/{name}.csv", text(various(wanted)))
            store.ingest("traces")
            seconds = {at for one in there.values() for at in one} | set(range(200, 205))
            assert kept(store) == sorted(row for at in seconds for row in various(range(at, at + 1)))
            store.accounted()


@pytest.mark.parametrize("first_isl", [100, 5000])
def test_files_that_follow_one_another_are_not_compared(store: Store, first_isl: int) -> None:
    for day in (5, 6):
        store.put(f"traces/{day}.csv", lines(day, first_isl=first_isl))
    assert [file.rows_rejected for file in store.ingest("traces")] == [0, 0]
