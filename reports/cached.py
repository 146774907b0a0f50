"""The finished file: cached values in formula cells, and bytes that depend on nothing but the inputs.

openpyxl writes formulas without values, so Protected View, previewers and pandas would show nothing, and it stamps
the moment of saving into the zip and the properties. Belongs here: that one pass over the zip. Does not: any layout.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from datetime import datetime
from xml.sax.saxutils import escape

from openpyxl import Workbook

from reports.formulas import Scalar

_FORMULA_CELL = re.compile(r'<c r="([A-Z]+[0-9]+)"([^>]*)><f>(.*?)</f><v\s*/?>(?:</v>)?</c>', re.DOTALL)
_TYPE = re.compile(r'\s+t="[^"]*"')
_STAMP = re.compile(r"(<dcterms:(created|modified)[^>]*>)[^<]*(</dcterms:\2>)")
_ZIP_EPOCH = 1980


def finish(workbook: Workbook, cached: Mapping[str, Mapping[str, Scalar]], created_at: datetime) -> bytes:
    """The workbook's bytes with every formula's value in place: `cached[sheet title][coordinate]`.

    Raises ValueError where a formula has no value or a value no formula. Same inputs, same bytes.
    """
    buffer = io.BytesIO()
    workbook.save(buffer)
    part_of_sheet = {f"xl/worksheets/sheet{i}.xml": title for i, title in enumerate(workbook.sheetnames, start=1)}
    stamp = created_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    moment = (max(created_at.year, _ZIP_EPOCH), *created_at.timetuple()[1:6])
    out = io.BytesIO()
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name in part_of_sheet:
                title = part_of_sheet[name]
                content = _fill(content.decode(), cached.get(title, {}), title).encode()
            elif name == "docProps/core.xml":
                content = _STAMP.sub(rf"\g<1>{stamp}\g<3>", content.decode()).encode()
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            target.writestr(entry, content)
    return out.getvalue()


def _fill(xml: str, values: Mapping[str, Scalar], title: str) -> str:
    filled: set[str] = set()

    def with_value(match: re.Match[str]) -> str:
        coordinate, attributes, formula = match.groups()
        if coordinate not in values:
            raise ValueError(f"formula without a cached value: {title}!{coordinate}")
        filled.add(coordinate)
        kind, text = _encoded(values[coordinate])
        return f'<c r="{coordinate}"{_TYPE.sub("", attributes)}{kind}><f>{formula}</f><v>{text}</v></c>'

    result = _FORMULA_CELL.sub(with_value, xml)
    unmatched = sorted(set(values) - filled)
    if unmatched or result.count("<f>") != len(filled):
        raise ValueError(f"cached values and formulas of sheet {title} do not match: {unmatched[:5]}")
    return result


def _encoded(value: Scalar) -> tuple[str, str]:
    """The cell's type attribute and the text of its value (ECMA-376 ST_CellType)."""
    if isinstance(value, bool):
        return ' t="b"', str(int(value))
    if isinstance(value, str):
        return ' t="str"', escape(value)
    return "", repr(value)
