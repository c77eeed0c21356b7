"""Tables of the documents on residual-compensated products, from results of bench_residual.py.

The residual paper's own figures stand beside ours; they are of its GPU and CPU.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from residual import paper
from residual.accuracy import BITS, PAPER_THRESHOLDS, SIZE
from residual.distributions import DISTRIBUTIONS
from residual.lenet import THRESHOLDS
from residual.rows import Row, of_table

PEERS = ("cublaslt_compiled", "tf32", "float32")
"""What the README compares with; `cublaslt_compiled` is the fastest direct product of cuBLASLt."""


def errors(result: Mapping[str, Any]) -> str:
    """Errors by form, and apart from each other what scales and what the residual take off."""
    cells, found = [], _by_case(of_table(result, "accuracy"), SIZE)
    for (name, bits), row in found.items():
        point = _at(row["sparse"], 1.0)
        gain = _at(row["gains"]["thresholds"], 1.0)
        shares = (row["gains"]["scales"], gain["residual"], gain["together"])
        values = (row["one_scale"]["direct"], row["direct"], point["error"], row["full"])
        cells.append([
            f"{name}, {bits}", *(f"{value:.1e}" for value in values),
            f"{point['density_a']:.3f}", *(_percent(share) for share in shares),
        ])  # fmt: skip
    titles = ["distribution, bits", "direct, one scale", "direct", "sparse, threshold 1", "full",
              "density", "scales take off", "residual takes off", "together"]  # fmt: skip
    return _table(titles, cells, found.values())


def gains(result: Mapping[str, Any]) -> str:
    """Table 5: accuracy gained over the full residual with one scale, and speed over the full."""
    found = _by_case(of_table(result, "accuracy"), SIZE)
    speeds = {(row["distribution"], row["bits"]): row for row in of_table(result, "real_speed")}
    cells = []
    for (name, bits), row in found.items():
        line = [f"{name}, {bits}"]
        for threshold in PAPER_THRESHOLDS:
            gain = _at(row["gains"]["thresholds"], threshold)
            quoted = paper.gain(name, bits, threshold)
            ours = _speedup(speeds.get((name, bits)), threshold)
            theirs = ("-", "-") if quoted is None else (f"{quoted[0]:.2f}", f"{quoted[1]:.2f}")
            line.append(f"{gain['over_full']:.2f}, {gain['over_full_cut_off']:.2f} ({theirs[0]})")
            line.append(f"{ours} ({theirs[1]})")
        cells.append(line)
    titles = ["distribution, bits"]
    for threshold in PAPER_THRESHOLDS:
        titles += [f"gain at {threshold:g}", "speed-up"]
    return _table(titles, cells, [*found.values(), *speeds.values()])


def factorisations(result: Mapping[str, Any]) -> str:
    """Table 6: relative errors of Q R."""
    found = of_table(result, "qr")
    forms = ("one_scale_direct", "direct", "sparse_0.8", "sparse_0.1", "full", "cut_off_direct",
             "cut_off_full")  # fmt: skip
    cells = []
    for row in found:
        quoted = paper.factorisation(row["distribution"], row["bits"])
        theirs = ["-"] * 3
        if quoted:
            theirs = [f"{quoted[form]:.3f}" for form in ("direct", "sparse", "full")]
        ours = [_short(row["errors"][form]) for form in forms]
        cells.append([f"{row['distribution']}, {row['bits']}", *ours, *theirs])
    titles = ["distribution, bits", "direct, one scale", "direct", "sparse, 0.8", "sparse, 0.1",
              "full", "direct, cut off", "full, cut off", "paper: direct", "sparse",
              "full"]  # fmt: skip
    return _table(titles, cells, found)


def networks(result: Mapping[str, Any]) -> str:
    """Table 7: what share of images LeNet recognises, and how fast its products are."""
    found, cells = of_table(result, "lenet"), []
    speeds = {row["bits"]: row["times"] for row in of_table(result, "lenet_speed")}
    for row in found:
        times, quoted = speeds.get(row["bits"]), paper.LENET[row["bits"]]
        for form in ("one_scale_direct", "direct", *(f"sparse_{t}" for t in THRESHOLDS)):
            theirs = ("-", "-")
            if form.startswith("sparse"):
                place = THRESHOLDS.index(float(form.removeprefix("sparse_")))
                theirs = (f"{quoted['accuracy'][place]:.2%}", f"{quoted['speedup'][place]:.2f}")
            cells.append([
                f"{row['bits']} bits, {form.replace('_', ' ')}", f"{row['accuracy'][form]:.2%}",
                f"{row['logits_error'][form]:.1e}", _lenet_speedup(times, form), *theirs,
            ])  # fmt: skip
    exact = found[0]["accuracy"]["float32"]
    cells.insert(0, ["float32", f"{exact:.2%}", "0", "1.00", f"{paper.LENET_FLOAT:.2%}", "-"])
    titles = ["products", "recognised", "error of logits", "speed-up", "paper: recognised",
              "speed-up"]  # fmt: skip
    return _table(titles, cells, [*found, *of_table(result, "lenet_speed")])


def summary(cpu: Mapping[str, Any], gpu: Mapping[str, Any]) -> str:
    """What the README shows: an error, and the rates of a CPU and of a GPU, beside the paper's."""
    found = _by_case(of_table(cpu, "accuracy"), SIZE)["chi-square(1)", 8]
    off = _at(found["gains"]["thresholds"], 1.0)["together"]
    cells = [["chi-square data at threshold 1: error taken off direct int8 with one scale",
              _percent(off), "at least 80%"]]  # fmt: skip
    for result, kind, density, quoted, densities in (
        (gpu, "cuda", 0.001, paper.GPU_SPEEDS, paper.GPU_DENSITIES),
        (cpu, "cpu", 0.01, paper.CPU_SPEEDS, paper.CPU_DENSITIES),
    ):
        row = _speed(result, kind, density)
        size, on = row["size"], {"cuda": "H200, A100", "cpu": "CPUs"}[kind]
        own = quoted.get(size)
        rates = {form: row["times"][form][_rate_of(kind)] for form in ("direct", "full", "sparse")}
        ours = [rates["sparse"] / rates[form] for form in ("direct", "full")]
        theirs = ["-", "-"]
        if own:
            sparse = own["sparse"][densities.index(density)]
            theirs = [f"{sparse / own[form]:.2f}" for form in ("direct", "full")]
        cells.append([
            f"{size} cubed, density {density:g} ({on}): rate over the direct form's, the full's",
            ", ".join(f"{ratio:.2f}" for ratio in ours), ", ".join(theirs),
        ])  # fmt: skip
        if kind == "cuda":
            over = [rates["sparse"] / row["times"][peer][_rate_of(kind)] for peer in PEERS]
            cells.append([
                "the same over cuBLASLt's direct int8 with quantisation, cuBLAS in tf32, float32",
                ", ".join(f"{ratio:.2f}" for ratio in over), "-",
            ])  # fmt: skip
    lines = [["float32 through int8, sparse correction", "autoq", "paper"], ["---"] * 3, *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cpu_speeds(result: Mapping[str, Any]) -> str:
    """Table 4: GOPS on the CPU, beside the paper's."""
    return _speeds(result, "cpu", 1e3, paper.CPU_SPEEDS, paper.CPU_DENSITIES, ("float32",))


def gpu_speeds(result: Mapping[str, Any]) -> str:
    """Table 3: TOPS on a GPU, beside the paper's, and the peers of the same run."""
    peers = ("float32", "tf32", "cublaslt", "cublaslt_transposed", "cublaslt_compiled")
    return _speeds(result, "cuda", 1.0, paper.GPU_SPEEDS, paper.GPU_DENSITIES, peers)


def cpu_stages(result: Mapping[str, Any]) -> str:
    """Figure 7 on the CPU."""
    return _stages(result, "residual_cpu")


def gpu_stages(result: Mapping[str, Any]) -> str:
    """Figure 7 on a GPU."""
    return _stages(result, "residual_h200")


def _stages(result: Mapping[str, Any], stem: str) -> str:
    """Shares of time by stage, as a plot and a table."""
    found = of_table(result, "stages")
    if not found:
        return f"`{stem}.json` holds no times of single stages."
    forms, kinds = list(dict.fromkeys(row["form"] for row in found)), list(found[0]["share"])
    found = sorted(found, key=lambda row: (forms.index(row["form"]), row["size"]))
    cells = [
        [row["form"], str(row["size"]), f"{sum(row['us'].values()):,.0f}",
         *(f"{row['share'][kind]:.0%}" for kind in kinds)]
        for row in found
    ]  # fmt: skip
    plot = f"![shares of time by stage](../scripts/results/{stem}_stages.png)"
    return "\n\n".join([plot, _table(["form", "size", "us", *kinds], cells, found)])


def _speeds(
    result: Mapping[str, Any], kind: str, factor: float, quoted: Mapping[int, Any],
    densities: Sequence[float], peers: Sequence[str],
) -> str:  # fmt: skip
    """A line for each size and density; rates times a factor."""
    rows = [row for row in of_table(result, "speed") if row["target"] == kind]
    cells, found = [], sorted(rows, key=lambda row: (row["size"], -row["density"]))
    for row in found:
        rates = {form: factor * times[_rate_of(kind)] for form, times in row["times"].items()}
        theirs = ["-"] * 3
        if row["size"] in quoted:
            own = quoted[row["size"]]
            sparse = own["sparse"][densities.index(row["density"])]
            theirs = [f"{value:.2f}" for value in (own["direct"], own["full"], sparse)]
        on = [str(row["threads"])] if kind == "cpu" else []
        cells.append([
            str(row["size"]), *on, f"{row['density']:g}",
            *(_rate(rates.get(form)) for form in ("direct", "full", "sparse", *peers)),
            f"{rates['sparse'] / rates['direct']:.2f}", f"{rates['sparse'] / rates['full']:.2f}",
            *theirs,
        ])  # fmt: skip
    on = ["threads"] if kind == "cpu" else []
    named = (peer.replace("_", " ") for peer in peers)
    titles = ["size", *on, "density", "direct", "full", "sparse", *named, "sparse / direct",
              "sparse / full", "paper: direct", "full", "sparse"]  # fmt: skip
    return _table(titles, cells, found)


def _rate_of(kind: str) -> str:
    """Which of a form's rates counts: the CPU is shared with other work."""
    return "tops_best" if kind == "cpu" else "tops_median"


def _speed(result: Mapping[str, Any], kind: str, density: float) -> Row:
    """The row of a density at the largest size up to 8192."""
    return max(
        (
            row
            for row in of_table(result, "speed")
            if (row["target"], row["density"]) == (kind, density) and row["size"] <= 8192
        ),
        key=lambda row: row["size"],
    )


def _speedup(row: Row | None, threshold: float) -> str:
    """Of the sparse form over the full one; a dash where it is slower."""
    if row is None:
        return "not timed"
    times = row["times"]
    ratio = times["full"]["us_least"] / times[f"sparse_{threshold}"]["us_least"]
    return f"{ratio:.2f}" if ratio > 1 else "-"


def _lenet_speedup(times: Mapping[str, Any] | None, form: str) -> str:
    """Over numpy's float32 products; with one scale a matrix nothing is compiled."""
    name = {"sparse_0.0": "full", "sparse_1.0": "sparse_1"}.get(form, form)
    if times is None or name not in times:
        return "-"
    return f"{times['float32']['us_least'] / times[name]['us_least']:.2f}"


def _by_case(rows: Sequence[Row], size: int) -> dict[tuple[str, int], Row]:
    """Rows of a size by distribution and bits, bits first."""
    known = {(row["distribution"], row["bits"]): row for row in rows if row["size"] == size}
    return {(name, bits): known[name, bits] for bits in BITS for name in DISTRIBUTIONS}


def _at(points: Sequence[Row], threshold: float) -> Row:
    return next(point for point in points if point["threshold"] == threshold)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _percent(share: float) -> str:
    return f"{round(100 * share)}%"


def _short(value: float) -> str:
    return f"{value:.4f}" if value < 10 else f"{value:.0f}"


def _table(titles: Sequence[str], cells: Sequence[Sequence[str]], rows: Any) -> str:
    """The table, behind what it was measured on and when."""
    rows = list(rows)
    devices = "; ".join(dict.fromkeys(row["device"] for row in rows))
    when = "; ".join(sorted({f"{row['date']}, commit {row['commit'][:7]}" for row in rows}))
    loads = [row["load"] for row in rows if "load" in row]
    load = f", average load {min(loads):g} to {max(loads):g}" if loads else ""
    lines = [titles, ["---"] * len(titles), *cells]
    text = textwrap.wrap(f"{devices}, {when}{load}.", 100)
    return "\n".join([*text, "", *(f"| {' | '.join(line)} |" for line in lines)])


SECTIONS = {
    "RESIDUAL_ERRORS": (errors, "residual_cpu"),
    "RESIDUAL_GAINS": (gains, "residual_cpu"),
    "RESIDUAL_QR": (factorisations, "residual_cpu"),
    "RESIDUAL_LENET": (networks, "residual_cpu"),
    "RESIDUAL_CPU": (cpu_speeds, "residual_cpu"),
    "RESIDUAL_GPU": (gpu_speeds, "residual_h200"),
    "RESIDUAL_STAGES": (cpu_stages, "residual_cpu"),
    "RESIDUAL_GPU_STAGES": (gpu_stages, "residual_h200"),
}
"""The text between the marks of each name, and the result that it is made from."""
