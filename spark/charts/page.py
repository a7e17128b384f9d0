"""One HTML file with everything in it: numbers, pictures and tables. It loads nothing."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure with a name.

    Attributes:
        name: of its file, without .png.
        description: for who cannot see it.
    """

    name: str
    description: str
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a heading.

    Attributes:
        columns: names; one that begins with > has its numbers to the right.
        empty: what to say when there are no rows.
    """

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A report.

    Attributes:
        tiles: numbers to see first, each with what it is.
    """

    title: str
    subtitle: str
    tiles: Sequence[tuple[str, str]]
    pictures: Sequence[Picture]
    tables: Sequence[Table]

    def write(self, directory: Path) -> None:
        """Write NAME.png for each picture, and index.html.

        Each file is put in place when it is whole, so who has one open reloads a whole one.
        """
        directory.mkdir(parents=True, exist_ok=True)
        images = [(picture, _png(picture.figure)) for picture in self.pictures]
        for picture, image in images:
            _put(directory / f"{picture.name}.png", image)
        _put(directory / "index.html", self._html(images).encode())

    def _html(self, images: Sequence[tuple[Picture, bytes]]) -> str:
        tiles = "".join(
            f"<div class=tile><b>{escape(number)}</b><span>{escape(what)}</span></div>"
            for what, number in self.tiles
        )
        figures = "".join(
            f'<figure><img alt="{escape(picture.description)}"'
            f' src="data:image/png;base64,{base64.b64encode(image).decode()}"></figure>'
            for picture, image in images
        )
        return _PAGE.format(
            style=_STYLE,
            title=escape(self.title),
            subtitle=escape(self.subtitle),
            tiles=tiles,
            figures=figures,
            tables="".join(_table(table) for table in self.tables),
        )


_STYLE: Final = """
body{margin:0;background:#f4f6f8;color:#20242a;font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0}h2{font-size:17px;margin:0 0 10px}
.subtitle{color:#5c636d;margin:2px 0 20px}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin-bottom:20px}
.tile{background:#fff;border:1px solid #e1e5ea;border-radius:8px;padding:12px 18px;min-width:120px}
.tile b{display:block;font-size:22px;font-variant-numeric:tabular-nums}
.tile span{color:#5c636d;font-size:13px}
figure,section{background:#fff;border:1px solid #e1e5ea;border-radius:8px;margin:0 0 20px;
padding:16px;overflow-x:auto}
img{display:block;width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid #edf0f3;white-space:nowrap}
th{color:#5c636d;font-weight:600}
.number{text-align:right;font-variant-numeric:tabular-nums}
.empty{color:#5c636d;margin:0}
"""
_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1">'
    "<title>{title}</title><style>{style}</style></head><body><main><h1>{title}</h1>"
    "<p class=subtitle>{subtitle}</p><div class=tiles>{tiles}</div>{figures}{tables}"
    "</main></body></html>\n"
)


def _table(table: Table) -> str:
    heading = f"<section><h2>{escape(table.heading)}</h2>"
    if not table.rows:
        return f"{heading}<p class=empty>{escape(table.empty)}</p></section>"
    kinds = [" class=number" if name.startswith(">") else "" for name in table.columns]
    head = "".join(
        f"<th{kind}>{escape(name.removeprefix('>'))}</th>"
        for name, kind in zip(table.columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return f"{heading}<table><tr>{head}</tr>{body}</table></section>"


def _png(figure: Figure) -> bytes:
    written = BytesIO()
    figure.savefig(written, format="png", facecolor="white")
    return written.getvalue()


def _put(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.replace(path)
