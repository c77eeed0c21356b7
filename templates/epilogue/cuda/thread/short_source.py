"""CUDA source of the short forms of four outputs of a thread, for operands that allow one.

Sums start at what packing adds to the bias, so that an addition makes floats of their bits:
`short_forms/read_sums.py` and `conversion.py`.
"""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import (
    IS_CONVERTED,
    IS_READ,
    WORDS,
)
from autoq.templates.epilogue.cuda.values.requantisation import Form, Requantisation

SHORT_FORMS = (Form.CONVERTED, Form.READ)
"""All short forms of a thread's outputs."""


def short_forms(epilogue: Epilogue) -> tuple[Form, ...]:
    """Those of an epilogue: with a residual `Form.CONVERTED`, by a table `Form.READ`."""
    if epilogue.residual_dtype is not None:
        return (Form.CONVERTED,)
    return (Form.READ,) if epilogue.table else SHORT_FORMS


SHORT_FIELDS = f" float limits[{WORDS}]; const void* lookups;"
"""Of `Channels`: the numbers of the short form, and the long table behind them."""

SHORT_START = f"""
    const float* limits = from.scalars + SCALARS;
    #pragma unroll
    for (int i = 0; i < {WORDS}; ++i) own.limits[i] = __ldg(limits + i);
    own.lookups = limits + {WORDS};
    if (own.limits[0] == {IS_CONVERTED}f) own.form = Form::CONVERTED;
    if (own.limits[0] == {IS_READ}f) own.form = Form::READ;"""
"""Behind the choice among forms for all operands."""

_BRANCH = """ else if constexpr (FORM == Form::NAME) {
    const auto total = [&](int i) { return (int)(acc[i] + bias.word[i]); };
    const auto scale = [&](int i) { return __uint_as_float(own.scale.word[i]); };
    return {SPACE_form::outputs4(total(0), total(1), total(2), total(3), scale(0), scale(1),
                                 scale(2), scale(3), addends.word, own.limits, own.lookups)};
  }"""

_OUTPUTS4 = r"""
__device__ __forceinline__ unsigned outputs4(
    int t0, int t1, int t2, int t3, float s0, float s1, float s2, float s3,
    const unsigned* added, const float* limits, const void* lookups) {
STATEMENTS  return OUTPUTS;
}
"""


def short_outputs(epilogue: Epilogue) -> str:
    """Branches of `outputs`."""
    return "".join(
        _BRANCH.replace("NAME", form.name).replace("SPACE", form.name.lower())
        for form in short_forms(epilogue)
    )


def short_source(epilogue: Epilogue) -> str:
    """`outputs4` of each form, in a namespace of its own."""
    text = ""
    for form in short_forms(epilogue):
        requantisation = Requantisation(epilogue, form)
        totals, scales = [[f"{name}{i}" for i in range(4)] for name in "ts"]
        statements, residuals = requantisation.addends("added", 0, "residual")
        (word,) = requantisation.outputs(totals, scales, residuals)
        lines = "".join(f"{line}\n" for line in statements)
        source = requantisation.source()
        source += _OUTPUTS4.replace("STATEMENTS", lines).replace("OUTPUTS", word)
        text += f"namespace {form.name.lower()}_form {{\n{source.replace('_@', '')}}}\n"
    return text
