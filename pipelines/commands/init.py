"""`capsheet init`: a workspace with sample inputs."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pipelines.commands import show
from pipelines.workspace import FILE_NAME
from warehouse.errors import CapsheetError


def run(folder: Path, *, json: bool) -> None:
    """Write capsheet.yaml and the sample inputs; refuses to touch a workspace that is there."""
    from pipelines.sample import write_sample_inputs

    target = folder / FILE_NAME
    if target.exists():
        raise CapsheetError(
            f"{target} is already there and is left as it is. Plan it with `capsheet plan -w {folder}`."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = write_sample_inputs(folder)
        # The workspace file comes last and whole: a folder with one has its inputs.
        partial = target.with_suffix(".yaml.partial")
        partial.write_text(files("pipelines.sample").joinpath(FILE_NAME).read_text(encoding="utf-8"), encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise CapsheetError(f"{folder} cannot be written: {error.strerror}. Name another folder.") from None
    made = [str(target), *map(str, written)]
    if json:
        show.as_json({"workspace": str(folder.resolve()), "files": made})
    else:
        show.as_table([{"made": name} for name in made], f"workspace {folder}")
