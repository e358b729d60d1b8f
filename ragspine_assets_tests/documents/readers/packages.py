"""Small Office packages, put together from their parts."""

import io
import zipfile
from collections.abc import Mapping

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    f'xmlns:r="{RELATIONS}" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
)


def pack(parts: Mapping[str, str | bytes]) -> bytes:
    """A package of these parts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return packed.getvalue()


def relations(*entries: tuple[str, str]) -> str:
    """A relationship part: kind and target of each, with the ids r1, r2, ..."""
    inner = "".join(
        f'<Relationship Id="r{number}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(entries, 1)
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'
    )


CHART = (
    f"<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx>"
    "</c:title><c:plotArea><c:barChart>"
    + "".join(
        f"<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>{name}</c:v></c:pt></c:strCache></c:strRef></c:tx>"
        "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>Q1</c:v></c:pt><c:pt idx='1'><c:v>Q2</c:v></c:pt>"
        "</c:strCache></c:strRef></c:cat>"
        f"<c:val><c:numRef><c:numCache><c:pt idx='1'><c:v>{value}</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
        for name, value in (("North", "4.5"), ("South", "7"))
    )
    + "</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)
CHART_TEXT = "|  | North | South |\n| --- | --- | --- |\n| Q1 |  |  |\n| Q2 | 4.5 | 7 |"
