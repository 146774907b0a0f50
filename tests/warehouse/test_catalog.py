"""The catalogue keeps the same contracts as any input, and a wrong figure in it is named by file and line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from tests.warehouse.rows import valid_rows
from warehouse.catalog import CATALOG, CatalogError, catalog_fingerprint, catalog_models, catalog_path, read_catalog
from warehouse.frames import polars_schema
from warehouse.registry import table


@pytest.mark.parametrize("name", CATALOG)
def test_every_shipped_figure_keeps_its_contract_and_names_its_source(name: str) -> None:
    rows = read_catalog(name)
    assert rows.height > 0
    assert dict(rows.schema) == polars_schema(table(CATALOG[name]))
    assert rows.filter(pl.col("source").str.strip_chars() == "").is_empty()
    assert catalog_fingerprint(name) == hashlib.sha256(catalog_path(name).read_bytes()).hexdigest()


def test_every_price_is_of_an_accelerator_the_catalogue_knows() -> None:
    known = read_catalog("accelerators")["gpu_id"]
    assert set(read_catalog("prices")["gpu_id"]) <= set(known)


def test_engine_settings_and_coefficients_share_a_table_without_sharing_a_key() -> None:
    both = pl.concat([read_catalog("engines"), read_catalog("coefficients")])
    assert both.select(table("engine_profile").key).is_duplicated().sum() == 0


def test_the_shipped_models_are_configs_by_hub_id() -> None:
    models = catalog_models()
    assert models
    for model_id, path in models.items():
        assert path.name == f"{model_id.replace('/', '--')}.json"
        assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict)


def test_a_catalogue_that_does_not_exist_is_named() -> None:
    with pytest.raises(KeyError, match=r"no catalogue is called \.\./secrets"):
        catalog_path("../secrets")


def _catalogue(path: Path, **columns: object) -> Path:
    valid_rows(table("price"), 3, **columns).write_csv(path)
    return path


def test_a_wrong_figure_is_named_by_file_line_and_reason(tmp_path: Path) -> None:
    file = _catalogue(tmp_path / "prices.csv", usd_per_gpu_hour=[1.0, -2.0, 0.0])
    with pytest.raises(CatalogError, match=r"prices\.csv line 3: usd_per_gpu_hour is '-2\.0', must be above 0 \(and 1"):
        read_catalog("prices", file)


def test_a_good_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_catalog("prices", _catalogue(tmp_path / "prices [new].csv")).equals(valid_rows(table("price"), 3))


@pytest.mark.parametrize(
    "content", ["", "<html>\n<body>\n", "price_id,gpu_id\na,b\n"], ids=["empty", "html", "columns"]
)
def test_a_file_that_is_no_catalogue_is_one_clear_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(content)
    with pytest.raises(CatalogError, match=r"prices\.csv") as caught:
        read_catalog("prices", file)
    assert "\n" not in str(caught.value)
    with pytest.raises(CatalogError, match="nowhere"):
        read_catalog("prices", tmp_path / "nowhere.csv")
