"""Which short forms of requantisation an epilogue allows, whatever its operands."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue


def boundable(epilogue: Epilogue) -> bool:
    """Whether `Form.BOUNDED` can compute it: bytes out, and a residual that is added, if any."""
    added = epilogue.residual_dtype != "float32" and not epilogue.concatenates
    added = added and epilogue.of_convolutions
    return epilogue.out_dtype in ("int8", "uint8") and added


def convertible(epilogue: Epilogue) -> bool:
    """Whether `Form.CONVERTED` can: bytes out, no residual or one behind a requantisation.

    `Form.READ` selects entries of a table without a residual in fewer instructions.
    """
    plain = epilogue.residual_dtype is None and not epilogue.table
    return boundable(epilogue) and (plain or epilogue.requantize_before_add)


def readable(epilogue: Epilogue) -> bool:
    """Whether `Form.READ` can: bytes out and no residual."""
    return boundable(epilogue) and epilogue.residual_dtype is None
