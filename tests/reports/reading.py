"""Reading a workbook back, as its users' programs do, and tampering with one."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

from openpyxl import Workbook, load_workbook
from openpyxl.cell.cell import Cell


def opened(content: bytes, values: bool = False) -> Workbook:
    """The workbook; `values` shows cached values instead of formulas, as a previewer does."""
    return load_workbook(io.BytesIO(content), data_only=values)


def formulas(content: bytes) -> dict[tuple[str, str], str]:
    """Every formula, by sheet and coordinate."""
    return {
        (sheet.title, cell.coordinate): str(cell.value)
        for sheet in opened(content)
        for row in sheet.iter_rows()
        for cell in row
        if cell.data_type == "f"
    }


def cached(content: bytes) -> dict[tuple[str, str], Any]:
    """The cached value of every formula, by sheet and coordinate."""
    shown = opened(content, values=True)
    return {(sheet, at): shown[sheet][at].value for sheet, at in formulas(content)}


def find(workbook: Workbook, sheet: str, text: str) -> Cell:
    """The first cell of the sheet that says exactly this."""
    for row in workbook[sheet].iter_rows():
        for cell in row:
            if cell.value == text:
                return cell
    raise AssertionError(f"no cell of {sheet} says {text!r}")


def beside(workbook: Workbook, sheet: str, text: str, columns: int = 1) -> Any:
    """What stands so many columns right of the cell that says this."""
    cell = find(workbook, sheet, text)
    return workbook[sheet].cell(cell.row, cell.column + columns).value


def table_rows(workbook: Workbook, sheet: str, table: str) -> list[dict[str, Any]]:
    """The rows of an Excel table, by header."""
    cells = workbook[sheet][workbook[sheet].tables[table].ref]
    headers = [str(cell.value) for cell in cells[0]]
    return [dict(zip(headers, (cell.value for cell in row), strict=True)) for row in cells[1:]]


def rewritten(content: bytes, change: Callable[[str, str], str]) -> bytes:
    """The same file with `change(part name, xml)` applied to every sheet."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            data = source.read(name)
            if name.startswith("xl/worksheets/sheet"):
                data = change(name, data.decode()).encode()
            target.writestr(name, data)
    return out.getvalue()


def without_cached_values(content: bytes) -> bytes:
    """The same file with every cached value gone, so that whatever a program then shows it computed itself."""
    return rewritten(content, lambda _, xml: re.sub(r"</f><v>[^<]*</v>", "</f>", xml))


def with_input(content: bytes, sheet: str, coordinate: str, value: float) -> bytes:
    """The same file after a user typed a number into a cell."""
    part = f"xl/worksheets/sheet{opened(content).sheetnames.index(sheet) + 1}.xml"
    pattern = re.compile(rf'(<c r="{coordinate}"[^>]*><v>)[^<]*(</v>)')

    def change(name: str, xml: str) -> str:
        if name != part:
            return xml
        changed, count = pattern.subn(rf"\g<1>{value!r}\g<2>", xml)
        assert count == 1, f"{sheet}!{coordinate} is not a number"
        return changed

    return rewritten(content, change)
