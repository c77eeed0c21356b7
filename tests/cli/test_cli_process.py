"""The installed command in a process of its own."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from trial_records import trials_of

from autoq.records import read_records

COMMAND = str(Path(sys.executable).with_name("autoq"))


@pytest.fixture
def environment(kernel_cache):
    return {**os.environ, "AUTOQ_CACHE_DIR": str(kernel_cache)}


def _run(*arguments, **options):
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


def test_version_and_help_are_quick_and_plain():
    done = _run("--version")
    assert done.returncode == 0 and done.stdout.startswith("autoq "), done
    done = _run("tune", "--help")
    assert done.returncode == 0 and "--trials" in done.stdout, done
    assert "\x1b" not in done.stdout


def test_a_mistake_is_one_line_and_code_2(tmp_path):
    (tmp_path / "text.onnx").write_text("hello")
    done = _run("compile", "text.onnx", "-o", "m.tar", "--target", "cpu", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("autoq: text.onnx: not an ONNX file")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text.onnx"]


def test_a_cpu_needs_no_compiler_on_the_path(tmp_path, model, environment):
    bare = {**environment, "PATH": "", "AUTOQ_CACHE_DIR": str(tmp_path / "cache")}
    done = _run("compile", model, "-o", "m.tar", "--target", "cpu", cwd=tmp_path, env=bare)
    assert done.returncode == 0, done
    done = _run("run", "m.tar", cwd=tmp_path, env=bare)
    assert (done.returncode, done.stdout) == (0, "y: float32 [1, 10]\n"), done


def test_running_imports_neither_onnx_nor_a_compiler(tmp_path, artifact, environment):
    code = """
        import sys
        for name in ("onnx", "onnxruntime", "xgboost", "autoq.kernel", "autoq.frontend"):
            sys.modules[name] = None
        from autoq.cli import main
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), "run", str(artifact), "--profile"],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env={**environment, "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("y: float32 [1, 10]\n"), done


def test_an_interrupted_tuning_keeps_its_records_and_goes_on(tmp_path, model, environment, autoq):
    arguments = ["tune", model, "--target", "cpu", "-o", "m.jsonl", "--trials"]
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments), "4000"],
        cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    log = tmp_path / "m.jsonl"
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        if log.exists() and log.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130 and "interrupted after" in out, (out, err)
    assert "Traceback" not in err
    kept = len(read_records(log).records)
    assert kept >= 2
    done = autoq(*arguments, kept + 2, "--jobs", 1)
    assert done.code == 0 and f"{kept} of them in the output already" in done.out, done
    assert len(trials_of(log)) == kept + 2


def test_a_reader_that_goes_away(tmp_path, model, environment):
    process = subprocess.Popen(
        [COMMAND, "tune", model, "--target", "cpu", "--tasks", "list"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=600) == 1 and err == "", err


def test_closed_streams(tmp_path, artifact, environment):
    line = f'"{COMMAND}" run "{artifact}" --outputs out.npz >&- 2>&- <&-'
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0 and (tmp_path / "out.npz").exists()


def test_too_small_a_limit_on_memory_is_one_line(tmp_path, model, environment):
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v 400000; exec {COMMAND} tune {model} --target cpu -o m.jsonl"],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("autoq: tune: the limit of 390 MiB on memory (ulimit -v) is too")
    assert done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())
