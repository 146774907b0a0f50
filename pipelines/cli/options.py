"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", "-w", help="Folder that holds capsheet.yaml.", file_okay=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON, for machines.")]
ExecutorOption = Annotated[
    Literal["local", "ray"] | None, typer.Option(help="Where replays run; else as the workspace says, else local.")
]
HERE = Path()
