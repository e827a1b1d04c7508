"""Which branches of a function this program never takes, because each call of it says the same: `pretrained=False`.

Only what is plain to see: a parameter that is itself the test, and gets a constant wherever the function is called.
Of a function that something else calls by its name (a registry), all keywords of that name say the same.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN = object()


def cut_untaken(trees: dict[str, ast.Module]) -> dict[str, list[range]]:
    """Take these branches out of the trees, and say which lines they were, by file."""
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    mentions: dict[str, int] = defaultdict(int)
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                calls[_name(node.func)].append(node)
            mentions[_name(node)] += 1
    every = [call for found in calls.values() for call in found]
    gone: dict[str, list[range]] = defaultdict(list)
    for path, tree in trees.items():
        for function in [node for node in ast.walk(tree) if isinstance(node, Function)]:
            only_called = mentions[function.name] == len(calls[function.name]) > 0 and not function.decorator_list
            said = calls[function.name] if only_called else every
            for test in [node for node in ast.walk(function) if isinstance(node, ast.If)]:
                answer = _answer(function, test.test, said, only_called)
                if answer is not None:
                    gone[path] += _cut(test, answer)
    return gone


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _answer(function: Function, test: ast.expr, calls: list[ast.Call], only_called: bool) -> bool | None:
    """What the test of a parameter always says; None where that is not plain."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        answer = _answer(function, test.operand, calls, only_called)
        return None if answer is None else not answer
    if not isinstance(test, ast.Name) or _is_set(function, test.id):
        return None
    values = list(_given(function, test.id, calls, only_called))
    answers = {bool(value) for value in values if value is not UNKNOWN}
    return answers.pop() if len(answers) == 1 and UNKNOWN not in values else None


def _is_set(function: Function, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))


def _given(function: Function, name: str, calls: list[ast.Call], only_called: bool) -> Iterator[object]:
    """What the parameter gets: a constant each time, or something that is not known."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    default = _default(function, names, name)
    named = any(each.arg == name for call in calls for each in call.keywords)
    if name not in names or not (only_called or (named and default is not UNKNOWN)):
        yield UNKNOWN
        return
    place = names.index(name)
    if not only_called:
        yield default
    for call in calls:
        word = next((each.value for each in call.keywords if each.arg == name), None)
        if word is not None:
            yield word.value if isinstance(word, ast.Constant) else UNKNOWN
        elif only_called:
            # `self` is no argument of a call, and `f(*args)` may fill any place.
            plain = names[0] not in ("self", "cls") and not any(isinstance(each, ast.Starred) for each in call.args)
            open_ended = not plain or any(each.arg is None for each in call.keywords)
            at = call.args[place] if plain and place < len(call.args) else None
            yield at.value if isinstance(at, ast.Constant) else UNKNOWN if at is not None or open_ended else default


def _default(function: Function, names: list[str], name: str) -> object:
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    value = defaults.get(name)
    return value.value if isinstance(value, ast.Constant) else UNKNOWN


def _cut(test: ast.If, answer: bool) -> Iterator[range]:
    body = test.orelse if answer else test.body
    if body:
        yield range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
        nothing = [ast.copy_location(ast.Pass(), body[0])]
        if answer:
            test.orelse = []
        else:
            test.body = list[ast.stmt](nothing)
