"""Statements that finish a thread's outputs in the form of requantisation that operands have."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.thread.short_source import short_forms
from autoq.templates.epilogue.cuda.values.requantisation import Form


def form_choice(epilogue: Epilogue, shortened: bool, form: str, finish: str) -> str:
    """A branch for each form that is faster than clamping, which is the last one.

    shortened: whether operands may allow a short form. form: the expression of the form that they
    have, which is read where outputs saturate. finish: a call, in which NAME is a form's.
    """
    text = "  "
    for one in short_forms(epilogue) if shortened else (Form.PACK, Form.SHIFT):
        own = finish.replace("NAME", one.name)
        text += f"if (SATURATES && {form} == Form::{one.name}){own}  else "
    return text.rstrip() + finish.replace("NAME", Form.CLAMP.name)
