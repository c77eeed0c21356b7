"""Numbers with units, and aligned text tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def duration(seconds: float | None) -> str:
    """A kernel's time in microseconds: "12.3 us"; "-" for None."""
    if seconds is None:
        return "-"
    microseconds = seconds * 1e6
    return f"{microseconds:,.0f} us" if microseconds >= 1000 else f"{microseconds:.3g} us"


def clock(seconds: float | None) -> str:
    """A span for people: "45 s", "3 min 20 s", "2 h 5 min"; "?" for None."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def tera(value: float | None) -> str:
    """Operations a second, given in 10**12: "1,560", "812", "0.214"; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def counted(number: int, thing: str) -> str:
    """A number of things: "1 trial", "24 trials"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def share(value: float | None) -> str:
    """A share in per cent: "63%"; "-" for None."""
    return "-" if value is None else f"{value:.0%}"


def knobs_text(knobs: Mapping[str, object]) -> str:
    """Knobs as records have them: "block_n=64 team=(consumers=2, cooperative=True)"."""
    return " ".join(_knobs(knobs))


def knob_lines(knobs: Mapping[str, object], width: int = 100) -> list[str]:
    """The same in indented lines of at most `width` characters, where a knob has no more."""
    lines = [" "]
    for knob in _knobs(knobs):
        if len(lines[-1]) + 1 + len(knob) > width and lines[-1].strip():
            lines.append(" ")
        lines[-1] += f" {knob}"
    return lines


def _knobs(knobs: Mapping[str, object]) -> list[str]:
    return [f"{name}={_knob(value)}" for name, value in knobs.items()]


def _knob(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name}={_knob(part)}' for name, part in value.items())})"
    return str(value)


def counts(reasons: Mapping[str, int]) -> str:
    """Counts by reason, most frequent first: "7 compile, 2 timeout"; "none" without any."""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ranked if count) or "none"


def table(header: Sequence[str], rows: Sequence[Sequence[object]], left: Sequence[str]) -> str:
    """Rows under a header; the columns named in `left` are aligned left, the others right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *map(line, cells)])
