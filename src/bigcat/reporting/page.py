"""A report as HTML: sections of text, charts with their numbers below, and data for the script.

Whatever comes from the model (names of classes and features, facts) is escaped here, or set as
text by the script; nothing of it is ever markup.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from bigcat.inference import ResultsTable
from bigcat.inspection.predictions import bin_name
from bigcat.plots.fits import history
from bigcat.plots.predictions import (
    draw_confusions,
    draw_frequencies,
    draw_hits,
    draw_reliability,
)
from bigcat.reporting.figures import as_svg, draw_intervals, draw_log_probabilities

Section = dict[str, Any]


def render(content: dict[str, Section], title: str) -> str:
    """Return the whole page."""
    parts = [
        ("model", "What it is", _model(content["model"]) + _fit(content["fit"])),
        ("quality", "How good it is", _quality(content["quality"])),
        ("frequency", "Frequent and rare classes", _frequencies(content["frequencies"])),
        ("honesty", "How honest it is", _honesty(content["honesty"])),
        ("intervals", "How sure it is of that", _intervals(content["intervals"])),
        ("confusions", "What it confuses", _confusions(content["confusions"])),
        ("learned", "What it learned", _learned(content["learned"], content["map"])),
        ("classes", "All classes", _class_table(content["classes"])),
    ]
    if "missing" in content["intervals"]:  # a section for one kind of model only
        parts = [part for part in parts if part[0] != "intervals"]
    return _document(parts, title, _packed(content))


def render_tables(tables: Mapping[str, ResultsTable], title: str) -> str:
    """Return the page of a model that has tables of its own, one section for each."""
    parts = [(f"part{k}", head, table.to_html()) for k, (head, table) in enumerate(tables.items())]
    return _document(parts, title, "")


def _document(parts: Sequence[tuple[str, str, str]], title: str, data: str) -> str:
    """Return the page of sections with names, heads and texts."""
    links = "".join(f'<a href="#{name}">{escape(head)}</a>' for name, head, _ in parts)
    body = "".join(
        f'<section id="{name}"><h2>{escape(head)}</h2>{text}</section>'
        for name, head, text in parts
    )
    here = files("bigcat.reporting")
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{here.joinpath('page.css').read_text('utf-8')}</style></head><body>",
            '<a class="skip" href="#content">Skip to the content</a>',
            f"<header><h1>{escape(title)}</h1>",
            '<button id="theme" type="button" aria-pressed="false">Dark</button>',
            f'<nav aria-label="Sections">{links}</nav></header>',
            f'<main id="content">{body}</main>',
            f'<script type="text/plain" id="data">{data}</script>',
            f"<script>{here.joinpath('page.js').read_text('utf-8')}</script></body></html>",
        ]
    )


# --- sections -----------------------------------------------------------------------------------


def _model(section: Section) -> str:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in section["facts"]
    )
    return f'<dl class="facts">{rows}</dl>'


def _fit(section: Section) -> str:
    if "missing" in section:
        return _missing(section)
    took = "" if math.isnan(section["seconds"]) else f"{section['seconds']:.1f} seconds in "
    said = f"The fit took {took}{section['epochs']:,} passes"
    if section["forecast"]:
        said += f"; {section['forecast']:.1f} had been forecast as the most it could take"
    if not section["curve"]:
        return f"<p>{said}. Its method keeps no log-likelihood per pass, so there is no curve.</p>"
    rows = [
        [row.get("epoch"), row.get("seconds"), row.get("bound"), row.get("log_likelihood"),
         row.get("validation_log_likelihood")]
        for row in section["history"]
    ]  # fmt: skip
    chart = _figure(
        as_svg(history(section["history"], baseline=section["baseline"]), "history"),
        "Bound and log-likelihood in the course of the fit.",
        "How the fit went.",
        ["pass", "seconds", "bound", "log-likelihood, training rows", "held-out"],
        rows,
    )
    return f"<p>{said}.</p>{chart}"


def _quality(section: Section) -> str:
    facts = [
        (
            "log-likelihood",
            f"{section['log_likelihood']:.4f}",
            f"nats per row, standard error {section['log_likelihood_error']:.4f}",
        )
    ]
    gain = section["log_likelihood"] - section["baseline"]
    facts.append(
        (
            "class frequencies alone",
            f"{section['baseline']:.4f}",
            f"the model is {abs(gain):.4f} nats {'better' if gain > 0 else 'WORSE'}",
        )
    )
    facts += [
        ("accuracy", f"{section['accuracy']:.4f}", "the most probable class is the observed one"),
        ("hit@5", f"{section['hit_at_5']:.4f}", "it is among the five most probable"),
        ("rows", f"{section['rows']:,}", _which_rows(section)),
    ]
    cells = "".join(
        f"<tr><th scope=row>{escape(a)}</th><td>{escape(b)}</td><td>{escape(c)}</td></tr>"
        for a, b, c in facts
    )
    chart = _figure(
        as_svg(draw_hits(section["hits"]), "hits"),
        f"Share of rows whose class is among the k most probable ones, from "
        f"{section['hits'][0]['hit']:.3f} for k = 1 to {section['hits'][-1]['hit']:.3f} for "
        f"k = {section['hits'][-1]['k']}.",
        "Where both curves agree, the model knows how often it is right.",
        ["k", "truth among the k best", "the model says"],
        [[p["k"], p["hit"], p["confidence"]] for p in section["hits"]],
    )
    return f'<table class="key">{cells}</table>{chart}'


def _which_rows(section: Section) -> str:
    said = []
    looked_at = section["rows"] + section["dropped"]
    if looked_at < section["rows_given"]:
        said.append(f"drawn at random from {section['rows_given']:,}")
    if section["dropped"]:
        said.append(f"{section['dropped']:,} more left out: their class is unknown to the model")
    return "; ".join(said)


def _frequencies(section: Section) -> str:
    bins = section["bins"]
    return _figure(
        as_svg(draw_frequencies(bins), "frequencies"),
        "Accuracy and hit@5 of classes by their number of training rows.",
        "Rare classes are harder, and averages hide them.",
        ["training rows", "classes", "rows here", "log-likelihood", "accuracy", "hit@5"],
        [
            [bin_name(b), b["classes"], b["rows"], b["log_likelihood"], b["accuracy"],
             b["hit_at_5"]]
            for b in bins
        ],
    )  # fmt: skip


def _honesty(section: Section) -> str:
    first, best = section["first"], section["best"]
    said = (
        "On average the model gives its first choice a probability of "
        f"{section['sharpness']:.3f}, and is right in {section['accuracy']:.3f} of the rows. "
        f"The expected calibration error is {first['ece']:.3f}."
    )
    stacking = section["stacking"]
    if "missing" not in stacking:
        alone = ", ".join(
            f"{escape(name)} {error:.3f}" for name, error in stacking["alone"].items()
        )
        said += (
            f" On the {stacking['rows']:,} validation rows of the fit it was {alone} before "
            f"stacking, and {stacking['stacked']:.3f} after it."
        )
    text = f"<p>{said}</p>" + '<div class="pair">' + _reliability(first, 1)
    if section["k"] > 1:
        text += _reliability(best, section["k"])
    text += "</div>"
    quantiles = ", ".join(f"{q:.0%} below {value:.3g}" for q, value in section["quantiles"].items())
    edges = section["edges"]
    text += _figure(
        as_svg(draw_log_probabilities(section), "spread"),
        f"Histogram of the log-probabilities of the observed classes: {quantiles}.",
        f"How the log-probabilities of the observed classes are spread: {quantiles}.",
        ["from", "to", "rows"],
        [[a, b, int(n)] for a, b, n in zip(edges, edges[1:], section["histogram"])],
    )
    return text


def _reliability(found: dict[str, Any], k: int) -> str:
    what = "the predicted class" if k == 1 else f"the {k} most probable classes"
    filled = np.flatnonzero(found["count"])
    return _figure(
        as_svg(draw_reliability(found, k), f"reliability{k}"),
        f"Reliability diagram of {what}; expected calibration error {found['ece']:.3f}.",
        f"Points on the dashed line: {what} as often right as the model says.",
        ["rows", "probability", "share right"],
        [[int(found["count"][b]), found["confidence"][b], found["accuracy"][b]] for b in filled],
    )


def _intervals(section: Section) -> str:
    if "missing" in section:
        return ""
    low, middle, high = section["width_quantiles"]
    said = (
        f"Intervals hold {section['level']:.0%} of the posterior. Those of the predicted class's "
        f"probability are {section['width']:.3f} wide on average, over {section['rows']:,} rows "
        f"(a tenth below {low:.3f}, half below {middle:.3f}, nine tenths below {high:.3f}). "
        "Test rows cannot show how often they contain the true probability; "
        "model.check_coverage simulates it."
    )
    return f"<p>{said}</p>" + _figure(
        as_svg(draw_intervals(section), "intervals"),
        "Mean interval of the predicted class's probability, and how often it is right.",
        "Where the share that is right lies outside of the bar, the model is too sure.",
        ["rows", "probability", "interval from", "to", "share right"],
        [[b["rows"], b["confidence"], b["low"], b["high"], b["right"]] for b in section["bins"]],
    )


def _confusions(section: Section) -> str:
    if not section["pairs"]:
        return "<p>The model made no mistake on these rows.</p>"
    pairs = section["pairs"]
    chart = _figure(
        as_svg(draw_confusions(pairs), "confusions"),
        f"The {len(pairs)} most frequent mistakes.",
        f"{section['wrong']:,} rows are wrong; these pairs of classes most often.",
        ["truth", "predicted instead", "rows", "of the true class's rows", "log-odds"],
        [[str(p["truth"]), str(p["predicted"]), p["rows"], p["share"], p["log_odds"]]
         for p in pairs],
    )  # fmt: skip
    examples = "".join(
        f"<li><b>{escape(str(p['truth']))}</b> taken for <b>{escape(str(p['predicted']))}</b><ul>"
        + "".join(
            f"<li>row {e['row']:,}: {escape(e['features']) or 'a row without features'}</li>"
            for e in p["examples"]
        )
        + "</ul></li>"
        for p in pairs[:10]
    )
    head = "<h3>Rows as examples</h3>"
    if section["contributions"]:
        head += (
            "<p>Features that speak for the predicted class, with their contribution to its score "
            "over that of the true class.</p>"
        )
    text = chart + f"{head}<ul>{examples}</ul>"
    if section["never_count"]:
        names = ", ".join(f"{escape(str(name))} ({n:,})" for name, n in section["never"])
        more = section["never_count"] - len(section["never"])
        text += (
            f"<h3>Never predicted</h3><p>{section['never_count']:,} of the {section['seen']:,} "
            f"classes of these rows: {names}{f', and {more:,} more' if more else ''}.</p>"
        )
    return text


def _learned(section: Section, places: Section) -> str:
    which = "A class" if section["all"] else "One of the most frequent classes"
    text = (
        f'<p><label for="pick">{which}</label> '
        '<input id="pick" list="picks" autocomplete="off"><datalist id="picks"></datalist></p>'
        '<div id="details" aria-live="polite"></div>'
    )
    if "missing" in places:
        return text + _missing(places)
    share = places["share"]
    return text + (
        '<h3>A map of the classes</h3><p><label for="find">Find a class</label> '
        '<input id="find" type="search" autocomplete="off"> '
        '<button id="reset" type="button">Show all</button></p>'
        '<canvas id="map" tabindex="0" role="img" aria-label="Map of the classes by the first two '
        "principal components of their vectors. Arrow keys move it, plus and minus zoom."
        '"></canvas><p id="hover" aria-live="polite">Classes whose weights are alike lie close '
        f"together. The two directions hold {share[0]:.0%} and {share[1]:.0%} of the spread.</p>"
    )


def _class_table(section: Section) -> str:
    columns = [
        ("names", "class", "text"),
        ("train", "training rows", "number"),
        ("test", "rows here", "number"),
        ("accuracy", "found", "number"),
        ("log_proba", "mean log-probability", "number"),
        ("predicted", "predicted", "number"),
        ("precision", "then right", "number"),
        ("confidence", "then sure", "number"),
    ]
    heads = "".join(
        f'<th scope="col" class="{kind}" data-key="{key}"><button type="button">{name}</button>'
        "</th>"
        for key, name, kind in columns
        if section[key] is not None
    )
    return (
        '<p class="on-paper">On a screen this page has a table of all classes, to search and to '
        'sort.</p><div class="on-screen"><p><label for="search">Search</label> '
        '<input id="search" type="search" autocomplete="off"> '
        '<span id="found" aria-live="polite"></span></p>'
        '<div id="scroll" tabindex="0" aria-label="Table of all classes"><table id="table">'
        f"<thead><tr>{heads}</tr></thead><tbody></tbody></table></div>"
        "<p><i>Found</i>: share of the class's rows that were predicted as it. <i>Then right</i>: "
        "share of the rows predicted as the class that are of it; <i>then sure</i>: the mean "
        "probability in these, which should be the same.</p></div>"
        "<noscript><p>The table, the map and the search need JavaScript.</p></noscript>"
    )


# --- pieces -------------------------------------------------------------------------------------


def _missing(section: Section) -> str:
    return f'<p class="missing">{escape(section["missing"])}</p>'


def _figure(
    svg: str, described: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]
) -> str:
    """Return a chart with an alternative text, a caption and its numbers."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return (
        f'<figure><div role="img" aria-label="{escape(described)}">{svg}</div>'
        f"<figcaption>{escape(caption)}</figcaption><details><summary>The numbers</summary>"
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></details></figure>"
    )


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return str(value)


def _packed(content: dict[str, Section]) -> str:
    """Return the data of the script, as compressed JSON in base64, which is never markup."""
    classes, places = content["classes"], content["map"]
    data: dict[str, Any] = {
        key: column if isinstance(column, list) else _numbers(column)
        for key, column in classes.items()
        if column is not None
    }
    payload: dict[str, Any] = {"classes": data, "details": content["learned"]["details"]}
    if "missing" not in places:
        payload["map"] = {
            "numbers": places["numbers"].tolist(),
            "x": np.round(places["places"][:, 0].astype(float), 4).tolist(),
            "y": np.round(places["places"][:, 1].astype(float), 4).tolist(),
        }
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False, default=str)
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _numbers(column: np.ndarray) -> list[Any]:
    if column.dtype.kind in "iu":
        return list(column.tolist())
    return [round(value, 3) if math.isfinite(value) else None for value in column.tolist()]
