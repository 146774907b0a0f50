"""Bad input of every kind, to every reader: one line that says what, where and what to do; and no row ever lost."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import SourceError, SourceRead, check_tolerance, read_model, read_observations, read_trace
from pipelines.sources.base import expanded, rejected_rows
from pipelines.sources.locations import find

HEADERS = {
    "azure": ("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens", "2026-01-05 08:00:00.1234567,374,44"),
    "burstgpt": (
        "t.csv",
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "19440110.0,s,43,GPT-4,906,446,1352,API log",
    ),
    "capsheet": ("t.csv", "arrival_s,isl_tokens,osl_tokens,session_id,prefix_hashes", "0.5,10,5,s,1 2"),
    "mooncake": ("t.jsonl", "", '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}'),
}
OPTIONS = {"capsheet": {"block_tokens": 64}}

READERS: dict[str, Callable[[Path], object]] = {
    "trace": lambda path: read_trace(path, path.name),
    "observations": lambda path: read_observations(path.parent, path.name),
    "model": lambda path: read_model(str(path), folder=path.parent),
    **{f"trace as {name}": lambda path, name=name: read_trace(path, path.name, name) for name in HEADERS},  # type: ignore[misc]
}


def parquet_cut_short() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"arrival_s": [1.0], "isl_tokens": [1], "osl_tokens": [1]}).write_parquet(buffer)
    return buffer.getvalue()[:-20]


FILES: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "is empty"),
    "only blank lines": (b"\n \n\r\n", "is empty"),
    "a web page": (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", r"line 1 is a web page"),
    "an XML error": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "web page"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
    "UTF-16": ("TIMESTAMP,ContextTokens\n".encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": ("TIMESTAMP,ContextTokens\n".encode("utf-16-le"), "NUL bytes.*UTF-16"),
    "Latin-1": ("TIMESTAMP,ContextTokens,Gen\xe9\n1,2,3\n".encode("latin-1"), "not UTF-8"),
    "an executable": (b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\n", "NUL bytes"),
    "gzip cut short": (gzip.compress(b"TIMESTAMP,ContextTokens,GeneratedTokens\n" * 1000)[:-9], "cut short"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "damaged gzip": (b"\x1f\x8b\x08\x00" + b"\x55" * 40, "gzip|unpack|cut short"),
    "a workbook": (b"PK\x03\x04" + b"\x00" * 40, "workbook"),
    "zstandard": (b"\x28\xb5\x2f\xfd" + b"\x00" * 40, "cut short"),
    "Parquet cut short": (parquet_cut_short(), "Parquet"),
    "an error in JSON": (b'{"error": "Access is restricted"}', r"\w"),
    "prose": (b"Dear colleague,\nplease find attached\n", r"\w"),
    "a header and no rows": (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", r"\w"),
}


def is_one_clear_line(message: str) -> None:
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 900
    assert message.rstrip().endswith(".")


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_what_it_seems_gets_one_clear_line(tmp_path: Path, reader: str, kind: str) -> None:
    content, expected = FILES[kind]
    path = tmp_path / ("config.json" if reader == "model" else "t.csv")
    path.write_bytes(content)
    with pytest.raises(SourceError, match=expected) as caught:
        READERS[reader](path)
    is_one_clear_line(str(caught.value))
    assert path.name in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_there_or_is_a_folder_gets_one_clear_line(tmp_path: Path, reader: str) -> None:
    (tmp_path / "folder.json").mkdir()
    for name, expected in (("missing.json", "is not there"), ("folder.json", "is a folder|is not there")):
        with pytest.raises(SourceError, match=expected) as caught:
            READERS[reader](tmp_path / name)
        is_one_clear_line(str(caught.value))


@pytest.mark.parametrize("name", ["a\x00b.csv", "x" * 5000, "../../../../etc/passwd"])
def test_a_hostile_path_gets_one_clear_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_trace(tmp_path / name, "t.csv")
    is_one_clear_line(str(caught.value))


def test_an_unknown_format_or_option_is_named_with_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(HEADERS["azure"][1:]))
    with pytest.raises(SourceError, match=r"no trace format is called 'azuer'.*azure, burstgpt, .*mooncake, capsheet"):
        read_trace(path, "t.csv", "azuer")
    with pytest.raises(SourceError, match=r"no trace option is called 'unit'.*time_unit"):
        read_trace(path, "t.csv", options={"unit": "ms"})
    for option, value in (
        ("spread", "gauss"),
        ("time_unit", "minutes"),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../etc/passwd"),
        ("start_at", "yesterday"),
        ("seed", -1),
        ("seed", True),
        ("block_tokens", "16"),
    ):
        with pytest.raises(SourceError, match=f"option {option} is"):
            read_trace(path, "t.csv", options={option: value})


def test_a_header_that_fits_nothing_says_what_was_found_and_what_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,prompt,answer\n1,2,3\n")
    with pytest.raises(SourceError) as caught:
        read_trace(path, "t.csv")
    assert "when, prompt, answer" in str(caught.value)
    assert "TIMESTAMP, ContextTokens, GeneratedTokens" in str(caught.value)
    with pytest.raises(SourceError, match="azure"):
        read_trace(path, "t.csv", "azure")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("TIMESTAMP;ContextTokens;GeneratedTokens\n", "separated by semicolons"),
        ("TIMESTAMP\tContextTokens\tGeneratedTokens\n", "separated by tabs"),
        ("TIMESTAMP,ContextTokens,contexttokens,GeneratedTokens\n", "'ContextTokens' stands twice"),
        ('[{"timestamp":0}]\n', "keys of its first object"),
    ],
)
def test_a_header_that_nearly_fits_says_what_is_wrong_with_it(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SourceError, match=hint):
        read_trace(tmp_path / "t.csv", "t.csv")


@pytest.mark.parametrize("column", [[True], [[1]], [{"a": 1}], [b"1"]])
def test_a_parquet_column_that_holds_no_numbers_is_refused_by_name(tmp_path: Path, column: list[object]) -> None:
    pl.DataFrame({"arrival_s": [1.0], "isl_tokens": column, "osl_tokens": [1]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="column isl_tokens is"):
        read_trace(tmp_path / "t.parquet", "t.parquet")


def test_a_broken_parquet_row_is_kept_with_its_number_and_values(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"arrival_s": [1.0, 2.0, float("nan")], "isl_tokens": [1, -1, 1], "osl_tokens": ["1", "1", "1"]}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    got = read_trace(tmp_path / "t.parquet", "t.parquet")
    assert got.rejected.select("line", "reason").rows() == [
        (2, "isl_tokens '-1' is negative"),
        (3, "arrival_s 'NaN' is not a number"),
    ]
    assert got.rejected["raw"][0] == '{"arrival_s":2.0,"isl_tokens":-1,"osl_tokens":"1"}'


def test_an_option_that_a_format_does_not_heed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(HEADERS["azure"][1:]))
    with pytest.raises(SourceError, match="option time_unit means nothing to this format"):
        read_trace(path, "t.csv", options={"time_unit": "ms"})


def broken_cells(name: str) -> dict[str, tuple[str, str]]:
    """For each kind of breakage a row of the layout, and words of the reason."""
    _, header, good = HEADERS[name]
    if name == "mooncake":
        return {
            "not JSON": ('{"timestamp": 0,', "not a JSON object"),
            "missing": ('{"timestamp": 0, "input_length": 600, "hash_ids": [1, 2]}', "output_length is missing"),
            "text": (good.replace("600", '"=1+1"'), "wrong type"),
            "negative": (good.replace('"output_length": 5', '"output_length": -5'), "is negative"),
            "zero": (good.replace("600", "0"), "not above zero"),
            "NaN": (good.replace('"timestamp": 0', '"timestamp": NaN'), "wrong type|not a number"),
            "absurd": (good.replace('"output_length": 5', '"output_length": 1e9'), "above 100,000,000"),
            "a fraction": (good.replace('"output_length": 5', '"output_length": 5.5'), "not a whole number"),
            "a negative time": (good.replace('"timestamp": 0', '"timestamp": -1'), "negative"),
            "NUL": (good + "\x00", "NUL"),
            "10 MB": (good[:-1] + ', "x": "' + "y" * 10_000_000 + '"}', "bytes; the longest"),
        }
    cells = good.split(",")
    columns = header.split(",")
    at = next(i for i, c in enumerate(columns) if c in ("ContextTokens", "Request tokens", "isl_tokens"))
    when = next(i for i, c in enumerate(columns) if c in ("TIMESTAMP", "Timestamp", "arrival_s"))

    def with_cell(place: int, value: str) -> str:
        return ",".join([*cells[:place], value, *cells[place + 1 :]])

    return {
        "missing": (with_cell(at, ""), "is missing"),
        "a lost field": (",".join(cells[:-1]), "fields, the header has"),
        "too many fields": (good + ",1,2", "fields, the header has"),
        "text": (with_cell(at, "many"), "not a whole number"),
        "a formula": (with_cell(at, "=HYPERLINK(1)"), "'=HYPERLINK.1.' is not a whole number"),
        "SQL": (with_cell(at, "1'; DROP TABLE request; --"), "not a whole number"),
        "negative": (with_cell(at, "-3"), "not above zero|is negative"),
        "zero": (with_cell(at, "0"), "not above zero"),
        "NaN": (with_cell(at, "NaN"), "not a whole number"),
        "infinity": (with_cell(at, "inf"), "not a whole number"),
        "a fraction": (with_cell(at, "12.5"), "not a whole number"),
        "absurd": (with_cell(at, "100000001"), "above 100,000,000"),
        "beyond an integer": (with_cell(at, "1e300"), "above 100,000,000"),
        "a bad time": (with_cell(when, "soon"), "is not a (time|number)"),
        "an impossible date": (with_cell(when, "2026-02-30 00:00:00"), "is not a (time|number)"),
        "a time out of range": (with_cell(when, "0001-01-01 00:00:00" if name == "azure" else "1e18"), "outside|above"),
        "NUL": (with_cell(at, "1\x002"), "NUL"),
        "10 MB": (with_cell(at, "9" * 10_000_000), "bytes; the longest"),
    }


CASES = [(name, kind) for name in HEADERS for kind in broken_cells(name)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_broken_row_is_kept_with_its_line_and_reason(tmp_path: Path, name: str, kind: str) -> None:
    file, header, good = HEADERS[name]
    bad, reason = broken_cells(name)[kind]
    lines = [line for line in (header, good, good, bad, good) if line]
    path = tmp_path / file
    path.write_bytes("\n".join(lines).encode())
    got = read_trace(path, file, options=OPTIONS.get(name))
    assert (got.rows_read, got.frame.height, got.rejected.height) == (4, 3, 1)
    rejected = got.rejected.row(0, named=True)
    assert rejected["line"] == lines.index(bad) + 1
    assert pl.Series([rejected["reason"]]).str.contains(reason).item(), rejected["reason"]
    assert rejected["raw"][:20] == bad[:20].replace("\x00", "␀")
    assert len(rejected["raw"]) <= 2_000
    assert len(rejected["reason"]) < 200


def test_a_row_in_another_encoding_is_rejected_alone(tmp_path: Path) -> None:
    _, header, good = HEADERS["capsheet"]
    path = tmp_path / "t.csv"
    path.write_bytes(f"{header}\n{good}\n".encode() + "0.5,10,5,Zo\xe9,\n".encode("latin-1") + good.encode())
    got = read_trace(path, "t.csv", options=OPTIONS["capsheet"])
    assert got.frame["line"].to_list() == [2, 4]
    assert got.rejected.select("line", "reason").rows() == [(3, "not UTF-8 (byte 12)")]


def trace_of(broken: int, aside: int, sound: int) -> SourceRead:
    rows = [(i + 2, "isl_tokens '' is missing", "x") for i in range(broken)]
    rows += [(i + 500, "not a request: span GET", "x") for i in range(aside)]
    frame = pl.DataFrame({"line": range(sound)})
    total = broken + aside + sound
    return SourceRead("t.csv", "azure", frame, rejected_rows("t.csv", rows), total, "", 0, "")


def test_a_few_broken_rows_are_tolerated_and_many_are_not() -> None:
    check_tolerance(trace_of(1, 0, 99), 0.05)
    check_tolerance(trace_of(5, 0, 95), 0.05)
    check_tolerance(trace_of(0, 50, 50), 0.0)
    with pytest.raises(
        SourceError, match=r"60 of 100 rows \(60.0%\) are broken and 5.0% may be.*line 2: .*line 4"
    ) as caught:
        check_tolerance(trace_of(60, 0, 40), 0.05)
    is_one_clear_line(str(caught.value))
    with pytest.raises(SourceError, match="no row of 10 can be planned with"):
        check_tolerance(trace_of(0, 10, 0), 0.05)


cells = st.one_of(
    st.integers(-5, 10**9).map(str),
    st.floats().map(str),
    st.text(max_size=12),
    st.sampled_from(
        ["", "=1+1", "2026-01-05 08:00:00", "2026-01-05T08:00:00Z", "1 2 3", '"', "NaN", "-", "\x00", "a,b"]
    ),
)


@settings(max_examples=120, deadline=None)
@given(name=st.sampled_from(["azure", "burstgpt", "capsheet"]), data=st.data())
def test_delimited_rows_in_are_rows_kept_and_rows_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    _, header, good = HEADERS[name]
    width = header.count(",") + 1
    fields = st.lists(cells, min_size=1, max_size=width + 1).map(",".join)
    drawn = data.draw(st.lists(st.one_of(st.just(good), fields), min_size=1, max_size=12))
    body = "\n".join(drawn)
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_bytes(f"{header}\n{body}".encode("utf-8", errors="surrogatepass"))
    rows = [line for line in body.split("\n") if line.strip("\r \t\x0b\x0c")]
    try:
        got = read_trace(path, "t.csv", options=OPTIONS.get(name))
    except SourceError as error:
        is_one_clear_line(str(error))
        assert not any(line.strip() for line in rows)
        return
    assert got.rows_read == got.frame.height + got.rejected.height
    assert abs(got.rows_read - len(rows)) <= sum(not line.strip() for line in rows)
    assert got.frame.height >= drawn.count(good) - body.count("\r") * 2
    assert (got.frame["isl_tokens"] > 0).all()
    assert got.rejected["reason"].null_count() == 0


@settings(max_examples=200, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=300),
        st.text(max_size=300).map(lambda text: text.encode("utf-8", errors="surrogatepass")),
        st.tuples(st.sampled_from(sorted(HEADERS)), st.binary(max_size=200)).map(
            lambda pair: f"{HEADERS[pair[0]][1]}\n{HEADERS[pair[0]][2]}\n".encode() + pair[1]
        ),
        st.binary(max_size=200).map(lambda tail: b'{"load_summary": {' + tail),
    ),
    reader=st.sampled_from(sorted(READERS)),
    cut=st.integers(0, 300),
)
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, reader: str, cut: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.json"
    path.write_bytes(content[: cut or None])
    try:
        got = READERS[reader](path)
    except SourceError as error:
        is_one_clear_line(str(error))
        return
    for read in got if isinstance(got, list) else [got]:
        if isinstance(read, SourceRead):
            assert read.rows_read == read.frame.height + read.rejected.height


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "timestamp": json_values,
                "input_length": st.one_of(st.just(600), json_values),
                "output_length": st.one_of(st.just(5), json_values),
                "hash_ids": st.one_of(st.just([1, 2]), json_values),
            },
        ),
        max_size=80,
    )
)
def test_json_rows_in_are_rows_kept_and_rows_rejected(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    import json

    good = HEADERS["mooncake"][2]
    path = tmp_path_factory.mktemp("fuzz") / "t.jsonl"
    path.write_text("\n".join([good, *map(json.dumps, rows), good]))
    got = read_trace(path, "t.jsonl", options={"block_tokens": 512, "time_unit": "ms"})
    assert got.rows_read == len(rows) + 2
    assert got.rows_read == got.frame.height + got.rejected.height
    assert {1, len(rows) + 2} <= set(got.frame["line"])


@pytest.mark.parametrize(
    "open_it",
    [
        find,
        lambda text, folder: read_observations(folder, text),
        lambda text, folder: read_model(text, folder=folder),
        lambda text, folder: expanded(text),
    ],
)
def test_a_home_folder_nobody_has_is_said_at_every_door(open_it: Callable[[str, Path], object], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such home folder"):
        open_it("~nosuchuser/trace.csv", tmp_path)
