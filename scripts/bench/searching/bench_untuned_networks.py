"""How fast networks are untuned: with defaults alone, and with models of records that choose.

Each network is compiled without any record, with the defaults and with each of the models, all
networks at once; then every output element is compared, and the artifacts of a network are timed in
turn. Writes the times as JSON, a row after each network.

    python scripts/bench/searching/bench_untuned_networks.py --networks googlenet,mobilenet_v2 \
        --knowledge tuning_logs/h200/knowledge.json.xz other.json.xz --output untuned.json
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from autoq import Session
from autoq.devices import require_device, resolve
from autoq.scratch import scratch_folder, sweep

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_tuning import IMAGE, INPUT, Folders, artifacts_of, heading, in_turn, known_networks
from checkout import commit
from make_model import make_network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--networks", default="googlenet,mobilenet_v2")
    parser.add_argument("--batch", type=int, default=8, help="images (8)")
    parser.add_argument("--knowledge", type=Path, nargs="+", required=True, help="models")
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--cache", type=Path, help="folder of kernels that are compiled already")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    networks = known_networks(parser, options.networks)
    result = heading(host, options.commit)
    sweep()
    shape = (options.batch, 3, IMAGE, IMAGE)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    wanted = {"defaults": ["--no-shipped-records"]}
    for path in options.knowledge:
        wanted[path.name.split(".")[0]] = [*wanted["defaults"], "--knowledge", str(path)]
    with scratch_folder() as folder, ThreadPoolExecutor(len(networks)) as pool:
        folders = Folders(folder, folder, options.cache or folder / "kernels")

        def artifacts(network: str) -> list[Path]:
            model = make_network(network, IMAGE, options.models)
            return artifacts_of(model, host, shape, wanted, folders)

        # A list, since nothing is timed while anything compiles.
        for network, found in zip(networks, list(pool.map(artifacts, networks)), strict=True):
            sessions = [Session(one) for one in found]
            outputs = [session.run(None, {INPUT: x})[0] for session in sessions]
            if not all(np.array_equal(outputs[0], output) for output in outputs):
                raise SystemExit(f"{network}: a choice computes something else")
            times = dict(zip(wanted, in_turn(sessions), strict=True))
            row = {"case": f"{network} N{options.batch} {host.target.kind}", "us": times}
            result["cases"].append(row)
            options.output.write_text(json.dumps(result, indent=1) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
