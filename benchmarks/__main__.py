"""``python -m benchmarks [COMMAND ...]``: without a command, a short run of each in minutes."""

from __future__ import annotations

import argparse

from benchmarks import (
    ablation,
    against,
    all_classes,
    augment_reduce,
    categorical_from_binary,
    choice,
    conversions,
    cost_against_classes,
    daily_updates,
    efforts,
    evidence,
    fasttext_speed,
    field,
    intervals,
    last_layer,
    members,
    memory,
    million_classes,
    noises,
    nuts_moments,
    one_row,
    one_vs_each,
    posteriors,
    reading,
    reproduce,
    roofline,
    serving,
    start_up,
    step_cost,
    streams,
    thousand_classes,
    threads,
    torch_layers,
    unbiased_softmax,
    wide_posteriors,
)
from benchmarks.peers import commands as peers


def make_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    table3 = commands.add_parser("table3", help="A&R Table 3: test log-likelihood and accuracy")
    table3.add_argument("data", choices=augment_reduce.SETTINGS)
    table3.add_argument("--methods", nargs="*", choices=augment_reduce.METHODS)
    table3.add_argument("--seed", type=int, default=0)
    table2 = commands.add_parser("table2", help="A&R Table 2: seconds per epoch")
    table2.add_argument("data", nargs="*", default=list(augment_reduce.SETTINGS))
    section = commands.add_parser("section41", help="A&R section 4.1: 10^4 classes, no covariates")
    section.add_argument("--iterations", type=int, default=500_000)
    section.add_argument("--methods", nargs="*")
    ove = commands.add_parser("ove-table2", help="one-vs-each Table 2: ridge 1")
    ove.add_argument("data", nargs="*", default=list(one_vs_each.PUBLISHED))
    commands.add_parser("ove-figure1", help="one-vs-each Figure 1: probabilities of ten values")
    commands.add_parser("step-cost", help="cost of a row against the number of classes")
    commands.add_parser("all-classes", help="exact training and prediction per 1,000 rows")
    commands.add_parser("one-row", help="milliseconds of a prediction for one row alone")
    parts = commands.add_parser("members", help="the defaults beside low, full and added ranks")
    parts.add_argument("problems", nargs="*", help="of the campaign; default: all")
    parts.add_argument("--threads", type=int, default=2)
    parts.add_argument(
        "--as-peer", action="store_true", help="the default's fit is also a result of `peers run`"
    )
    parts.add_argument("--json", action="store_true", help="print the table as JSON")
    needs = commands.add_parser("memory", help="what fits take beside their forecasts of memory")
    needs.add_argument("words", nargs="*", help="shapes whose names hold one; default: all")
    needs.add_argument("--here", action="store_true", help="in this process, one of them")
    needs.add_argument("--json", action="store_true", help="print the rows as JSON")
    commands.add_parser("roofline", help="bytes per second of training, beside a plain copy")
    unbiased = commands.add_parser("unbiased-table3", help="unbiased softmax Table 3")
    unbiased.add_argument("data", nargs="*", default=list(unbiased_softmax.PUBLISHED))
    for name, text in {
        "unbiased-rates": "unbiased softmax Figure 3: sensitivity to the learning rate",
        "unbiased-forms": "unbiased softmax Figure 2: both forms of the double sum",
    }.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("data", nargs="?", default="bibtex")
    commands.add_parser("implicit-cost", help="an implicit step against a vanilla step")
    table_g1 = commands.add_parser(
        "table-g1", help="categorical-from-binary Table G.1: model averaging on simulated data"
    )
    table_g1.add_argument("n_classes", nargs="*", type=int, help="3 or 10; default: both")
    table_g1.add_argument("--seed", type=int, default=1)
    table_g3 = commands.add_parser(
        "table-g3", help="categorical-from-binary Table G.3: glass, with NUTS"
    )
    table_g3.add_argument("--warmup", type=int, default=300, help="draws of NUTS thrown away")
    table_g3.add_argument("--samples", type=int, default=1000, help="draws of NUTS kept")
    over_time = commands.add_parser(
        "holdout-over-time", help="categorical-from-binary section 5.3: with ADVI, NUTS and Gibbs"
    )
    over_time.add_argument("data", nargs="*", default=list(categorical_from_binary.RACES))
    over_time.add_argument("--scale", type=float, default=1.0, help="multiplies the seconds spent")
    commands.add_parser("coverage", help="what intervals of class probabilities hold, with NUTS")
    commands.add_parser("posterior-moments", help="means and deviations of weights beside NUTS")
    commands.add_parser("posterior-coverage", help="what intervals hold, all methods, no NUTS")
    quality = commands.add_parser(
        "posterior-quality", help="log-likelihood of the default posterior beside others"
    )
    quality.add_argument("data", nargs="*", help="default: all")
    size = commands.add_parser("posterior-size", help="memory and seconds of wide posteriors")
    size.add_argument("data", nargs="*", help="dense, wide, many; default: all")
    size.add_argument("--here", action="store_true", help="in this process, one of them")
    commands.add_parser("posterior-cost", help="CPU seconds of the posteriors, 500 classes")
    thousand = commands.add_parser("posterior-thousand", help="1,000 classes beside the best ridge")
    thousand.add_argument("deviations", nargs="*", type=float, help="of the true weights")
    thousand.add_argument("--seed", type=int, default=0)
    sizes = commands.add_parser("posterior-evidence", help="evidence_ beside importance sampling")
    sizes.add_argument("--shapes", type=int, default=4, help="how many, the smallest first")
    commands.add_parser("nested-models", help="nested models that evidence_ tells apart")
    commands.add_parser("posterior-priors", help="log-likelihood against the prior's scale")
    commands.add_parser("posterior-stop", help="when augment-reduce stops, and what it misses")
    commands.add_parser("binary-speed", help="independent binary fits: Newton, coordinate ascent")
    commands.add_parser("binary-memory", help="independent binary fit of 10,000 classes: memory")
    commands.add_parser("yardsticks", help="make the environments of ADVI, NUTS and Gibbs")
    _add_measures(commands)
    choice.add_to(commands)
    field.add_to(commands)
    ablation.add_to(commands)
    efforts.add_to(commands)
    intervals.add_to(commands)
    commands.add_parser("last-layer", help="our Gaussians beside those of laplace-torch")
    seconds = commands.add_parser(
        "posterior-seconds", help="the default posterior beside laplace-torch and NUTS"
    )
    seconds.add_argument("n_classes", nargs="*", type=int, help="default: 5, 50, 500")
    peers.add_to(commands)
    reproduce.add_to(commands)
    torch_layers.add_to(commands)
    return parser


def main() -> None:
    args = make_parser().parse_args()
    if args.command == "table3":
        augment_reduce.table3(args.data, args.methods, args.seed)
    elif args.command == "table2":
        augment_reduce.table2(args.data)
    elif args.command == "section41":
        augment_reduce.section41(args.iterations, args.methods)
    elif args.command == "ove-table2":
        one_vs_each.table2(args.data)
    elif args.command == "ove-figure1":
        one_vs_each.figure1()
    elif args.command == "step-cost":
        step_cost.step_cost()
    elif args.command == "all-classes":
        all_classes.all_classes()
    elif args.command == "one-row":
        one_row.one_row()
    elif args.command == "members":
        members.members(args.problems, args.threads, args.as_peer, args.json)
    elif args.command == "memory" and args.here:
        memory.fit_here(*args.words)
    elif args.command == "memory":
        memory.forecasts(args.words, args.json)
    elif args.command == "roofline":
        roofline.roofline()
    elif args.command == "unbiased-table3":
        unbiased_softmax.table3(args.data)
    elif args.command == "unbiased-rates":
        unbiased_softmax.rates(args.data)
    elif args.command == "unbiased-forms":
        unbiased_softmax.forms(args.data)
    elif args.command == "implicit-cost":
        unbiased_softmax.implicit_cost()
    elif args.command == "table-g1":
        categorical_from_binary.table_g1(args.n_classes, args.seed)
    elif args.command == "table-g3":
        categorical_from_binary.table_g3(n_warmup=args.warmup, n_samples=args.samples)
    elif args.command == "holdout-over-time":
        categorical_from_binary.holdout_over_time(args.data, args.scale)
    elif args.command == "coverage":
        categorical_from_binary.coverage()
    elif args.command == "last-layer":
        last_layer.last_layer()
    elif args.command == "posterior-seconds":
        last_layer.posterior_seconds(args.n_classes)
    elif args.command == "interval-coverage":
        intervals.interval_coverage(args.words, args.seconds, args.sets, args.nuts)
    elif args.command == "posterior-quality":
        wide = [name for name in args.data if name in wide_posteriors.REAL]
        if not args.data or len(wide) < len(args.data):
            posteriors.quality([name for name in args.data if name not in wide])
        if not args.data or wide:
            wide_posteriors.real_quality(wide)
    elif args.command == "posterior-size" and args.here:
        wide_posteriors.size_here(*args.data)
    elif args.command == "posterior-size":
        wide_posteriors.size(args.data)
    elif args.command == "posterior-moments":
        nuts_moments.nuts_moments()
    elif args.command == "posterior-coverage":
        posteriors.coverage()
    elif args.command == "posterior-cost":
        posteriors.cost()
    elif args.command == "posterior-evidence":
        evidence.posterior_evidence(args.shapes)
    elif args.command == "nested-models":
        evidence.nested_pairs()
    elif args.command == "posterior-thousand":
        thousand_classes.posterior_thousand(args.deviations, args.seed)
    elif args.command == "posterior-priors":
        posteriors.priors()
    elif args.command == "posterior-stop":
        posteriors.stopping()
    elif args.command == "binary-speed":
        posteriors.binary_speed()
    elif args.command == "binary-memory":
        posteriors.binary_memory()
    elif args.command == "yardsticks":
        categorical_from_binary.make_environments()
    elif args.command == "cost-against-classes":
        cost_against_classes.cost_against_classes(
            args.classes,
            args.rows,
            args.rows_a_class,
            args.quality,
            args.json,
            sampler=args.sampler,
        )
    elif args.command == "noises":
        noises.noises(args.problems, args.epochs, args.json, sampler=args.sampler)
    elif args.command == "start-up":
        start_up.start_up(args.python, args.words, args.json)
    elif args.command == "daily-updates":
        rank = args.rank if args.rank == "auto" else int(args.rank)
        daily_updates.daily_updates(args.sets, rank, args.days)
    elif args.command == "streams":
        streams.streams(args.problems, args.json)
    elif args.command == "conversions":
        conversions.conversions(args.megabytes, args.forms, args.json)
    elif args.command == "reading":
        reading.reading(args.base, args.megabytes, args.cases, args.rounds, args.json)
    elif args.command == "threads":
        threads.threads(args.names, args.json)
    elif args.command == "million-classes":
        million_classes.million_classes(args.classes, args.rows, args.rank, args.json)
    elif args.command == "low-rank-step-cost":
        million_classes.low_rank_step_cost(args.classes, args.rank, args.json)
    elif args.command == "serving":
        serving.serving(args.classes, args.rank, args.json)
    elif args.command == "fasttext-speed":
        fasttext_speed.fasttext_speed(args.problems, args.dimension, args.threads, args.json)
    elif args.command == "against":
        against.against(
            args.base, args.answers, args.speed, args.json, args.only, args.rounds, args.jobs
        )
    elif (args.command or "").startswith("choice"):
        choice.run(args)
    elif args.command == "field":
        field.run(args)
    elif args.command == "efforts":
        efforts.run(args)
    elif args.command == "ablation":
        ablation.run(args)
    elif args.command == "peers":
        peers.run(args)
    elif (args.command or "").startswith("torch-"):
        torch_layers.run(args)
    elif args.command == "reproduce":
        reproduce.run(args)
    else:
        augment_reduce.table2(["mnist", "bibtex"])
        augment_reduce.table3("bibtex")
        one_vs_each.figure1()
        step_cost.step_cost()


def _add_measures(commands) -> None:
    """The commands that measure what the defaults promise."""
    cost = commands.add_parser(
        "cost-against-classes", help="seconds to a fixed quality against the number of classes"
    )
    cost.add_argument(
        "--classes", nargs="+", type=int, default=list(cost_against_classes.CLASSES), metavar="K"
    )
    cost.add_argument("--rows", type=int, metavar="N", help="the same for all numbers of classes")
    cost.add_argument(
        "--rows-a-class", type=int, default=cost_against_classes.ROWS_A_CLASS, metavar="N"
    )
    cost.add_argument(
        "--quality",
        type=float,
        default=cost_against_classes.QUALITY,
        help="part of the possible gain (default %(default)s)",
    )
    noise = commands.add_parser("noises", help="softmax, probit and logistic beside long fits")
    noise.add_argument("--problems", nargs="+", default=list(noises.PROBLEMS), metavar="NAME")
    noise.add_argument("--epochs", type=int, default=noises.EPOCHS, help="most of a long fit")
    first = commands.add_parser("start-up", help="cold and warm first fits in fresh processes")
    first.add_argument("words", nargs="*", help="cases whose names hold one; default: all")
    first.add_argument("--python", help="interpreter of an environment with a wheel")
    thread = commands.add_parser("threads", help="rows per second on one and on two threads")
    thread.add_argument("names", nargs="*", help="exact, or the start of a sampler's name")
    daily = commands.add_parser(
        "daily-updates", help="model files updated with new classes, beside refits"
    )
    daily.add_argument("sets", nargs="*", help="; ".join(daily_updates.SETS))
    daily.add_argument("--rank", default="256", help="a number, or auto (default %(default)s)")
    daily.add_argument("--days", type=int, nargs="*", help="days of a refit; default: all")
    stream = commands.add_parser(
        "streams", help="fits to rows of four times the memory beside fits in memory"
    )
    stream.add_argument("problems", nargs="*", help="; ".join(streams.PROBLEMS))
    converted = commands.add_parser("conversions", help="megabytes per second of `bigcat convert`")
    converted.add_argument("forms", nargs="*", help="; ".join(conversions.FORMS))
    converted.add_argument("--megabytes", type=int, default=100, metavar="N")
    read = commands.add_parser("reading", help="files read and written, beside another version")
    read.add_argument("base", help="a revision or a folder of bigcat")
    read.add_argument("cases", nargs="*", help="; ".join(reading.CASES))
    read.add_argument("--megabytes", type=int, default=200, metavar="N")
    read.add_argument("--rounds", type=int, default=3, metavar="N")
    million = commands.add_parser(
        "million-classes", help="memory and seconds of an epoch beside their forecasts, low rank"
    )
    million.add_argument("--classes", type=int, default=million_classes.N_CLASSES, metavar="K")
    million.add_argument("--rows", type=int, default=million_classes.N_ROWS, metavar="N")
    steps = commands.add_parser(
        "low-rank-step-cost", help="cost of a row against the number of classes, low rank"
    )
    steps.add_argument(
        "--classes", nargs="+", type=int, default=list(million_classes.STEP_CLASSES), metavar="K"
    )
    serve = commands.add_parser("serving", help="the best classes by search and by a scan")
    serve.add_argument("--classes", type=int, default=serving.N_CLASSES, metavar="K")
    for command in (million, steps, serve):
        command.add_argument("--rank", type=int, default=million_classes.RANK)
    fasttext = commands.add_parser(
        "fasttext-speed", help="rows per second and seconds to fastText's log-likelihood"
    )
    fasttext.add_argument(
        "--problems", nargs="+", default=list(fasttext_speed.PROBLEMS), metavar="NAME"
    )
    fasttext.add_argument("--dimension", type=int, default=fasttext_speed.DIMENSION)
    fasttext.add_argument("--threads", type=int, default=fasttext_speed.THREADS)
    other = commands.add_parser("against", help="another checkout: the same bits, the same speed?")
    other.add_argument("base", metavar="BASE", help="its folder, or a git revision")
    other.add_argument("--answers", action="store_true", help="compare answers only")
    other.add_argument("--speed", action="store_true", help="compare speed only")
    other.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names hold a word")
    other.add_argument("--rounds", type=int, default=against.ROUNDS, help="pairs a timed case")
    other.add_argument("--jobs", type=int, default=1, help="processes that answer at a time")
    for command in (cost, noise):
        command.add_argument("--sampler", default="auto", help="instead of the default one")
    for command in (
        cost,
        noise,
        first,
        thread,
        stream,
        converted,
        read,
        million,
        steps,
        serve,
        fasttext,
        other,
    ):
        command.add_argument("--json", action="store_true", help="print the rows as JSON")


if __name__ == "__main__":
    main()
