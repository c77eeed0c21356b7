"""What a source needs of the headers before it, so that nvcc parses tens of lines, not thousands.

A kernel names few of the toolkit's device functions, but nvcc spends more time on the declarations
of all of them than on most kernels. Every declaration of a name comes with any of them: which
overload a call takes does not depend on what is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

_NAME = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'" + r"|[{}();]|[^{}();\"']+")
_BLOCK = re.compile(r'\s*(extern\s*"C"|namespace\s+\w+)\s*\{')
_TYPE = re.compile(r"\s*(typedef|struct|union|enum|class)\b")
_ATTRIBUTE = re.compile(r"\b(__attribute__|alignas|noexcept|throw|__asm__)\s*\(")
_CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(")
_DEFINE = re.compile(r"#define (\w+)")
_DEFINED = re.compile(r"^\s*#\s*define\s+\w+", re.MULTILINE)
_FROM = re.compile(r'# \d+ "([^"]*)"')
_KEYWORDS = frozenset(
    _NAME.findall("""
    alignas asm auto bool char class const constexpr decltype double enum explicit extern float for
    if inline int long namespace noexcept operator return short signed sizeof static struct switch
    template throw typedef typename union unsigned using void volatile while
    __asm__ __extension__ __inline __inline__ __restrict__ __volatile__
    """)
)


class Declarations:
    """Preprocessed headers by declaration; text is what `gcc -E -dD` prints of them."""

    def __init__(self, text: str) -> None:
        self._macros, code = _without_directives(text)
        self._texts = list(_split(code))
        self._names = [frozenset(_NAME.findall(item)) - _KEYWORDS for item in self._texts]
        self._numbers: dict[str, list[int]] = defaultdict(list)
        for number, item in enumerate(self._texts):
            for name in _declared(item) - _KEYWORDS:
                self._numbers[name].append(number)

    def needed(self, source: str) -> str:
        """Those that a source names, those that they name in turn, and so on, in their order."""
        # TVM gives functions that only older architectures lack as macros, named nowhere else.
        pending, seen = set(_NAME.findall(_DEFINED.sub("", source))), set()
        macros: list[str] = []
        kept: set[int] = set()
        while pending:
            name = pending.pop()
            seen.add(name)
            if name in self._macros:
                macros.append(self._macros[name])
                pending |= set(_NAME.findall(self._macros[name])) - seen
            for number in self._numbers.get(name, ()):
                if number not in kept:
                    kept.add(number)
                    pending |= self._names[number] - seen
        return "\n".join([*sorted(macros), *(self._texts[number] for number in sorted(kept)), ""])


def _without_directives(text: str) -> tuple[dict[str, str], str]:
    """Macros that are defined at the end, but for the compiler's own, and the lines of code."""
    macros: dict[str, str] = {}
    code: list[str] = []
    own = False
    for line in text.splitlines():
        if not line.startswith("#"):
            code.append(line)
        elif found := _FROM.match(line):
            own = found[1].startswith("<")
        elif (found := _DEFINE.match(line)) and not own:
            macros[found[1]] = line
        elif line.startswith("#undef "):
            macros.pop(line.split()[1], None)
    return macros, "\n".join(line for line in code if line.strip())


def _split(code: str, before: str = "", behind: str = "") -> Iterator[str]:
    """Declarations one by one, those of a block each in a block of its own."""
    start = depth = parentheses = 0
    for token in _TOKEN.finditer(code):
        mark, end = token[0], token.end()
        depth += (mark == "{") - (mark == "}")
        parentheses += (mark == "(") - (mark == ")")
        if depth or parentheses or mark not in ("}", ";"):
            continue
        if mark == "}" and (_TYPE.match(code, start) or code[end : end + 9].lstrip()[:1] == ";"):
            continue  # what follows belongs to it
        block = _BLOCK.match(code, start, end)
        if block:
            yield from _split(code[block.end() : end - 1], before + block[0].strip(), "}" + behind)
        else:
            yield before + code[start:end].strip() + behind
        start = end


def _declared(item: str) -> set[str]:
    """Names that a declaration may introduce, or more."""
    head = item
    while block := _BLOCK.match(head):
        head = head[block.end() :]
    if re.match(r"\s*(typedef\s+)?enum\b", head):
        return set(_NAME.findall(head))
    body = head.find("{")
    tail = head[head.rfind("}", 0, len(head.rstrip("}"))) + 1 :] if _TYPE.match(head) else ""
    head = _without_attributes(head if body < 0 else head[:body])
    called = None if _TYPE.match(head) else _CALLED.findall(head)
    return set(called or _NAME.findall(head)) | set(_NAME.findall(tail))


def _without_attributes(head: str) -> str:
    """A declaration without what stands in parentheses behind `__attribute__` and the like."""
    while found := _ATTRIBUTE.search(head):
        end, depth = found.end(), 1
        while depth and end < len(head):
            depth += (head[end] == "(") - (head[end] == ")")
            end += 1
        head = head[: found.start()] + head[end:]
    return head
