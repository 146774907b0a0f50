"""Prices: one that a plan uses for each accelerator, the workspace's own before the catalogue's."""

from __future__ import annotations

import polars as pl
import pytest

from pipelines.sources import SourceError, read_catalog_table, read_prices


def test_every_price_names_an_accelerator_of_the_catalogue_and_its_source() -> None:
    prices = read_prices({}, "").frame
    known = read_catalog_table("accelerators").frame["gpu_id"]
    assert prices["gpu_id"].is_in(known.to_list()).all()
    assert prices["source"].str.len_chars().min() > 5
    assert prices["label"].unique().to_list() == ["cited"]


def test_each_priced_accelerator_has_exactly_one_price_a_plan_uses() -> None:
    prices = read_prices({}, "").frame
    used = prices.filter("planning_default")
    assert used["gpu_id"].is_unique().all()
    assert set(used["gpu_id"]) == set(prices["gpu_id"])
    assert {"H100-SXM", "H200-SXM", "L40S", "B200-SXM", "A100-80GB-SXM"} <= set(used["gpu_id"])


def test_a_price_a_plan_uses_is_on_demand_where_there_is_one_and_never_stale() -> None:
    prices = read_prices({}, "").frame
    on_demand = set(prices.filter(pl.col("commitment") == "on-demand")["gpu_id"])
    used = prices.filter("planning_default")
    assert set(used.filter(pl.col("commitment") != "on-demand")["gpu_id"]).isdisjoint(on_demand)
    assert not used["note"].fill_null("").str.contains("stale|conflicts").any()


def test_a_price_of_the_workspace_takes_the_catalogues_place() -> None:
    prices = read_prices({"H100-SXM": 2.5}, "contract 17").frame
    used = prices.filter("planning_default", pl.col("gpu_id") == "H100-SXM")
    assert used.select("provider", "usd_per_gpu_hour", "source").row(0) == ("workspace", 2.5, "contract 17")
    assert used.height == 1
    assert read_prices({"H100-SXM": 2.5}, "a").sha256 != read_prices({"H100-SXM": 2.6}, "a").sha256


def test_a_price_for_an_accelerator_nobody_knows_names_the_near_ones() -> None:
    with pytest.raises(SourceError, match=r"no accelerator is called 'H100'.*H100-SXM"):
        read_prices({"H100": 2.0}, "capsheet.yaml")
