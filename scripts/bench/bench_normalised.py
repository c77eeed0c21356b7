"""prep FOLDER NET VARIANT | time FOLDER OUT NET..."""
import copy, dataclasses, json, statistics, sys, time
from pathlib import Path
sys.path[:0] = ["scripts", "scripts/bench"]
from autoq import graph, frontend
from autoq.compilation.assembly import assemble
from autoq.compilation.compiler import compile_all
from autoq.compilation.look_ahead import looking_ahead
from autoq.compilation.selection import select, TemplateSelection
from autoq.devices import Host
from autoq.graph.ir import Fusion, Layer
from autoq.graph.lowering.merging.normalised import merge_normalised, _merged
from autoq.knowledge.shipped import known_models
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.database import Database
from autoq.runtime.artifact import write_artifact
from autoq.templates.cuda.wgmma import gemm_wgmma_normalised as g
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

G8 = dict(grid=g.Grid(False, 8, g.Shared.ACTIVATIONS))
def small(form):
    """A form for short reductions: as many stages as there are."""
    return lambda k: dataclasses.replace(form, stages=min(form.stages, max(2, -(-k // form.row_bytes))))
R8 = dict(grid=g.Grid(False, 8, g.Shared.ROWS), early_loads=1)
R4 = dict(grid=g.Grid(True, 4, g.Shared.ROWS), early_loads=1)
FORMS = {
    "c4r": small(g.form(192, 2, 4, 5, **R4)),
    "c8r": small(g.form(96, 3, 8, 5, **R8)),
    "c4": small(g.form(192, 2, 4, 4)),
    "c4b2": small(g.form(192, 1, 4, 3, blocks_per_unit=2)),
    "c8": small(g.form(96, 3, 8, 5, **G8)),
}
# variant: (form, what is done); fused: one kernel; apart: the product in that form and the normalisation; gone: no normalisation
VARIANTS = {"base": None, "gone": None}
for name in FORMS:
    VARIANTS[f"fused_{name}"] = name
    if name in ("c4", "c8", "c8r"):
        VARIANTS[f"apart_{name}"] = name
VARIANTS["fusedshort_c4"] = "c4"
VARIANTS["fusedshort_c4b2"] = "c4b2"
VARIANTS["fusedshort_c8"] = "c8"
VARIANTS["fusedshort_c8r"] = "c8r"
VARIANTS["fusedshort_c4r"] = "c4r"


def pairs_of(made, target, templates):
    producers, found = made.producers(), []
    readers = made.consumers()
    for node in made.nodes:
        if isinstance(node, Fusion) and node.inputs:
            front = producers.get(node.inputs[0])
            if isinstance(front, Layer) and len(readers[front.output]) == 1:
                both = _merged(front, node)
                if both is not None and matching(both.workload, target, templates):
                    found.append((front, node))
    return found

def load(folder, net):
    target = parse_target("cuda:sm_90a")
    templates = list(load_registry(REGISTRY).values())
    return graph.optimise(frontend.load(str(folder / f"{net}.onnx")), target, templates)

def prep(folder, net, variant, cache, given=None):
    host = Host(parse_target("cuda:sm_90a"), "NVIDIA H200")
    target = host.target
    templates = list(load_registry(REGISTRY).values())
    started = time.time()
    made = copy.copy(given or load(folder, net))
    made.nodes, made.tensors = list(made.nodes), dict(made.tensors)
    form = VARIANTS[variant]
    pairs = pairs_of(made, target, templates)
    if variant.startswith("fusedshort"):
        keep = {id(front) for front, _ in pairs if front.workload.k <= 768}
        others = [n for f, n in pairs if id(f) not in keep]
        held = {id(n): n for n in others}
        # those of long reductions stay apart: hide them by a second reader
        names = {f.output for f, n in pairs if id(f) not in keep}
        outputs = made.outputs
        made.outputs = (*outputs, *names)
        merge_normalised(made, target, templates)
        made.outputs = outputs
    elif variant.startswith("fused"):
        merge_normalised(made, target, templates)
    elif variant == "gone":
        renamed = {n.outputs[0]: f.output for f, n in pairs}
        gone = {id(n) for _, n in pairs}
        made.nodes = [n for n in made.nodes if id(n) not in gone]
        made.nodes = [dataclasses.replace(n, inputs=tuple(renamed.get(i, i) for i in n.inputs)) for n in made.nodes]
    database = Database.load((), shipped=True)
    models = known_models(None, True)
    selections = [select(node, host, database, templates, models) for node in made.nodes]
    if variant.startswith("fused"):
        selections = [dataclasses.replace(s, config=FORMS[form](s.node.workload.k), source="form")
                      if s.template == g.TEMPLATE.name else s for s in selections]
    if variant.startswith("apart"):
        fronts = {id(f) for f, _ in pairs}
        chosen = next(t for t in templates if t.name == "gemm_wgmma")
        selections = [dataclasses.replace(s, chosen=chosen, config=FORMS[form](s.node.workload.k), source="form",
                      node=dataclasses.replace(s.node, workload=s.node.workload.dense)) if id(s.node) in fronts else s for s in selections]
    selections = looking_ahead(selections, target)
    compiled = compile_all(selections, cache, 2)
    if given is None:
        write_artifact(assemble(made, selections, compiled, host), folder / f"{net}.{variant}.tar")
    print(net, variant, len(pairs), "pairs", len(selections), "kernels", round(time.time() - started, 1), "s", flush=True)

def timed(folder, out, commit, nets, turns=10, replays=25):
    from autoq import Session
    import numpy as np
    from transformer_networks.models import FEED_SEED, cases
    result = {"commit": commit, "networks": {}}
    for net in nets:
        paths = {v: folder / f"{net}.{v}.tar" for v in VARIANTS if (folder / f"{net}.{v}.tar").exists()}
        feed = {"input": cases()[net].feed(FEED_SEED)}
        sessions, row = {}, {}
        wanted = None
        for v, path in paths.items():
            try:
                s = Session(path)
                (y,) = s.run(None, feed)
                y = np.asarray(y).copy()
                if v == "base": wanted = y
                row[v] = {"kernels": len(s.plan.calls), "differ": int((y != wanted).sum()), "of": int(y.size),
                          "largest": float(np.abs(y.astype(float) - wanted).max())}
                sessions[v] = s
            except Exception as error:
                row[v] = {"error": repr(error)[:300]}
                print(net, v, "FAILED", repr(error)[:300], flush=True)
        taken = {v: [] for v in sessions}
        for _ in range(turns):
            for v, s in sessions.items():
                taken[v].append(s.run_seconds(replays) * 1e6)
        for v, t in taken.items():
            row[v] |= {"us": round(statistics.median(t), 1), "range_us": [round(min(t), 1), round(max(t), 1)]}
            print(net, v, row[v], flush=True)
        result["networks"][net] = row
        Path(out).write_text(json.dumps(result, indent=1) + "\n")
        for v in sessions:
            layers = {}
            for item in sessions[v].profile():
                key = f"{item.call.template} {item.call.workload}"
                layers.setdefault(key, []).append(item.seconds * 1e6)
            row[v]["alone_us"] = {k: [len(t), round(statistics.median(t), 2)] for k, t in layers.items()}
        Path(out).write_text(json.dumps(result, indent=1) + "\n")

def fill(folder, cache, nets):
    for net in nets:
        made = load(folder, net)
        for variant in VARIANTS:
            prep(folder, net, variant, cache, made)

if __name__ == "__main__":
    verb, folder, *rest = sys.argv[1:]
    if verb == "prep":
        prep(Path(folder), rest[0], rest[1], Path(rest[2]))
    elif verb == "fill":
        fill(Path(folder), Path(rest[0]), rest[1:])
    else:
        timed(Path(folder), rest[0], rest[1], rest[2:])
