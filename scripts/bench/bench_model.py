"""Times a quantised network against torch in one run and writes scripts/results/*.json.

Every output is first compared with onnxruntime's integer kernels; it has none for 4 bits, so these
are compared with the same model compiled for this CPU. Times are medians over CUDA-graph replays
with inputs on the device.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from autoq import Session, compile
from autoq.devices import Host, require_device, resolve

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from make_model import BITS, make_network

IMAGE = 224
INPUT = "input"
_TITLES = {
    "resnet50": "ResNet-50",
    "efficientnet_b0": "EfficientNet-B0",
    "shufflenet_v2": "ShuffleNet-V2",
}
"""Networks as results name them."""
_TORCHVISION = {
    "resnet50": "resnet50",
    "efficientnet_b0": "efficientnet_b0",
    "shufflenet_v2": "shufflenet_v2_x1_0",
}
"""The same networks by torchvision's names."""


def reference(model: Path, x: np.ndarray, integer: bool) -> np.ndarray:
    """onnxruntime's logits, by its integer kernels or by its float32 emulation of the QDQ graph.

    The emulation (ORT_DISABLE_ALL) rounds its float32 sums: 5e-6 of a layer's values land on the
    other side of a tie, and fifty layers of random weights spread that over many elements: with 4
    bits over most logits.
    """
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if integer else levels.ORT_DISABLE_ALL
    # Without it, integer products saturate on CPUs that lack VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    images = (x[index : index + 1] for index in range(len(x)))  # the model's own batch is 1
    return np.concatenate([session.run(None, {INPUT: image})[0] for image in images])


def cpu_outputs(model: Path, x: np.ndarray, folder: Path) -> np.ndarray:
    """Logits [n, 1000] float32 of images x [n, 3, 224, 224], by the model compiled for this CPU."""
    artifact = folder / f"{model.stem}.cpu.tar"
    compile(model, target="cpu", output=artifact)
    session = Session(artifact)
    return np.concatenate([session.run(None, {INPUT: image[None]})[0] for image in x])


def output_step(model: Path) -> float:
    """Scale of the quantisation nearest to the model's output."""
    import onnx

    graph = onnx.load(str(model)).graph
    values = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    last = next(node for node in reversed(graph.node) if node.op_type == "DequantizeLinear")
    return float(values[last.input[1]].max())


def autoq_case(
    model: Path, bits: int, batch: int, host: Host, records: list[Path], cache: Path
) -> dict[str, Any]:
    """Compile, check every output element, time."""
    artifact = cache / f"{model.stem}.n{batch}.tar"
    started = time.perf_counter()
    report = compile(
        model,
        target=host,
        output=artifact,
        tuning_records=records,
        input_shapes={INPUT: (batch, 3, IMAGE, IMAGE)},
        cache_dir=cache / "kernels",
    )
    compile_seconds = time.perf_counter() - started
    session = Session(artifact)
    x = np.random.default_rng(1).standard_normal((batch, 3, IMAGE, IMAGE), np.float32)
    (y,) = session.run(None, {INPUT: x})
    eight = bits == 8
    expected = reference(model, x, integer=True) if eight else cpu_outputs(model, x, cache)
    step = output_step(model)
    error = float(np.abs(y - expected).max()) / step
    emulated = reference(model, x, integer=False)
    emulation_error = float(np.abs(y - emulated).max()) / step
    allowed = 0.01
    if eight:  # onnxruntime's own two ways differ by more steps where activations are not clamped
        allowed = max(1.01, float(np.abs(expected - emulated).max()) / step)
    if error > allowed:
        raise SystemExit(f"batch {batch}: an output is {error:.2f} quantisation steps off")
    host_us = host_seconds(session) * 1e6 if host.target.kind == "cuda" else None
    return {
        "case": f"{_TITLES[model.name.split('.')[0]]} N{batch} {IMAGE}x{IMAGE} int{bits}",
        "autoq_us": session.run_seconds(200) * 1e6,
        "host_us_a_call": host_us,
        "reference": "onnxruntime" if eight else "autoq on the CPU",
        "max_error_steps": error,
        "max_error_steps_of_float_emulation": emulation_error,
        "allowed_error_steps": allowed,
        "top1_agreement": float((y.argmax(1) == expected.argmax(1)).mean()),
        "kernels": len(report.calls),
        "untuned_layers": len(report.untuned),
        "packed_layers": len(report.packed),
        "compile_seconds": compile_seconds,
        "layers": [
            {
                "layer": item.call.layer,
                "workload": item.call.workload,
                "template": item.call.template,
                "source": item.call.source,
                "us": item.seconds * 1e6,
                "roofline_us": item.call.roofline_seconds * 1e6,
            }
            for item in session.profile()
        ],
    }


def host_seconds(session: Session) -> float:
    """Median host time of a call whose input lies in the session's own device buffer."""
    feeds = {INPUT: session.buffer(INPUT)}
    samples = []
    for _ in range(50):
        session.run_seconds(1)  # drains the queue, so that a call never waits for the GPU
        started = time.perf_counter()
        session.run(None, feeds)
        samples.append(time.perf_counter() - started)
    return statistics.median(samples)


def torch_cases(network: str, batch: int, compiled: bool) -> dict[str, float | str]:
    """Microseconds of torch fp16 channels_last, by CUDA graph and by torch.compile."""
    import torch
    import torchvision

    torch.manual_seed(0)
    model = getattr(torchvision.models, _TORCHVISION[network])().eval().half().cuda()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, IMAGE, IMAGE, device="cuda", dtype=torch.half)
    x = x.to(memory_format=torch.channels_last)
    times: dict[str, float | str] = {}
    with torch.inference_mode():
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(x)
        times["torch_fp16_cuda_graph"] = device_us(graph.replay)
        if compiled:
            fast = torch.compile(model, mode="reduce-overhead")
            for _ in range(5):
                fast(x)
            times["torch_fp16_compile_reduce_overhead"] = device_us(lambda: fast(x))
    return times


def device_us(work: Callable[[], Any], repeat: int = 100) -> float:
    """Median microseconds of `work` by CUDA events."""
    import torch

    for _ in range(10):
        work()
    samples = []
    for _ in range(repeat):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        samples.append(start.elapsed_time(stop) * 1e3)
    return statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--batches", default="1,8,128")
    parser.add_argument("--model", default="resnet50", choices=sorted(_TITLES))
    parser.add_argument("--bits", type=int, default=8, choices=BITS, help="of the inner layers")
    parser.add_argument("--tuning-records", type=Path, action="append", default=[])
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--output", type=Path, help="scripts/results/<model>_h200.json by default")
    parser.add_argument("--no-peers", action="store_true", help="time autoq alone")
    parser.add_argument("--no-torch-compile", action="store_true", help="skip torch.compile")
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    model = make_network(options.model, IMAGE, options.models, options.bits)
    output = options.output or Path(f"scripts/results/{options.model}_h200.json")
    result: dict[str, Any] = {
        "device": host.device,
        "driver_cuda": host.driver,
        "date": datetime.date.today().isoformat(),
        "commit": options.commit,
        "cases": [],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    for batch in map(int, options.batches.split(",")):
        case = autoq_case(model, options.bits, batch, host, options.tuning_records, options.models)
        peers = (
            {}
            if options.no_peers
            else torch_cases(options.model, batch, not options.no_torch_compile)
        )
        case["peers"] = {name: value for name, value in peers.items()}
        result["cases"].append(case)
        output.write_text(json.dumps(result, indent=1) + "\n")
        shown = "  ".join(f"{name} {value:.0f} us" for name, value in peers.items())
        print(
            f"{case['case']}: autoq {case['autoq_us']:.0f} us  {shown}  "
            f"(error {case['max_error_steps']:.2f} steps, {case['untuned_layers']} untuned layers)",
            flush=True,
        )


if __name__ == "__main__":
    main()
