"""Where Dagster keeps its runs, and the switches that keep it quiet and offline."""

from __future__ import annotations

import os

from pipelines.workspace import Place

WORKSPACE_VARIABLE = "CAPSHEET_WORKSPACE"

_INSTANCE = """\
# Written by capsheet on every run: edits are lost.
telemetry:
  enabled: false
nux:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: QueuedRunCoordinator
  config:
    max_concurrent_runs: 1
"""


def prepare_home(place: Place) -> dict[str, str]:
    """Make the workspace's Dagster home and return the environment that uses it.

    One run at a time (the warehouse has one writer), no telemetry, no sign-up prompt.
    """
    place.dagster_home.mkdir(parents=True, exist_ok=True)
    settings = place.dagster_home / "dagster.yaml"
    if not settings.exists() or settings.read_text(encoding="utf-8") != _INSTANCE:
        settings.write_text(_INSTANCE, encoding="utf-8")
    return {
        "DAGSTER_HOME": str(place.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "GX_ANALYTICS_ENABLED": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        WORKSPACE_VARIABLE: str(place.folder),
    }


def quiet_environment(place: Place) -> None:
    """Put those settings into this process, before Dagster or Great Expectations is imported."""
    os.environ.update(prepare_home(place))
