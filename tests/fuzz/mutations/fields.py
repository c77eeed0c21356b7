"""Changes of any field of a protobuf message, whatever it means."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fuzz.drawing import Rng, pick
from fuzz.mutations.words import NUMBERS, SIZES, TEXTS


def change_any_field(rng: Rng, model: onnx.ModelProto) -> None:
    """Change any field of any message."""
    message = pick(rng, list(_messages(model)))
    fields = [field for field, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
    field = pick(rng, fields if rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_list(rng, message, field)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _change_list(rng: Rng, message: Message, field: FieldDescriptor) -> None:
    values = getattr(message, field.name)
    kind = int(rng.integers(4))
    if kind == 0 and len(values):
        del values[int(rng.integers(len(values)))]
    elif field.message_type is not None:
        if len(values) and kind < 3:
            values.append(pick(rng, values))
        else:
            values.add()
    elif kind == 1 or not len(values):
        values.append(_value(rng, field))
    else:
        values[int(rng.integers(len(values)))] = _value(rng, field)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                yield from _messages(child)


def _value(rng: Rng, field: FieldDescriptor) -> object:
    kinds = FieldDescriptor
    if field.enum_type is not None:
        return pick(rng, [value.number for value in field.enum_type.values])
    if field.cpp_type == kinds.CPPTYPE_INT64:
        return pick(rng, SIZES)
    if field.cpp_type in (kinds.CPPTYPE_INT32, kinds.CPPTYPE_UINT32, kinds.CPPTYPE_UINT64):
        return int(rng.integers(0, 130))
    if field.cpp_type in (kinds.CPPTYPE_FLOAT, kinds.CPPTYPE_DOUBLE):
        return pick(rng, NUMBERS)
    if field.type == kinds.TYPE_BYTES:
        return rng.bytes(int(rng.integers(0, 64)))
    return pick(rng, TEXTS)
