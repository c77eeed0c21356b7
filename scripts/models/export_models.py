"""Writes networks of random weights by torch's exporters to ONNX files, for check_models.py.

    python scripts/models/export_models.py build/models --names vit,swin --opsets 13,17,18

Needs torch, onnx and onnxscript alone, not autoq. Each network is written by the older exporter
(`dynamo=False`, in the opset asked for) and by the newer one (`dynamo=True`, opset 18 and more), in
float32 and float16. Batch normalisations have seen some images. Beside each file lie its inputs,
`<name>.npz`. A file that is there already is left as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from torch_networks.classifiers import Mixer, convnext, densenet, mobilevit, resnest, vit
from torch_networks.detector import Detector
from torch_networks.language import VOCABULARY, Bert, Decoder
from torch_networks.layers import FUSED_ATTENTION_OPSET, Attended
from torch_networks.pixel_networks import Fcn, LrAspp, UNet
from torch_networks.swin import Swin

PAST, LENGTH = 12, 20
NEWER_OPSET = 18
"""First opset that the newer exporter writes without converting."""


@dataclass(frozen=True)
class Network:
    """How to make a network and its inputs, the names of these, and the image's extents."""

    make: Callable[[bool], nn.Module]
    image: int = 64
    inputs: tuple[str, ...] = ("input",)

    def feeds(self, module: nn.Module, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """Inputs of float32 and int64."""
        rng = torch.Generator().manual_seed(seed)
        if self.inputs == ("input",):
            return (torch.randn(1, 3, self.image, self.image, generator=rng),)
        if "past0.key" in self.inputs:
            heads, size = module.shape
            count = 2 * len(module.layers)
            tokens = torch.randint(VOCABULARY, (1, 1), generator=rng)
            past = [torch.randn(1, heads, PAST, size, generator=rng) for _ in range(count)]
            return (tokens, torch.full((1, 1), PAST), *past)
        tokens = torch.randint(VOCABULARY, (2, LENGTH), generator=rng)
        mask = torch.ones(2, LENGTH, dtype=torch.int64)
        mask[1, LENGTH // 2 :] = 0
        return tokens, mask, (torch.arange(LENGTH) > LENGTH // 3).long().expand(2, -1).contiguous()


NETWORKS = {
    "vit": Network(vit),
    "convnext": Network(convnext),
    "bert": Network(lambda full: Bert(full, LENGTH), inputs=("tokens", "mask", "segments")),
    "swin": Network(Swin, 72),
    "mixer": Network(lambda full: Mixer(full, 96), 96),
    "mobilevit": Network(mobilevit),
    "densenet": Network(densenet),
    "resnest": Network(resnest),
    "unet_transposed": Network(lambda full: UNet(full, True)),
    "unet_resized": Network(lambda full: UNet(full, False), 72),
    "fcn": Network(Fcn),
    "lraspp": Network(LrAspp, 96),
    "detector": Network(Detector),
    "decoder": Network(Decoder, inputs=("tokens", "places", "past0.key")),
}


def trained(network: Network, full: bool) -> nn.Module:
    """A network with random weights whose batch normalisations have seen images."""
    torch.manual_seed(0)
    module = network.make(full)
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.2)
        norm.momentum = None  # an average of all that is seen
    if norms:
        with torch.no_grad():
            for _ in range(3):
                module(torch.randn(8, 3, network.image, network.image))
    return module.eval()


def written(
    module: nn.Module, feeds: tuple[torch.Tensor, ...], names: list[str], path: Path, newer: bool,
    opset: int,
) -> None:  # fmt: skip
    """One ONNX file by one exporter."""
    unfinished = path.with_suffix(".unfinished")
    Attended.spelled_out = opset < FUSED_ATTENTION_OPSET
    with (
        warnings.catch_warnings(),
        torch.no_grad(),
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),  # a failing export prints its graph
    ):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, feeds, str(unfinished), opset_version=opset, dynamo=newer, input_names=names,
            verbose=False, **({"external_data": False} if newer else {}),
        )  # fmt: skip
    unfinished.rename(path)


def export(name: str, folder: Path, full: bool, opset: int, newer: bool, half: bool) -> str:
    """Write one network; the file's stem, or why the exporter failed."""
    network = NETWORKS[name]
    size, kind = "full" if full else "small", "dynamo" if newer else "legacy"
    stem = f"{name}.{size}.{kind}{opset}" + (".float16" if half else "")
    path = folder / f"{stem}.onnx"
    if path.exists():
        return stem
    module = trained(network, full)
    feeds = network.feeds(module)
    if half:
        module = module.half()
        feeds = tuple(part.half() if part.is_floating_point() else part for part in feeds)
    names = list(network.inputs)
    if name == "decoder":
        names = ["tokens", "places"]
        for layer in range(len(module.layers)):
            names += [f"past{layer}.key", f"past{layer}.value"]
    try:
        written(module, feeds, names, path, newer, opset)
    except Exception as error:  # an exporter's failures have no common class
        return f"{stem}: not exported ({type(error).__name__}: {str(error).splitlines()[0]:.150})"
    np.savez(folder / f"{stem}.npz", **dict(zip(names, (f.numpy() for f in feeds), strict=True)))
    return stem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", default=",".join(NETWORKS))
    parser.add_argument("--opsets", default="13,14,15,16,17,18")
    parser.add_argument("--sizes", default="small")
    parser.add_argument("--exporters", default="legacy,dynamo")
    parser.add_argument("--dtypes", default="float32,float16")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names.split(","):
        for size in options.sizes.split(","):
            for dtype in options.dtypes.split(","):
                for exporter in options.exporters.split(","):
                    for opset in map(int, options.opsets.split(",")):
                        newer = exporter == "dynamo"
                        if newer and opset < NEWER_OPSET:
                            continue
                        half = dtype == "float16"
                        print(export(name, options.folder, size == "full", opset, newer, half))
                        sys.stdout.flush()


if __name__ == "__main__":
    main()
