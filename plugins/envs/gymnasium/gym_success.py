"""When an episode has succeeded: the expression of env.params.success over what a step returned. Part of gym_host.py."""

import ast
import fcntl
import math
import operator
import os
import re
import sys

from gym_parts import CONFIG, ENV, NUMERIC, HostError, short

ABSENT = object()  # a part of info that is not there: every comparison with it is false
OPERATORS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg,
}  # fmt: skip
VALUES = ("reward", "return_", "terminated", "info")  # of a step, in this order
ADVICE = "Such as: is_success, terminated, reward >= 4, return > 100 and info.door.angle > 0.5, info['task-success']"


def plain(value):
    """The Python value of a numpy number, or of an array or a tensor that holds one."""
    try:
        return value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return value


def flag(value, name):
    """A truth value: true, false, or exactly 0 or 1. NaN, None and texts are not."""
    if value is True or value is False:
        return value
    found = plain(value)
    if isinstance(found, (bool, int, float)) and found in (0, 1):
        return bool(found)
    raise HostError(ENV, f"expected True, False, 0 or 1 as {name}, found {short(value)}")


def reward_of(value):
    found = value if type(value) is float else plain(value)
    if not isinstance(found, (bool, int, float)):
        raise HostError(ENV, f"expected a number as reward, found {short(value)}")
    if not -sys.float_info.max <= found <= sys.float_info.max:
        raise HostError(NUMERIC, f"expected a finite reward, found {short(value)}")
    return float(found)


def in_python(rule):
    """The rule without the word `return`, which Python keeps for itself: a name, or a part of info as in info['return']. Texts stay."""

    def renamed(found):
        text, dot = found.groups()
        return text or ("['return']" if dot else "return_")

    return re.sub(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(\.\s*)?\breturn\b""", renamed, rule)


class Success:
    """`params.success`, `params.success_hold` and `params.success_when`. A name that is none of reward, return, terminated and
    info is a key of info, which may be there in some steps only."""

    def __init__(self, rule, hold=1, when="any"):
        self.rule, self.hold, self.when = rule, hold, when
        self.keys = set()  # of info, that the rule reads
        try:
            tree = ast.parse(in_python(rule).strip(), mode="eval").body
        except SyntaxError as error:
            raise HostError(CONFIG, f"params.success: expected an expression, found '{rule}' ({error.msg}). {ADVICE}") from None
        self.is_true = self.condition(tree)
        self.begin()

    def fail(self, node):
        raise HostError(CONFIG, f"params.success: '{ast.unparse(node)}' in '{self.rule}' is not understood. {ADVICE}")

    def condition(self, node):
        """A function of the VALUES that says whether this part of the expression is true."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(part) for part in node.values]
            every = all if isinstance(node.op, ast.And) else any
            return lambda step: every([part(step) for part in parts])  # all are read, so that each wrong value is found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            part = self.condition(node.operand)
            return lambda step: not part(step)
        if isinstance(node, ast.Compare):
            values = [self.number(part) for part in (node.left, *node.comparators)]
            signs = [OPERATORS.get(type(sign)) or self.fail(node) for sign in node.ops]
            return lambda step: self.compare([value(step) for value in values], signs)
        value, name = self.value(node), ast.unparse(node)
        path = self.path_in_info(node)
        name = f"info[{path[0]!r}]" if path and len(path) == 1 else name
        return lambda step: (found := value(step)) is not ABSENT and flag(found, name)

    @staticmethod
    def compare(values, signs):
        return ABSENT not in values and all(sign(a, b) for sign, a, b in zip(signs, values, values[1:]))

    def number(self, node):
        """A function of the VALUES that returns a number, or ABSENT."""
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right, sign = self.number(node.left), self.number(node.right), OPERATORS[type(node.op)]

            def binary(step):
                a, b = left(step), right(step)
                return ABSENT if a is ABSENT or b is ABSENT or (b == 0 and sign is operator.truediv) else sign(a, b)

            return binary
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            part = self.number(node.operand)
            return lambda step: ABSENT if (found := part(step)) is ABSENT else -found
        if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            return lambda step: node.value
        value, name = self.value(node), ast.unparse(node)

        def number(step):
            found = plain(value(step))
            if found is not ABSENT and not isinstance(found, (bool, int, float)):
                raise HostError(ENV, f"params.success: expected a number as {name}, found {short(found)}")
            return ABSENT if isinstance(found, float) and math.isnan(found) else found

        return number

    def value(self, node):
        """A function of the VALUES that returns one of them, or a part of info."""
        if isinstance(node, ast.Name) and node.id in VALUES[:3]:
            index = VALUES.index(node.id)
            return lambda step: step[index]
        path = self.path_in_info(node) or self.fail(node)
        self.keys.add(path[0])

        def part(step):
            found = step[3]
            if not isinstance(found, dict):
                raise HostError(ENV, f"expected a dict as info, found {short(found)}")
            for name in path:
                try:
                    found = found[name]
                except (KeyError, IndexError, TypeError):
                    return ABSENT
            return found

        return part

    def path_in_info(self, node):
        """The names of info.a['b'][0], or None."""
        path = []
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute):
                path.insert(0, node.attr)
            elif isinstance(node.slice, ast.Constant):
                path.insert(0, node.slice.value)
            else:
                return None
            node = node.value
        if not isinstance(node, ast.Name) or node.id in VALUES[:3]:
            return None
        return path if node.id == "info" else [node.id, *path]

    def begin(self):
        self.is_given = not self.keys  # in this episode
        self.n_steps = self.n_held = 0
        self.names = []

    def holds(self, reward, total, terminated, info):
        """Whether the expression has been true for `success_hold` steps, this one included."""
        self.n_steps += 1
        if not self.is_given and isinstance(info, dict):
            self.is_given = not self.keys.isdisjoint(info)
            self.names = sorted(map(str, info))
        self.n_held = self.n_held + 1 if self.is_true((reward, total, terminated, info)) else 0
        return self.n_held >= self.hold

    def end(self, is_cut=False):
        """At the end of an episode. That its key never came may be right: some environments give it on success only. `is_cut`: dp_bench
        ended it before the environment did, which shows when the next one begins; that one must not fail for it."""
        if self.is_given or self.n_steps == 0:
            return
        self.is_given = True  # or told
        wanted = " or ".join(f"'{key}'" for key in sorted(map(str, self.keys)))
        text = f"params.success: expected the key {wanted} in info, found {self.names} and no such key in {self.n_steps} steps"
        if is_cut:
            text += ", after which the episode was cut short"
        elif any("success" in name.lower() for name in self.names):
            raise HostError(ENV, f"{text}. {ADVICE}")
        failed = "" if is_cut else " The episode counts as a failure."
        note(f"{wanted}, cut" if is_cut else wanted, f"{text}.{failed} If the environment never gives the key: {ADVICE}")


def note(about, text):
    """Prints it, unless a process of the command has: they share a file with a line for each note (worker_process.cc of the harness)."""
    line = f"{about}\n".encode()
    try:
        with open(os.environ.get("DP_BENCH_NOTES_FILE", ""), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if line in file.readlines():
                return
            file.write(line)
    except OSError:  # twice is better than never
        pass
    print(f"gymnasium: note: {text}", file=sys.stderr, flush=True)
