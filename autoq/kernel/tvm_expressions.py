"""Expressions of TVM's kernels, evaluated as they stand.

TVM 0.27 makes a name of every part's value, a new expression of these names, and one of Python's of
that. Here a part's value is what the next one takes. What is not known here is left to TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import DataTypeCode
from tvm.ir import is_prim_expr
from tvm.runtime import Object
from tvm.script.parser.core import doc, evaluator
from tvm.script.parser.core.error import ParserError
from tvm.tirx.op import if_then_else

# A macro finds its parser among the globals of its callers, so that calls have to be evaluated.
_CALL = compile("__autoq_function(*__autoq_values, **__autoq_named)", "<autoq>", "eval")
_NUMBERS = (int, float, bool)
_OF_REGIONS = (None, "reads", "writes", "match_buffer")
_Slow = Callable[..., Any]


def evaluate(slow: _Slow, parser: Any, table: dict[str, Any], node: Any) -> Any:
    """The value of an expression, whose names `table` has; `slow` is TVM's own evaluation."""
    if parser is None:
        return slow(parser, table, node)
    return _Evaluation(slow, parser, table).value(node)


def assigned(slow: _Slow, target: Any, source: Any) -> dict[str, Any]:
    """What an assignment gives each of its names; `slow` is TVM's own."""
    return {target.id: source} if type(target) is doc.Name else slow(target, source)


class _Evaluation:
    """The evaluation of one expression.

    As TVM does, it has the place of a part in the source in force while the part is computed, and
    complains of what fails at that place.
    """

    def __init__(self, slow: _Slow, parser: Any, table: dict[str, Any]) -> None:
        self.slow, self.parser, self.table = slow, parser, table

    def value(self, node: Any) -> Any:
        """Of a part of the expression."""
        kind = type(node)
        if kind is doc.Constant:
            return node.value
        if kind is doc.Name:
            return self.named(node)
        rule = _RULES.get(kind)
        return self.left(node) if rule is None else rule(self, node)

    def named(self, node: Any) -> Any:
        if node.id in self.table:
            return self.table[node.id]
        found = evaluator._get_builtin_or_none(node.id)
        if not found:
            raise ParserError(node, f"Undefined variable: {node.id}")
        return found

    def left(self, node: Any) -> Any:
        """What TVM evaluates a part to."""
        return self.slow(self.parser, self.table, node)

    def at(self, node: Any, compute: Callable[..., Any], *values: Any) -> Any:
        """What is computed of a part, with its place in the source."""
        parser = self.parser
        try:
            with parser.with_source_span(node):
                found = compute(*values)
                return parser.annotate_current_source_span(found)
        except Exception as error:  # whatever the code of a kernel raises
            return parser.report_error(node, error)

    def attribute(self, node: Any) -> Any:
        of = self.value(node.value)
        try:
            found = getattr(of, node.attr)
        except Exception as error:  # whatever a property raises
            return self.parser.report_error(node, error)
        return self.at(node, _same, found) if isinstance(found, Object) else found

    def subscript(self, node: Any) -> Any:
        of, index = self.value(node.value), self.value(node.slice)
        return self.at(node, _entry, of, index)

    def call(self, node: Any) -> Any:
        if getattr(node.func, "attr", None) not in _OF_REGIONS:
            _give_steps(node.args)
        function = self.value(node.func)
        values = self.several(node.args)
        named: dict[str, Any] = {}
        for item in node.keywords:
            found = self.value(item.value)
            named.update(found if item.arg is None else {item.arg: found})
        return self.at(node, self._called, function, values, named)

    def _called(self, function: Any, values: list[Any], named: dict[str, Any]) -> Any:
        self.table.update(__autoq_function=function, __autoq_values=values, __autoq_named=named)
        return eval(_CALL, self.table)

    def several(self, nodes: Sequence[Any]) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if type(node) is doc.Starred:
                values += self.value(node.value)
            else:
                values.append(self.value(node))
        return values

    def items(self, node: Any) -> Any:
        values = self.several(node.elts)
        return tuple(values) if type(node) is doc.Tuple else values

    def slice(self, node: Any) -> Any:
        ends = (node.lower, node.upper, node.step)
        return slice(*(None if end is None else self.value(end) for end in ends))

    def choice(self, node: Any) -> Any:
        return self.at(node, self._chosen, node)

    def _chosen(self, node: Any) -> Any:
        test = self.value(node.test)
        if isinstance(test, bool):
            return self.value(node.body if test else node.orelse)
        if not is_prim_expr(test) or not test.ty.matches_code(DataTypeCode.BOOL):
            raise TypeError(f"Expected Python bool or TIR bool, but got {type(test)}")
        return if_then_else(test, self.value(node.body), self.value(node.orelse))

    def junction(self, node: Any) -> Any:
        return self.at(node, self._joined, node)

    def _joined(self, node: Any) -> Any:
        decides = type(node.op) is doc.Or
        first, *others = node.values
        found = self.value(first)
        for other in others:
            if isinstance(found, bool) and found is decides:
                break
            found = evaluator._eval_op(node.op, [found, self.value(other)])
        return found

    def operation(self, node: Any, operator: Any, *values: Any) -> Any:
        if all(type(value) in _NUMBERS for value in values):
            try:
                return evaluator.DEFAULT_OP[type(operator)](*values)
            except ArithmeticError as error:
                return self.parser.report_error(node, error)
        return self.at(node, evaluator._eval_op, operator, list(values))

    def binary(self, node: Any) -> Any:
        _give_steps((node.left, node.right))
        return self.operation(node, node.op, self.value(node.left), self.value(node.right))

    def unary(self, node: Any) -> Any:
        _give_steps((node.operand,))
        return self.operation(node, node.op, self.value(node.operand))

    def compare(self, node: Any) -> Any:
        if len(node.ops) > 1:
            return self.left(node)
        _give_steps((node.left, *node.comparators))
        left, right = self.value(node.left), self.value(node.comparators[0])
        return self.operation(node, node.ops[0], left, right)


def _same(value: Any) -> Any:
    return value


def _entry(of: Any, index: Any) -> Any:
    return of[index]


def _give_steps(parts: Sequence[Any]) -> None:
    """Slices of both ends in what is computed with have a step of 1, as TVM has it."""
    for part in parts:
        if type(part) is not doc.Subscript:
            continue
        several = type(part.slice) is doc.Tuple
        for item in part.slice.elts if several else (part.slice,):
            if type(item) is doc.Slice and item.lower and item.upper and not item.step:
                line, column = item.upper.lineno, item.upper.end_col_offset
                item.step = doc.Constant(1, None, line, column + 1, line, column + 2)


_RULES: dict[type[Any], Callable[[_Evaluation, Any], Any]] = {
    doc.Attribute: _Evaluation.attribute,
    doc.Subscript: _Evaluation.subscript,
    doc.Call: _Evaluation.call,
    doc.Tuple: _Evaluation.items,
    doc.List: _Evaluation.items,
    doc.BinOp: _Evaluation.binary,
    doc.UnaryOp: _Evaluation.unary,
    doc.Compare: _Evaluation.compare,
    doc.Slice: _Evaluation.slice,
    doc.IfExp: _Evaluation.choice,
    doc.BoolOp: _Evaluation.junction,
}
