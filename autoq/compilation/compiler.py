"""Compiles a model: every node gets a kernel, and the report says where its choice came from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from autoq import frontend, graph
from autoq.compilation.assembly import assemble
from autoq.compilation.layout_times import LayoutTimes
from autoq.compilation.look_ahead import looking_ahead
from autoq.compilation.options import make_options
from autoq.compilation.selection import Selection, TemplateSelection, select
from autoq.compilation.zero_choices import zero_choices
from autoq.devices import Host, resolve
from autoq.errors import BuildError
from autoq.frontend.read import require_other_than_model
from autoq.graph.float_kernels import FloatKernels, float_kernels
from autoq.graph.ir import Graph, Layer
from autoq.graph.lowering.layouts import choose_layouts
from autoq.graph.passes.dtypes.storage import layers_by_storage
from autoq.graph.precision import make_precision
from autoq.knowledge.shipped import known_models
from autoq.measure.job import load_registry
from autoq.paths import as_path, require_other, require_writable
from autoq.records.database import Conditions, Database
from autoq.records.lookup import template_versions
from autoq.runtime.artifact import write_artifact
from autoq.runtime.kernel import Kernel
from autoq.runtime.plan import Call
from autoq.scratch import sweep
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class CompileReport:
    """What was compiled, layer by layer, and what records were not used.

    calls name the kernel of every layer and its source: a record file, a shipped one, "predicted"
    or "default". skipped counts records that do not fit this device or these templates, by reason.
    unquantised are layers between quantised tensors that compute in float32, each with its reason.
    packed are layers that hold all their 4-bit values two a byte, widened those that hold some of
    them one a byte because the kernels of the target take bytes there.
    layouts counts convolutions by the layouts they read and write, such as ("NHWC", "NHWCnc");
    relayouts are the copies between them. precisions are layers that compute floats
    through integers, as was asked for, each with its bits and correction. floats counts kernels
    that compute with floats and names where the model leaves integers. zeros are layers whose
    weight has a pattern of zeros that kernels make use of, each with the choice and why. lent
    counts layers that run on shipped records of another device of the same chip, by device.
    """

    path: Path
    host: Host
    calls: tuple[Call, ...]
    skipped: Mapping[str, int]
    unquantised: Mapping[str, str]
    packed: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    layouts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    relayouts: int = 0
    precisions: Mapping[str, str] = field(default_factory=dict)
    floats: FloatKernels = field(default_factory=FloatKernels)
    zeros: Mapping[str, str] = field(default_factory=dict)
    lent: Mapping[str, int] = field(default_factory=dict)

    @property
    def untuned(self) -> tuple[Call, ...]:
        """Layers that could be tuned but run on an untuned default."""
        return tuple(call for call in self.calls if call.source == "default")

    @property
    def predicted(self) -> tuple[Call, ...]:
        """Layers without a record whose kernel a model of records chose."""
        return tuple(call for call in self.calls if call.source == "predicted")


def compile(
    model: str | os.PathLike[str] | Graph,
    *,
    target: str | Host = "auto",
    output: str | os.PathLike[str],
    tuning_records: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    use_shipped_records: bool = True,
    **options: object,
) -> CompileReport:
    """Compile an ONNX model (a path, or a graph of `autoq.frontend.load`) to an artifact.

    The best usable record of `tuning_records` (`Database.ranked`) decides a layer's kernel;
    without one the shipped records do (`use_shipped_records`), else a model of records of the
    device (`knowledge`), else the template's untuned default. Records also choose the layouts of
    activations (`graph.lowering.layouts`). `options` are the fields of
    `compilation.options.CompileOptions`. Threads may compile side by side.

    Raises ModelError, InputError, RecordError or TargetError for what the user gave, BuildError
    when an untuned kernel does not compile, EnvironmentFault or CompilerDied for what the machine
    does wrong.
    """
    out = as_path(output)
    require_writable(out)
    settings = make_options(options)
    templates = list(load_registry(settings.registry).values())
    sweep()
    host = target if isinstance(target, Host) else resolve(target)
    database = Database.load(tuning_records, shipped=use_shipped_records)
    given = [tuning_records] if isinstance(tuning_records, str | os.PathLike) else tuning_records
    require_other(out, *given, settings.knowledge, host.target.source)
    loaded = model if isinstance(model, Graph) else frontend.load(model, input_shapes)
    if not isinstance(model, Graph):
        require_other_than_model(out, model)
    precision = make_precision(settings.precision, settings.threshold, settings.tolerance)
    plain = graph.optimise(loaded, host.target, templates, precision)
    kernels = choose_layouts(plain, LayoutTimes(host, database, templates))
    models = known_models(settings.knowledge, use_shipped_records)
    selections = [select(node, host, database, templates, models) for node in kernels.nodes]
    selections = looking_ahead(selections, host.target)
    compiled = compile_all(selections, settings.cache_dir, settings.threads)
    artifact = assemble(kernels, selections, compiled, host)
    write_artifact(artifact, out)
    conditions = Conditions(host.target.arch, host.device, template_versions(templates))
    layers = [node for node in kernels.nodes if isinstance(node, Layer)]
    reasons = {node.name: node.float_reason for node in layers}
    return CompileReport(
        out,
        host,
        artifact.plan.calls,
        database.skipped(conditions),
        {name: reason for name, reason in reasons.items() if reason},
        *layers_by_storage(kernels),
        Counter(_ends(layer.workload) for layer in layers if layer.workload.has_layouts),
        len(kernels.nodes) - len(plain.nodes),
        {node.name: node.precision for node in layers if node.precision},
        float_kernels(kernels),
        zero_choices(selections, host, database, templates),
        Counter(
            one.lender for one in selections if isinstance(one, TemplateSelection) and one.lender
        ),
    )


def _ends(workload: Workload) -> tuple[str, str]:
    """The layouts of a workload's first input and output."""
    return workload.inputs[0].layout, workload.outputs[0].layout


def compile_all(
    selections: Sequence[Selection], cache_dir: Path | None, jobs: int
) -> dict[Hashable, Kernel]:
    """Machine code for every distinct kernel, by its selection's key, several at once."""
    distinct = {selection.key: selection for selection in selections}

    def build(selection: Selection) -> Kernel:
        try:
            return selection.compiled(cache_dir)
        except BuildError as error:
            raise BuildError(
                f"layer {selection.node.name!r} ({selection.template}): {error}"
            ) from error

    with ThreadPoolExecutor(jobs) as pool:
        # nvcc runs outside Python's lock; TVM's own lowering takes turns under it.
        return dict(zip(distinct, pool.map(build, distinct.values()), strict=True))
