"""The mutants of a file: each changes one place of its text and leaves all else as it is.

Of Python: comparisons flipped and moved to their boundary, conditions negated, `and` and `or` swapped, sums and numbers
changed, returns emptied, statements removed. Of SQL: one condition of a statement left out.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

_FLIPPED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_WRITTEN: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_SUMS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_SWAPPED = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
_REMOVED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
_AND = re.compile(r"(?<!\w)and\s+")
_JOINED = re.compile(r"(?<!\w)(and|or|order by|group by|limit|for|returning)(?!\w)")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True)
class Mutation:
    """A replacement of the text from `start` to `end` by `new`."""

    number: int  # of the line
    line: str  # its text
    change: str  # for people, and to distinguish it from others of the line
    start: int
    end: int
    new: str

    def applied_to(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def mutations_of(file: str, text: str) -> list[Mutation]:
    """Every mutant of a file, in the order of its lines."""
    found = _Sql(text).mutations() if file.endswith(".sql") else _Python(text).mutations()
    seen: Counter[tuple[int, str]] = Counter()
    distinct = []
    for mutation in sorted(found, key=lambda mutation: (mutation.start, mutation.end, mutation.new)):
        key = mutation.number, mutation.change
        seen[key] += 1
        again = f" (place {seen[key]})" if seen[key] > 1 else ""
        distinct.append(replace(mutation, change=mutation.change + again))
    return distinct


class _Python:
    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def mutations(self) -> Iterator[Mutation]:
        for node in self._nodes(ast.parse(self._text)):
            yield from self._of(node)

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """Every node that runs when the program works: no annotations, decorators, defaults, logs or messages."""
        for child in ast.iter_child_nodes(node):
            match node, child:
                case _, ast.Import() | ast.ImportFrom() | ast.arguments() | ast.Assert():
                    continue
                case _, ast.Expr(value=ast.Constant()):
                    continue  # a docstring, or the body of a protocol
                case _, ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
                    continue
                case ast.AnnAssign(annotation=annotation), _ if child is annotation:
                    continue
                case ((ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef()), ast.expr()):
                    continue  # decorators, bases and what it returns
                case ast.JoinedStr(), _:
                    continue
                case _, ast.Assign(targets=[ast.Name(id="__slots__")]):
                    continue
            yield child
            yield from self._nodes(child)

    def _of(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                for new in _FLIPPED[type(op)]:
                    yield self._between(left, right, _WRITTEN[type(op)], new)
            case ast.BoolOp(op=op, values=[first, second, *_]):
                yield self._between(first, second, *_SWAPPED[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                yield self._between(left, right, *_SUMS[type(op)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(node, self._shown(operand), "without not")
            case ast.Constant(value=bool() as value):
                yield self._replaced(node, str(not value), f"{value} becomes {not value}")
            case ast.Constant(value=int() | float() as number):
                yield self._replaced(node, f"({number} + 1)", f"{number} becomes {number} + 1")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not isinstance(test, (ast.Compare, ast.UnaryOp, ast.NamedExpr, ast.Constant)):
                    yield self._replaced(test, f"not ({self._shown(test)})", "condition negated")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self._replaced(value, "None", "returns None")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield self._replaced(node, "pass", "statement removed")
            case ast.stmt() if isinstance(node, _REMOVED):  # without a name that it gives, the next line breaks
                yield self._replaced(node, "pass", "statement removed")

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Mutation:
        """An operator: it stands between its operands, perhaps with brackets around them."""
        start, end = self._end(left), self._start(right)
        written = r"\s+".join(map(re.escape, old.split()))
        found = re.search(rf"(?<!\w){written}(?!\w)", self._text[start:end])
        assert found is not None
        return self._made(start + found.start(), start + found.end(), new, f"{old} becomes {new}")

    def _replaced(self, node: ast.expr | ast.stmt, new: str, change: str) -> Mutation:
        return self._made(self._start(node), self._end(node), new, change)

    def _made(self, start: int, end: int, new: str, change: str) -> Mutation:
        number = self._text.count("\n", 0, start) + 1
        return Mutation(number, self._text.splitlines()[number - 1].strip(), change, start, end, new)

    def _shown(self, node: ast.expr) -> str:
        return self._text[self._start(node) : self._end(node)]

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Columns count bytes."""
        start = self._starts[line - 1]
        text = self._text[start : self._starts[line]]
        return start + len(text.encode()[:column].decode())


class _Sql:
    """Conditions after an `and`, each left out."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._code = _COMMENT.sub(lambda comment: " " * len(comment.group()), text)

    def mutations(self) -> Iterator[Mutation]:
        for found in _AND.finditer(self._code):
            if re.search(r"between\s+\S+\s+$", self._code[: found.start()]):
                continue
            end = self._end_of_condition(found.end())
            condition = " ".join(self._code[found.end() : end].split())
            number = self._text.count("\n", 0, found.start()) + 1
            line = self._text.splitlines()[number - 1].strip()
            yield Mutation(number, line, f"without: {condition}", found.start(), end, "")

    def _end_of_condition(self, start: int) -> int:
        """Up to the next `and`, `or`, closing bracket or end of a line that is not in brackets."""
        depth = 0
        for index in range(start, len(self._code)):
            character = self._code[index]
            if character in "()":
                depth += 1 if character == "(" else -1
            is_over = depth < 0 or (depth == 0 and (character in "\n;," or _JOINED.match(self._code, index)))
            if is_over:
                return index
        return len(self._code)
