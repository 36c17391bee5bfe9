"""``bigcat methods``: the methods, their parts, requirements and guarantees."""

from __future__ import annotations

import argparse

from bigcat.cli import _options, _output

HELP = "list the methods with their parts, requirements and guarantees"

#: Default of `--method`, which is not a method itself.
AUTO = {
    "name": "auto",
    "bound": "auto",
    "noises": "all",
    "sampler": "auto",
    "solver": "auto",
    "is_bound": None,
    "unbiased": None,
    "summary": "the default: several candidates of low and of full rank, stacked on validation "
    "rows; `bigcat fit` prints the selection",
    "needs": "nothing",
    "citation": "docs/choosing.md",
}
COLUMNS = ("name", "noises", "sampler", "solver", "is_bound", "unbiased")


def add_to(parser: argparse.ArgumentParser) -> None:
    _options.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    from rich.table import Table

    import bigcat

    rows = [AUTO, *bigcat.methods()]
    if arguments.json:
        _output.print_json(rows)
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in COLUMNS:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in COLUMNS))
    console = _output.console()
    console.print(table)
    for row in rows:
        console.print(f"\n[bold]{row['name']}[/bold]: {row.get('summary', '')}")
        console.print(f"  needs {_cell(row['needs'])}", markup=False)
        console.print(f"  {row['citation']}", style="dim", markup=False)
    return 0


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
