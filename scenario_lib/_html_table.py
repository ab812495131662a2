"""A small HTML table, for the notebook representations of records, libraries and rollouts."""

from collections.abc import Mapping
from html import escape


def html_table(caption: str, rows: Mapping[str, object]) -> str:
    """A table of names and values; every text is escaped."""
    body = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f'<table><caption style="text-align:left"><b>{escape(caption)}</b></caption><tbody>{body}</tbody></table>'
