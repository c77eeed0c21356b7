"""Float32 models through integers on the command line."""

import re


def test_tasks_are_those_of_integers(autoq, float_model):
    asked = ("--precision", "residual8", "--threshold", "inf", "--tasks", "list")
    screen = autoq("tune", float_model, "--target", "cpu", *asked)
    assert screen.code == 0
    operators = re.findall(r"^ +\d+ +(\w+)", screen.out, re.MULTILINE)
    assert sorted(operators) == ["conv2d", "residual_gemm"]
    assert "float32 int8" not in screen.out and re.search("conv2d.* u?int8 int8", screen.out)


def test_compile_says_which_layers(autoq, float_model, folder):
    asked = ("--precision", "residual8", "--tolerance", "1e-3")
    screen = autoq("compile", float_model, "--target", "cpu", "-o", "made.tar", *asked)
    assert screen.code == 0 and (folder / "made.tar").exists()
    for layer in ("conv", "fc"):
        assert re.search(f"^{layer} computes floats through integers: 8 bits, ", screen.out, re.M)
    assert "relu" not in re.findall(r"^(\w+) multiplies", screen.out, re.MULTILINE)
