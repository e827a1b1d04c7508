"""Programs that nobody has written: by a grammar that knows the field, and calls of every name that lint knows.

All of them are valid Python. Names are bound or not, types fit or do not: what matters is that each part meets each
other one, in places where nobody would write it.
"""

# ruff: noqa: E501  # tables of code: a line for each part of the language says more than five
import keyword
import random
from collections.abc import Callable, Sequence

from tests.support.models import every_model

HEAD = """\
import argparse, contextlib, copy, functools, itertools, logging, math, os, random, sys, time
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset
"""
NAMES = (
    *("x", "y", "z", "args", "rank", "local_rank", "world_size", "device", "model", "net", "optimizer", "loader"),
    *("sampler", "dataset", "loss", "scaler", "scheduler", "group", "step", "epoch", "batch", "main", "train", "Net"),
)
ATTRIBUTES = (
    *("module", "sampler", "rank", "device", "to", "cuda", "cpu", "item", "backward", "step", "zero_grad", "forward"),
    *("state_dict", "load_state_dict", "parameters", "set_epoch", "no_sync", "format", "join", "replace", "lower"),
    *("append", "extend", "update", "items", "keys", "get", "pop", "split", "ljust", "zfill", "encode", "local_rank"),
    *("shape", "size", "detach", "eval", "train", "weight", "grad", "add_module", "apply", "__init__", "__class__"),
)
LITERALS = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "1.5",
        "0.5",
        "1e999",
        "-1e999",
        "1e-999",
        "True",
        "None",
        "...",
        "1j",
        "10**100",
        "0x" + "f" * 400,
    ),
    *("'cuda'", "'cuda:0'", "'cuda:²'", "'cpu'", "'nccl'", "'gloo'", "'RANK'", "'LOCAL_RANK'", "'out/model.pt'", "''"),
    *(
        "'%d'",
        "'%6000000000d'",
        "'{:>9999999999}'",
        "'{0.x[y]}'",
        "'{'",
        "'\\x1b[31m'",
        "'\\0'",
        "'\\ud800'",
        "b'\\xff'",
    ),
    *(
        "float('nan')",
        "float('inf')",
        "'9' * 5000",
        "'--5'",
        "'٣'",
        "[]",
        "{}",
        "()",
        "set()",
        "'a' * 10**9",
        "[0] * 10**9",
    ),
)
CALLS = (
    *("dist.get_rank()", "dist.get_world_size()", "dist.init_process_group({})", "dist.barrier({})", "dist.new_group({})"),
    *("dist.all_reduce({})", "dist.all_gather({}, {})", "dist.broadcast({}, src={})", "dist.reduce({}, {})", "dist.send({}, {})"),
    *("dist.destroy_process_group()", "dist.is_initialized()", "mp.spawn({}, args=({},), nprocs={})", "torch.device({})"),
    *("torch.cuda.set_device({})", "torch.cuda.device_count()", "torch.cuda.is_available()", "torch.manual_seed({})"),
    *("int(os.environ[{}])", "os.environ.get({}, {})", "os.getenv({})", "os.path.join({}, {})", "os.path.join()", "nn.Linear({}, {})"),
    *("nn.Sequential({}, {})", "nn.Sequential(*{})", "nn.ModuleList({})", "nn.DataParallel({})", "DDP({}, device_ids=[{}])"),
    *("DDP({}, find_unused_parameters={})", "nn.BatchNorm2d({})", "nn.SyncBatchNorm.convert_sync_batchnorm({})", "copy.deepcopy({})"),
    *("DataLoader({}, batch_size={}, shuffle={})", "DataLoader({}, sampler={}, num_workers={})", "DistributedSampler({}, rank={})"),
    *("TensorDataset({})", "torch.optim.SGD({}.parameters(), lr={})", "torch.optim.AdamW({}, {})", "torch.save({}, {})"),
    *("torch.load({}, map_location={})", "torch.cuda.amp.GradScaler()", "torch.utils.checkpoint.checkpoint({}, {})", "print({}, {})"),
    *("range({})", "range({}, {}, {})", "list(range({}))", "len({})", "enumerate({})", "zip({}, {})", "zip(*{})", "map({}, {})", "filter(None, {})"),
    *("sorted({})", "sum({})", "max({}, {})", "min({})", "abs({})", "round({}, {})", "pow({}, {})", "str({})", "int({})", "float({})", "bytes({})"),
    *("bool({})", "isinstance({}, {})", "hasattr({}, {})", "getattr({}, {})", "getattr({}, {}, {})", "setattr({}, {}, {})", "type({})", "vars({})"),
    *("super().__init__()", "iter({})", "next({})", "next(iter({}))", "dict({}, x={})", "dict({})", "tuple({})", "list({})", "set({})", "open({}, {})"),
    *("functools.partial({}, {})", "itertools.chain({}, {})", "itertools.cycle({})", "itertools.islice({}, {})", "divmod({}, {})", "eval({})"),
    *("time.time()", "torch.randn({}, {})", "torch.zeros({}, device={})", "torch.no_grad()", "torch.compile({})", "F.cross_entropy({}, {})"),
    *("argparse.ArgumentParser().parse_args()", "logging.info({}, {})", "np.random.seed({})", "sys.exit({})", "math.ceil({})", "exec({})"),
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "|", "&", "^", "@")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in")
MOST_CALLS = 12


class Grammar:
    """Writes one program, by one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._room = rng.choice((20, 60, 150))
        """Statements that are left."""

    def program(self) -> str:
        """A whole program."""
        lines = [HEAD]
        for _ in range(self._rng.randint(1, 4)):
            lines += self._definition(0)
        lines += self._block(0, self._rng.randint(3, 12))
        if self._rng.random() < 0.3:
            lines += ["if __name__ == '__main__':", *self._block(1, 3)]
        return "\n".join(lines) + "\n"

    # --- expressions ------------------------------------------------------------------------------------------

    def _name(self) -> str:
        return self._rng.choice(NAMES)

    def expression(self, depth: int = 3) -> str:
        """Any expression, with so many levels at most."""
        if depth <= 0 or self._rng.random() < 0.15:
            return self._name() if self._rng.random() < 0.6 else f"({self._rng.choice(LITERALS)})"
        return self._rng.choice(_EXPRESSIONS)(self, depth - 1)

    def _call(self, depth: int) -> str:
        template = self._rng.choice(CALLS)
        return template.format(*(self.expression(depth) for _ in range(template.count("{}"))))

    def _own_call(self, depth: int) -> str:
        given = [self.expression(depth) for _ in range(self._rng.randint(0, 3))]
        given += [f"*{self.expression(depth)}"] if self._rng.random() < 0.15 else []
        given += [f"{self._name()}={self.expression(depth)}"] if self._rng.random() < 0.2 else []
        given += [f"**{self.expression(depth)}"] if self._rng.random() < 0.1 else []
        return (
            f"({self.expression(depth)})({', '.join(given)})"
            if self._rng.random() < 0.3
            else (f"{self._name()}({', '.join(given)})")
        )

    def _attribute(self, depth: int) -> str:
        return f"({self.expression(depth)}).{self._rng.choice(ATTRIBUTES)}"

    def _method(self, depth: int) -> str:
        given = ", ".join(self.expression(depth) for _ in range(self._rng.randint(0, 3)))
        return f"({self.expression(depth)}).{self._rng.choice(ATTRIBUTES)}({given})"

    def _operation(self, depth: int) -> str:
        return f"({self.expression(depth)} {self._rng.choice(OPERATORS)} {self.expression(depth)})"

    def _comparison(self, depth: int) -> str:
        end = f" {self._rng.choice(COMPARISONS)} {self.expression(depth)}" if self._rng.random() < 0.2 else ""
        return f"({self.expression(depth)} {self._rng.choice(COMPARISONS)} {self.expression(depth)}{end})"

    def _logic(self, depth: int) -> str:
        form = self._rng.choice(("({} and {})", "({} or {})", "(not {1})", "({} if {} else {})", "(-{})", "(~{})"))
        return form.format(*(self.expression(depth) for _ in range(3)))

    def _subscript(self, depth: int) -> str:
        form = self._rng.choice(("({})[{}]", "({})[{}:{}]", "({})[::{}]", "({})[{}, {}]", "({})[-1]"))
        return form.format(*(self.expression(depth) for _ in range(3)))

    def _display(self, depth: int) -> str:
        forms = (
            "[{}, {}]",
            "({}, {})",
            "{{{}, {}}}",
            "{{{}: {}, **{}}}",
            "[*{}, *{}]",
            "(*{}, {})",
            "{{'a': {}, 'b': {}}}",
        )
        return self._rng.choice(forms).format(*(self.expression(depth) for _ in range(3)))

    def _comprehension(self, depth: int) -> str:
        form = self._rng.choice(("[{}{}]", "({}{})", "{{{}{}}}", "{{{}: {}{}}}", "sum({}{})", "list({}{})"))
        loops = "".join(
            f" for {self._name()} in {self.expression(depth)}" for _ in range(self._rng.choice((1, 1, 1, 2, 6)))
        )
        loops += f" if {self.expression(depth)}" if self._rng.random() < 0.4 else ""
        return form.format(*(self.expression(depth) for _ in range(form.count("{}") - 1)), loops)

    def _text(self, depth: int) -> str:
        # No quotes inside of a field: before Python 3.12 they end the text.
        fields = [f"{{{self._name()}{self._rng.choice(('', '!r', ':>9999999999', ':.3f', ':{x}'))}}}" for _ in range(2)]
        return f"f'{self._rng.choice(('', 'cuda:', '%d', 'a' * 50))}{''.join(fields)}'"

    def _lambda(self, depth: int) -> str:
        return f"(lambda {self._name()}=0, *a, **k: {self.expression(depth)})"

    def _walrus(self, depth: int) -> str:
        return f"({self._name()} := {self.expression(depth)})"

    # --- statements -------------------------------------------------------------------------------------------

    def _block(self, level: int, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._rng.randint(1, most)):
            if self._room <= 0:
                break
            self._room -= 1
            kinds = _STATEMENTS if level < 4 else _STATEMENTS[:2]
            lines += self._rng.choice(kinds)(self, level)
        return lines or [f"{'    ' * level}pass"]

    def _assign(self, level: int) -> list[str]:
        rng = self._rng
        target = rng.choice(
            (
                self._name(),
                self._name(),
                f"{self._name()}.{rng.choice(ATTRIBUTES)}",
                f"{self._name()}[{self.expression(1)}]",
            )
        )
        form = rng.choice(("{} = {}", "{} = {}", "{} += {}", "{} %= {}", "{} *= {}"))
        if rng.random() < 0.1:
            target, form = rng.choice(("a, *b", "(x, y), z", "*x, y", "[x]")), "{} = {}"
        return [f"{'    ' * level}{form.format(target, self.expression())}"]

    def _expression_statement(self, level: int) -> list[str]:
        return [f"{'    ' * level}{self.expression()}"]

    def _if(self, level: int) -> list[str]:
        indent = "    " * level
        test = self._rng.choice(
            (self.expression(2), f"dist.get_rank() {self._rng.choice(COMPARISONS)} {self.expression(1)}")
        )
        lines = [f"{indent}if {test}:", *self._block(level + 1, 3)]
        if self._rng.random() < 0.3:
            lines += [f"{indent}elif {self.expression(2)}:", *self._block(level + 1, 2)]
        return lines + ([f"{indent}else:", *self._block(level + 1, 3)] if self._rng.random() < 0.4 else [])

    def _loop(self, level: int) -> list[str]:
        indent = "    " * level
        head = self._rng.choice(
            (f"for {self._name()} in {self.expression(2)}:", f"for i, ({self._name()}, y) in enumerate({self.expression(1)}):",
             f"while {self.expression(2)}:", "for x in loader:", "while True:")
        )  # fmt: skip
        end = self._rng.choice(
            ([], [], [f"{indent}    break"], [f"{indent}    continue"], [f"{indent}else:", f"{indent}    pass"])
        )
        return [indent + head, *self._block(level + 1, 4), *end]

    def _try(self, level: int) -> list[str]:
        indent = "    " * level
        lines = [f"{indent}try:", *self._block(level + 1, 3)]
        if self._rng.random() < 0.8:
            lines += [
                f"{indent}except {self._rng.choice(('Exception', 'OSError as x', '(KeyError, x)'))}:",
                *self._block(level + 1, 2),
            ]
            return lines + ([f"{indent}finally:", *self._block(level + 1, 2)] if self._rng.random() < 0.3 else [])
        return [*lines, f"{indent}finally:", *self._block(level + 1, 2)]

    def _with(self, level: int) -> list[str]:
        managers = (
            "model.no_sync()",
            "torch.no_grad()",
            "torch.device('cuda')",
            "contextlib.suppress(x)",
            self.expression(1),
        )
        return [f"{'    ' * level}with {self._rng.choice(managers)} as {self._name()}:", *self._block(level + 1, 3)]

    def _match(self, level: int) -> list[str]:
        indent = "    " * level
        patterns = (
            "0",
            "'nccl'",
            "[x, *_]",
            "{'rank': x, **z}",
            "Net(x=0)",
            "x | y" if False else "1 | 2",
            "(x, y) if rank",
            "str()",
        )
        lines = [f"{indent}match {self.expression(2)}:"]
        for pattern in self._rng.sample(patterns, 2):
            lines += [f"{indent}    case {pattern}:", *self._block(level + 2, 2)]
        return [*lines, f"{indent}    case _:", *self._block(level + 2, 1)]

    def _definition(self, level: int) -> list[str]:
        return self._rng.choice((self._function, self._function, self._class))(level)

    def _function(self, level: int) -> list[str]:
        indent, rng = "    " * level, self._rng
        decorators = (
            "",
            "",
            "",
            "@functools.wraps(x)",
            "@property",
            "@staticmethod",
            "@torch.no_grad()",
            f"@{self._name()}",
            "@contextlib.contextmanager",
        )
        decorator = rng.choice(decorators)
        ends = (
            "return {}",
            "return {}",
            "yield {}",
            "yield from {}",
            "raise {}",
            "global x",
            "del x",
            "assert {}, {}",
            "pass",
        )
        end = rng.choice(ends).format(self.expression(2), self.expression(1))
        given = rng.choice(
            ("", "x", "rank, world_size", "self", "*x, **z", "x=0, *, y=None", "model, loader, optimizer")
        )
        lines = [f"{indent}{decorator}"] if decorator else []
        lines.append(
            f"{indent}{'async ' if rng.random() < 0.05 else ''}def {rng.choice(('main', 'train', 'x', 'step', 'forward'))}({given}):"
        )
        # `yield from` is no part of an async function, and a `global` name may not be used before.
        last = "pass" if "async" in lines[-1] or end == "global x" else end
        return [*lines, *self._block(level + 1, 5), f"{indent}    {last}"]

    def _class(self, level: int) -> list[str]:
        indent, rng = "    " * level, self._rng
        bases = (
            "nn.Module",
            "nn.Module",
            "Dataset",
            "IterableDataset",
            "DataLoader",
            "DDP",
            "object",
            "Net",
            "dict",
            "torch.autograd.Function",
            self._name(),
        )
        name = rng.choice(("Net", "train", "loader"))
        lines = [f"{indent}class {name}({rng.choice(bases)}):", f"{indent}    x = {self.expression(1)}"]
        for method in rng.sample(
            ("__init__", "forward", "__len__", "__getitem__", "__iter__", "__call__", "step"), rng.randint(1, 4)
        ):
            lines.append(f"{indent}    def {method}(self, x=0, *y):")
            lines += [f"{indent}        super().__init__()"] if method == "__init__" and rng.random() < 0.7 else []
            lines += [f"{indent}        self.{self._name()} = {self.expression(2)}", *self._block(level + 2, 3)]
            lines.append(f"{indent}        return {self.expression(2)}")
        return lines


_EXPRESSIONS: Sequence[Callable[[Grammar, int], str]] = (
    Grammar._call, Grammar._call, Grammar._call, Grammar._own_call, Grammar._attribute, Grammar._method, Grammar._operation,
    Grammar._operation, Grammar._comparison, Grammar._logic, Grammar._subscript, Grammar._display, Grammar._comprehension,
    Grammar._text, Grammar._lambda, Grammar._walrus,
)  # fmt: skip
_STATEMENTS: Sequence[Callable[[Grammar, int], list[str]]] = (
    Grammar._assign, Grammar._expression_statement, Grammar._assign, Grammar._assign, Grammar._expression_statement,
    Grammar._if, Grammar._if, Grammar._loop, Grammar._try, Grammar._with, Grammar._match, Grammar._definition,
)  # fmt: skip


def grown(rng: random.Random) -> str:
    """A program of the grammar."""
    return Grammar(rng).program()


def known_names() -> list[str]:
    """Every callable of a library that a model answers for."""
    models = every_model()
    names = {*models.callables, *(f"{prefix}anything" for prefix in models.prefixes)}
    return sorted(
        name for name in names if all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))
    )


def calling(rng: random.Random, names: Sequence[str]) -> str:
    """A program that calls some of these names with what nobody would give them."""
    grammar, chosen = Grammar(rng), rng.sample(names, min(MOST_CALLS, len(names)))
    lines = [HEAD, *sorted({f"import {name.partition('.')[0]}" for name in chosen if not name.startswith("builtins.")})]
    lines += ["args = argparse.ArgumentParser().parse_args()", "model, rank = nn.Linear(2, 2), dist.get_rank()"]
    for name in chosen:
        given = [grammar.expression(2) for _ in range(rng.randint(0, 4))]
        given += [f"{rng.choice(NAMES)}={grammar.expression(2)}"] if rng.random() < 0.5 else []
        lines.append(
            f"{rng.choice(('x', 'y', 'model', 'device'))} = {name.removeprefix('builtins.')}({', '.join(given)})"
        )
        lines += [f"if {grammar.expression(2)}: {grammar.expression(2)}"] if rng.random() < 0.3 else []
    return "\n".join(lines) + "\n"


def inflated(rng: random.Random) -> str:
    """A program of parts that repeat, nest or call one another so often that what they come to would grow with each."""
    grammar = Grammar(rng)
    lines = [
        HEAD,
        "args = argparse.ArgumentParser().parse_args()",
        "x = y = z = model = nn.Linear(2, 2)",
        "rank = dist.get_rank()",
    ]
    for _ in range(rng.randint(1, 3)):
        lines += rng.choice(_INFLATED)(grammar, rng, rng.choice((10, 40, 100, 400)))
    return "\n".join([*lines, *grammar._block(0, 6)]) + "\n"


def _same_line(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    return ["x = y = 'ab'" if rng.random() < 0.3 else "x = [x]", *grammar._assign(0) * many, *grammar._assign(0) * many]


def _doubled(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    forms = (
        *("x = (*x, *x)", "x = x + x", "x = [x, x]", "x = {'a': x, **x}", "x = f'{x}{y}{x}'", "x = '%s%s' % (x, x)", "x += x"),
        *("x.extend(x)", "x.append(x)", "x.update(x)", "x = zip(x, x)", "x = nn.Sequential(x, x)", "x = x if args.x else y"),
        *("x = x.replace('a', x)", "x = x.join([x, x])", "x = '{}{}'.format(x, x)", "x = x * x", "x = x @ x + x", "x = DDP(x)"),
        *("x = (x or y) and (y or x)", "x = [a for a in x for b in x]", "x = lambda x=x: x(x)", "x = functools.partial(x, x)"),
        *("x[x] = x", "x.x = x", "x = x.x", "x = x(x)", "x = copy.deepcopy(x)", "x = max(x, y)", "y = x == x != y", "x, y = y, (x, y)"),
    )  # fmt: skip
    chosen = rng.sample(forms, 2)
    start = rng.choice(
        ("x = (1, 2)", "x = 'ab'", "x = args.x", "x = []", "x = {}", "x = rank", "x = torch.zeros(2)", "x = model")
    )
    return [start, *(rng.choice(chosen) for _ in range(many))]


def _branches(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    lines: list[str] = []
    for number in range(many):
        test = rng.choice((f"args.a{number}", f"rank == {number}", "x == y", f"x > {number}", grammar.expression(1)))
        lines += [f"if {test}:", *grammar._assign(1)] + (["else:", *grammar._assign(1)] if rng.random() < 0.5 else [])
    return lines


def _nested(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    # Python itself takes 20 loops and 100 levels of indentation.
    depth = min(many, 18)
    heads = ("if {}:", "for x in {}:", "while {}:", "with {} as x:", "try:", "def f(x={}):", "class A({}):")
    chosen = [rng.choice(heads) for _ in range(depth)]
    lines = ["    " * level + head.format(grammar.expression(1)) for level, head in enumerate(chosen)]
    lines.append("    " * depth + "x = dist.all_reduce(x)")
    for level in reversed(range(depth)):
        lines += ["    " * level + "finally:", "    " * level + "    x = x"] if chosen[level] == "try:" else []
    return lines


def _chain(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    body = rng.choice(
        (
            "f{1}(x, x)",
            "f{1}(x) + f{1}(y)",
            "(f{1}(x), f{1}(y))",
            "[f{1}(a) for a in x]",
            "f{1}(*x, *x)",
            "f{0}(f{1}(x))",
        )
    )
    lines = [f"def f{many}(*x): return {grammar.expression(2)}"]
    lines += [f"def f{number}(x=0, *y): return {body.format(number, number + 1)}" for number in range(many)]
    return [*lines, "x = f0(x)"]


def _classes(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    lines = [
        "class C0(nn.Module):",
        "    def __init__(self, x=0): super().__init__(); self.x = x",
        "    def forward(self, x): return x",
    ]
    for number in range(1, min(many, 60)):
        lines += [
            f"class C{number}({rng.choice((f'C{number - 1}', 'nn.Module', 'C0'))}):",
            f"    def __init__(self, x=0): super().__init__(); self.x = C{number - 1}(x); self.y = [C{number - 1}(), self.x]",
            f"    def forward(self, x): return self.x(self.y[0]({grammar.expression(1)})) + self.x(x)",
        ]
    return [*lines, f"x = C{min(many, 60) - 1}(); y = DDP(x); y(x); y(y).backward()"]


def _large(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    size = many * rng.choice((10, 100))
    items = rng.choice(("{}", "'k{}'", "x", "({0}, {0})", "args.a{}", "[{}]", "lambda: {}", "f'{{x}}{}'"))
    body = ", ".join(items.format(number) for number in range(size))
    forms = (
        "x = [{}]",
        "x = ({})",
        "x = {{{}}}",
        "x = print({})",
        "x = [[{}], [x]]",
        "x = nn.Sequential({})",
        "x = torch.save([{}], x)",
    )
    return [
        rng.choice(forms).format(body),
        *rng.choice((["for y in x: print(y)"], ["y = [a for a in x for b in x]"], ["y = x + x"], ["y = x[0]"])),
    ]


def _deep(grammar: Grammar, rng: random.Random, many: int) -> list[str]:
    before, after = rng.choice(
        (
            ("(", ",)"),
            ("[", "]"),
            ("-", ""),
            ("not ", ""),
            ("f(", ")"),
            ("x[", "]"),
            ("lambda: ", ""),
            ("1 + ", ""),
            ("x.y(", ").z"),
        )
    )
    depth = min(many, 80)
    return [
        f"x = {before * depth}x{after * depth}",
        f"x = x{rng.choice(('.x', '[0]', '(x)', ' + x', ' and x', ' % x')) * many}",
    ]


_INFLATED = (_same_line, _doubled, _doubled, _branches, _nested, _chain, _classes, _large, _deep)
