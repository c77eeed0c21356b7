"""CUDA source of the short forms of four outputs of a thread, for operands that allow one.

Sums start at what packing adds to the bias, so that an addition makes floats of their bits:
`short_forms/read_sums.py` and `conversion.py`.
"""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import (
    IS_CONVERTED,
    IS_READ,
    READ,
    WORDS,
)
from autoq.templates.epilogue.cuda.values.requantisation import Form, Requantisation

SHORT_FORMS = (Form.CONVERTED, Form.READ)


def short_forms(epilogue: Epilogue) -> tuple[Form, ...]:
    """Those of an epilogue: by a table `Form.READ` alone, which selects entries of a long one."""
    return (Form.READ,) if epilogue.table else SHORT_FORMS


SHORT_FIELDS = " float last, turned; const void* lookups;"
"""Of `Channels`: the words of `words.READ` that are read, and the long table."""

_FIRST = {name: place // 4 for name, (_, place) in (READ.fields or {}).items()}
SHORT_START = f"""
    const float* limits = from.scalars + SCALARS;
    const float kind = __ldg(limits);
    own.last = __ldg(limits + {_FIRST["zero_point"]});
    own.turned = __ldg(limits + {_FIRST["turned"]});
    own.lookups = limits + {WORDS};
    if (kind == {IS_CONVERTED}f) own.form = Form::CONVERTED;
    if (kind == {IS_READ}f) own.form = Form::READ;"""
"""Behind the choice among forms for all operands."""

_BRANCH = (
    """ else if constexpr (FORM == Form::NAME) {
    float limits[LIMITS] = {};
    limits[ZERO_POINT] = own.last, limits[TURNED] = own.turned;
    const auto total = [&](int i) { return (int)(acc[i] + bias.word[i]); };
    const auto scale = [&](int i) { return __uint_as_float(own.scale.word[i]); };
    return {SPACE_form::outputs4(total(0), total(1), total(2), total(3),
                                 scale(0), scale(1), scale(2), scale(3), limits, own.lookups)};
  }""".replace("LIMITS", str(WORDS))
    .replace("ZERO_POINT", str(_FIRST["zero_point"]))
    .replace("TURNED", str(_FIRST["turned"]))
)

_OUTPUTS4 = r"""
__device__ __forceinline__ unsigned outputs4(
    int t0, int t1, int t2, int t3, float s0, float s1, float s2, float s3, const float* limits,
    const void* lookups) {
  return OUTPUTS;
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
        (word,) = requantisation.outputs(totals, scales, ["0.f"] * 4)
        source = requantisation.source() + _OUTPUTS4.replace("OUTPUTS", word)
        text += f"namespace {form.name.lower()}_form {{\n{source.replace('_@', '')}}}\n"
    return text
