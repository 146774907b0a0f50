"""`capsheet ui`: Dagster's web server and scheduler on this workspace."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import typer

from pipelines.workspace import Place
from warehouse.errors import CapsheetError


def run(workspace: Path, port: int) -> None:
    """Serve the asset graph on 127.0.0.1 until interrupted."""
    from pipelines.home import prepare_home

    place = Place(workspace)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise CapsheetError(f"port {port} is taken. Name another with --port.") from None
    # Dagster warns of its own deprecations at every start; they say nothing to the user of a workspace.
    environment = {**os.environ, **prepare_home(place), "PYTHONWARNINGS": "ignore"}
    typer.echo(f"asset graph of {place.spec.workspace}: http://127.0.0.1:{port} (Ctrl-C ends it)")
    command = [
        sys.executable,
        "-m",
        "dagster",
        "dev",
        "-m",
        "pipelines.definitions",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    server = subprocess.Popen([*command, "--log-level", "warning"], env=environment, cwd=place.folder)
    try:
        code = server.wait()
    except KeyboardInterrupt:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        return
    if code:
        raise CapsheetError(f"the web server ended with status {code}. Its last lines stand above.")
