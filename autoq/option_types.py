"""The types of options that callers of the Python API give."""

from __future__ import annotations

import dataclasses
import numbers
import typing
from typing import Any

from autoq.errors import InputError

_PLAIN = {bool: bool, int: numbers.Integral, float: numbers.Real, str: str, tuple: (tuple, list)}
_WORDS = {bool: "True or False", int: "an integer", float: "a number", str: "text", tuple: "names"}


def require_types(options: Any) -> None:
    """Raise InputError unless a dataclass's numbers, flags, texts and tuples are what they say.

    Fields of other types pass.
    """
    hints = typing.get_type_hints(type(options))
    for field in dataclasses.fields(options):
        value, hint = getattr(options, field.name), hints[field.name]
        kinds = [typing.get_origin(one) or one for one in typing.get_args(hint) or (hint,)]
        if typing.get_origin(hint) is tuple:
            kinds = [tuple]
        wanted = [kind for kind in kinds if kind in _PLAIN]
        if not wanted or (value is None and type(None) in kinds):
            continue
        flag = isinstance(value, bool) and bool not in wanted
        if flag or not any(isinstance(value, _PLAIN[kind]) for kind in wanted):
            words = " or ".join(_WORDS[kind] for kind in wanted)
            raise InputError(f"{field.name} {value!r:.80}: {words} is expected")
