"""Mistakes that people make in training programs, each as an edit of a program that does not make it.

An operator finds the places of a file where its mistake can be planted, by syntax and by the names that everybody uses:
it may miss places, and what it plants must be a mistake wherever it finds one.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.tools.editing import RANK_TEST, Code, Planted, keyword, last_name, without_keyword

WRAPPERS = ("DistributedDataParallel", "DDP")
COLLECTIVES = ("barrier", "all_reduce", "broadcast", "all_gather", "reduce")
LOSSES = re.compile(r"loss$|criterion$|cross_entropy$|crit$")
VALIDATES = re.compile(r"valid|eval|^test", re.IGNORECASE)
KEPT_BY_WRAPPERS = frozenset(
    "state_dict load_state_dict parameters named_parameters buffers named_buffers modules named_modules children train "
    "eval to cuda cpu half float zero_grad requires_grad_ apply training forward register_forward_hook".split()
)
"""What a wrapper has as every module has it: to ask it of the wrapper is no mistake."""


class Operator(NamedTuple):
    """One mistake. `codes` are the rules of which one must find it."""

    name: str
    codes: tuple[str, ...]
    plant: Callable[[Code], Iterator[Planted]]
    anywhere: bool = False
    """The finding stands elsewhere by its nature: at the loop, the loader or the step, perhaps in another file."""
    of_ranks: bool = False
    """It is one only where several processes train."""


# --- data ------------------------------------------------------------------------------------------------------


def drop_set_epoch(code: Code) -> Iterator[Planted]:
    # The loaders that accelerate prepares count their rounds, and tell their samplers.
    statements = [code.statement(call) for call in code.calls("set_epoch")] if not code.managed else []
    if statements and all(isinstance(each, ast.Expr) for each in statements):
        yield code.without(*statements)


def drop_sampler(code: Code) -> Iterator[Planted]:
    for call in code.calls("DataLoader"):
        given = keyword(call, "sampler")
        if given is not None and "train" in code.source(code.statement(call)).lower():
            yield code.changed((call, without_keyword(code, call, "sampler")))


def shuffle_beside_sampler(code: Code) -> Iterator[Planted]:
    for call in code.calls("DataLoader"):
        if keyword(call, "sampler") is not None:
            bare = without_keyword(code, call, "shuffle")
            yield code.changed((call, f"{bare[:-1]}, shuffle=True)"))


def set_epoch_in_batch_loop(code: Code) -> Iterator[Planted]:
    for call in code.calls("set_epoch"):
        statement = code.statement(call)
        outer = code.around(statement, ast.For)
        inner = [
            loop
            for loop in code.nodes(ast.For, outer)
            if isinstance(loop, ast.For) and loop is not outer and any(code.calls("backward", root=loop))
        ]
        if outer is not None and inner and isinstance(statement, ast.Expr) and isinstance(inner[0].target, ast.Tuple):
            count = inner[0].target.elts[0]
            counts = isinstance(count, ast.Name) and "enumerate" in code.source(inner[0].iter)
            argument = code.source(count) if counts else code.source(call.args[0])
            moved = f"{code.source(call.func)}({argument})"
            first = inner[0].body[0]
            margin = " " * first.col_offset
            yield code.changed((statement, "pass"), (first, f"{moved}\n{margin}{code.source(first)}"), at=first)


# --- devices ---------------------------------------------------------------------------------------------------


def drop_batch_move(code: Code) -> Iterator[Planted]:
    for loop in code.nodes(ast.For):
        assert isinstance(loop, ast.For)
        if not any(code.calls("backward", root=loop)):
            continue
        names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        moves = [
            (call, code.source(call.func.value))
            for call in code.calls("to", "cuda", root=loop)
            if isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in names
        ]
        losses = [
            call for call in code.nodes(ast.Call, loop) if LOSSES.search(code.source(getattr(call, "func", call)))
        ]
        # DDP brings what it is called with to the GPU itself: it is the loss that fails.
        if moves and any(subject in code.source(call) for call in losses for _, subject in moves):
            yield code.changed(*moves)
            return


def drop_model_move(code: Code) -> Iterator[Planted]:
    if code.managed:
        return
    models = {code.source(call.args[0]) for call in code.calls(*WRAPPERS, "DataParallel") if call.args}
    models |= {code.source(c.func.value) for c in code.calls("parameters") if isinstance(c.func, ast.Attribute)}
    moves: dict[str, list[tuple[ast.AST, str]]] = defaultdict(list)
    for call in code.calls("to", "cuda"):
        base = _before_moves(call)
        # In `model.cuda().to(device)` the outer call stands for both.
        if base is call or any(call in ast.walk(node) for edits in moves.values() for node, _ in edits):
            continue
        statement, subject = code.statement(call), code.source(base)
        target = code.source(statement.targets[0]) if isinstance(statement, ast.Assign) else subject
        if target in models and (subject == target or isinstance(base, ast.Call)):
            moves[target].append((call, subject))
    # A model that is moved twice is on the GPU with one of them gone.
    yield from (code.changed(*edits) for edits in moves.values() if edits)


def _before_moves(node: ast.expr) -> ast.expr:
    """`Net()` for `Net().cuda().to(device)`; `model.to(memory_format=...)` moves nothing."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        if node.func.attr == "to" and not node.args:
            break
        node = node.func.value
    return node


def drop_map_location(code: Code) -> Iterator[Planted]:
    for call in code.calls("load"):
        if keyword(call, "map_location") is not None and code.source(call.func) == "torch.load":
            yield code.changed((call, without_keyword(code, call, "map_location")))


def local_rank_as_text(code: Code) -> Iterator[Planted]:
    for call in code.calls("int"):
        if call.args and re.fullmatch(r"os\.environ\[.(LOCAL_)?RANK.\]", code.source(call.args[0])):
            yield code.changed((call, code.source(call.args[0])))


def always_gpu_zero(code: Code) -> Iterator[Planted]:
    for call in code.calls("set_device"):
        chosen = call.args and "cuda" in code.source(call.func) and not isinstance(call.args[0], ast.Constant)
        if chosen and not _by_number(code) and not _is_zero_anyway(code, call.args[0]):
            yield code.changed((call.args[0], "0"))


def _is_zero_anyway(code: Code, given: ast.expr) -> bool:
    """A parameter that is 0 where nobody says otherwise, for a run of one process."""
    function = code.around(given, ast.FunctionDef)
    if not isinstance(function, ast.FunctionDef) or not isinstance(given, ast.Name):
        return False
    pairs = zip(reversed(function.args.args), reversed(function.args.defaults), strict=False)
    return any(each.arg == given.id and code.source(default) == "0" for each, default in pairs)


def _by_number(code: Code) -> bool:
    """Nobody asks for the current GPU: all is moved to one by its number, and the collectives are those of gloo."""
    moves = [call for call in code.calls("cuda") if isinstance(call.func, ast.Attribute)]
    return "gloo" in code.text and not re.search("nccl|[\"']cuda[\"']", code.text) and all(m.args for m in moves)


def rank_for_local_rank(code: Code) -> Iterator[Planted]:
    texts = [each for each in code.nodes(ast.Constant) if isinstance(each, ast.Constant) and each.value == "LOCAL_RANK"]
    # A sampler may ask for it to cut data by node: it is the number of a GPU that is wrong then.
    if texts and re.search("cuda|device|gpu", code.text):
        yield code.changed(*((each, '"RANK"') for each in texts))


# --- wrapping --------------------------------------------------------------------------------------------------


def _wraps(code: Code) -> Iterator[tuple[ast.Assign, ast.Call]]:
    frozen = {
        code.source(loop.iter.func.value)
        for loop in code.nodes(ast.For)
        if isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and isinstance(loop.iter.func, ast.Attribute)
        and "requires_grad = False" in code.source(loop)
    }
    for call in code.calls(*WRAPPERS):
        statement = code.parents[call]
        # A teacher that is not trained needs no wrapper.
        if isinstance(statement, ast.Assign) and call.args and code.source(statement.targets[0]) not in frozen:
            yield statement, call


def _bare(code: Code, wrapped: ast.expr) -> list[tuple[ast.AST, str]]:
    """`model` for `model.module`: without a wrapper that would end the program before the mistake shows."""
    name = last_name(wrapped)
    each = (node for node in code.nodes(ast.Attribute) if isinstance(node, ast.Attribute) and node.attr == "module")
    return [(node, code.source(node.value)) for node in each if last_name(node.value) == name]


def drop_wrap(code: Code) -> Iterator[Planted]:
    for statement, call in _wraps(code):
        bare = _bare(code, statement.targets[0])
        yield code.changed((call, code.source(call.args[0])), *bare, at=statement)


def discard_wrapper(code: Code) -> Iterator[Planted]:
    for statement, call in _wraps(code):
        if code.source(statement.targets[0]) == code.source(call.args[0]):
            bare = _bare(code, statement.targets[0])
            yield code.changed((statement, code.source(call)), *bare, at=statement)


def call_unwrapped(code: Code) -> Iterator[Planted]:
    for statement, call in _wraps(code):
        target = code.source(statement.targets[0])
        if target == code.source(call.args[0]) and target.isidentifier():
            bare = _bare(code, statement.targets[0])
            yield code.changed((statement.targets[0], f"wrapped_{target}"), *bare, at=statement)


def ask_the_wrapper(code: Code) -> Iterator[Planted]:
    for node in code.nodes(ast.Attribute):
        inner = node.value if isinstance(node, ast.Attribute) and node.attr not in KEPT_BY_WRAPPERS else None
        if not isinstance(inner, ast.Attribute) or inner.attr != "module" or "." in code.source(inner.value):
            continue
        choice = code.around(node, ast.If, ast.IfExp)
        # Whoever asks whether there is a wrapper says something else where there is none.
        asked = isinstance(choice, (ast.If, ast.IfExp)) and re.search("attr|instance|dist", code.source(choice.test))
        if not asked and isinstance(getattr(node, "ctx", None), ast.Load):
            yield code.changed((inner, code.source(inner.value)))


def drop_unwrap(code: Code) -> Iterator[Planted]:
    for call in code.calls("unwrap_model"):
        statement, used = code.parents[call], code.parents[call]
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            uses = (each for each in code.calls("save_pretrained", "generate", "push_to_hub"))
            asked = any(isinstance(u.func, ast.Attribute) and code.source(u.func.value) == name for u in uses)
        else:
            asked = isinstance(used, ast.Attribute) and used.attr in ("save_pretrained", "generate", "push_to_hub")
        if asked and call.args:
            yield code.changed((call, code.source(call.args[0])))


# --- ranks -----------------------------------------------------------------------------------------------------


def _guards(code: Code, *calls: str) -> Iterator[ast.If]:
    """Tests on the rank around calls of these names."""
    for test in code.nodes(ast.If):
        assert isinstance(test, ast.If)
        here = any(code.source(call.func) in calls for call in code.nodes(ast.Call, test) if isinstance(call, ast.Call))
        if here and not test.orelse and RANK_TEST.search(code.source(test.test)) and not code.guarded(test):
            yield test


def drop_save_guard(code: Code) -> Iterator[Planted]:
    yield from (code.changed((test.test, "True")) for test in _guards(code, "torch.save"))


def drop_logger_guard(code: Code) -> Iterator[Planted]:
    yield from (code.changed((test.test, "True")) for test in _guards(code, "SummaryWriter", "wandb.init"))


def _collectives(code: Code) -> Iterator[tuple[ast.Expr, str]]:
    """The collective calls that every rank comes to, each with how to ask for rank 0 there."""
    test = code.rank_is_zero()
    for call in code.calls(*COLLECTIVES, "wait_for_everyone"):
        statement, function = code.parents[call], code.source(call.func)
        if not isinstance(statement, ast.Expr) or code.guarded(statement):
            continue
        if function.endswith(".wait_for_everyone"):
            yield statement, function.replace("wait_for_everyone", "is_main_process")
        elif test is not None and "dist" in function:
            yield statement, test


def collective_on_rank_zero(code: Code) -> Iterator[Planted]:
    for statement, test in _collectives(code):
        yield code.indented(statement, f"if {test}:")


def leave_before_collective(code: Code) -> Iterator[Planted]:
    for statement, test in _collectives(code):
        if code.around(statement, ast.FunctionDef) is not None:
            margin = " " * statement.col_offset
            way_out = f"if not {test}:\n{margin}    return\n{margin}"
            yield code.changed((statement, way_out + code.source(statement)))


def validate_on_rank_zero(code: Code) -> Iterator[Planted]:
    test = code.rank_is_zero()
    for call in code.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        statement = code.statement(call)
        simple = isinstance(statement, ast.Expr) and statement.value is call
        if test is None or not simple or code.guarded(statement) or code.around(statement, ast.For) is None:
            continue
        if VALIDATES.search(last_name(call.func)) and any("model" in code.source(each) for each in call.args):
            yield code.indented(statement, f"if {test}:")


def skip_rounds_alone(code: Code) -> Iterator[Planted]:
    for backward in code.calls("backward"):
        statement = code.parents[backward]
        around = code.around(statement, ast.For, ast.While, ast.FunctionDef)
        scaled = [each for each in ast.walk(backward.func) if isinstance(each, ast.Name) and "loss" in each.id]
        imported = re.search(r"^import torch\b", code.text, re.MULTILINE)
        if isinstance(statement, ast.Expr) and isinstance(around, (ast.For, ast.While)) and scaled and imported:
            margin = " " * statement.col_offset
            test = f"if not torch.isfinite({scaled[0].id}):\n{margin}    continue\n{margin}"
            yield code.changed((statement, test + code.source(statement)))


def drop_reduction(code: Code) -> Iterator[Planted]:
    for function in code.nodes(ast.FunctionDef):
        assert isinstance(function, ast.FunctionDef)
        if not VALIDATES.search(function.name):
            continue
        edits: list[tuple[ast.AST, str]] = []
        for call in code.calls("all_reduce", "reduce_tensor", "reduce_mean", "gather_for_metrics", root=function):
            statement = code.parents[call]
            if isinstance(statement, ast.Expr) and "dist" in code.source(call.func):
                edits.append((statement, "pass"))
            elif not isinstance(statement, ast.Expr) and call.args:
                edits.append((call, code.source(call.args[0])))
        if edits:
            yield code.changed(*edits)


def drop_process_group(code: Code) -> Iterator[Planted]:
    statements = [code.statement(call) for call in code.calls("init_process_group")]
    # These make the group where there is none.
    made = any(code.calls("fully_shard", "init_device_mesh"))
    if statements and not made and all(isinstance(each, ast.Expr) for each in statements):
        yield code.without(*statements)


def drop_spawn_arguments(code: Code) -> Iterator[Planted]:
    for call in code.calls("spawn"):
        if keyword(call, "args") is not None and keyword(call, "nprocs") is not None:
            yield code.changed((call, without_keyword(code, call, "args")))


def drop_main_guard(code: Code) -> Iterator[Planted]:
    spawns = any(keyword(call, "nprocs") is not None for call in code.calls("spawn"))
    for test in code.nodes(ast.If):
        if spawns and isinstance(test, ast.If) and "__name__" in code.source(test.test):
            yield code.changed((test.test, "True"))


# --- steps -----------------------------------------------------------------------------------------------------


def _steps(code: Code, *names: str) -> list[ast.stmt]:
    """The statements of training loops that call a method of something like an optimizer."""
    found = []
    for call in code.calls(*names):
        subject = code.source(call).lower()
        if isinstance(code.parents[call], ast.Expr) and "opt" in subject and "sched" not in subject:
            found.append(code.statement(call))
    return found


def swap_backward_and_step(code: Code) -> Iterator[Planted]:
    if code.managed:
        return
    for backward in code.calls("backward"):
        first = code.parents[backward]
        block = getattr(code.parents[first], "body", None) if isinstance(first, ast.Expr) else None
        later = [each for each in _steps(code, "step") if isinstance(block, list) and each in block]
        second = next((each for each in later if each.lineno > first.lineno), None)  # type: ignore[attr-defined]
        if second is not None:
            yield code.changed((first, code.source(second)), (second, code.source(first)))


def drop_zero_grad(code: Code) -> Iterator[Planted]:
    if code.managed:
        return
    statements = [code.statement(call) for call in code.calls("zero_grad")]
    if statements and all(isinstance(each, ast.Expr) for each in statements):
        yield code.without(*statements)


def drop_step(code: Code) -> Iterator[Planted]:
    if code.managed:
        return
    statements = _steps(code, "step")
    if statements:
        yield code.without(*statements)


def drop_no_sync(code: Code) -> Iterator[Planted]:
    for block in code.nodes(ast.With):
        assert isinstance(block, ast.With)
        first = block.items[0].context_expr
        if any(code.calls("no_sync", root=first)):
            yield code.changed((first, "torch.enable_grad()"))
    for statement in code.nodes(ast.Assign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        # What stands in for a wrapper in one process has a flag of its own.
        own = target is not None and code.source(target).startswith("self.require")
        if isinstance(target, ast.Attribute) and target.attr == "require_backward_grad_sync" and not own:
            yield code.without(statement)  # type: ignore[arg-type]


NO_GRAD = ("torch.no_grad()", "torch.inference_mode()")


def _twice(code: Code, node: ast.AST) -> bool:
    """The function around it builds no graph either: without one of the two nothing changes."""
    function = code.around(node, ast.FunctionDef)
    return isinstance(function, ast.FunctionDef) and any(code.source(d) in NO_GRAD for d in function.decorator_list)


def drop_no_grad(code: Code) -> Iterator[Planted]:
    for block in code.nodes(ast.With):
        assert isinstance(block, ast.With)
        first, loop = block.items[0].context_expr, code.around(block, ast.For)
        trains = loop is not None and any(code.calls("backward", root=loop))
        repeats = loop is not None or any(isinstance(each, ast.For) for each in ast.walk(block))
        # Around something else in a loop that calls the model, as targets that are computed, it saves next to nothing.
        calls_model = any(code.calls("model", "net", root=block))
        alone = len(block.items) == 1 and not _twice(code, block)
        if calls_model and repeats and not trains and alone and code.source(first) in NO_GRAD:
            yield code.changed((first, "torch.enable_grad()"))
    for function in code.nodes(ast.FunctionDef):
        assert isinstance(function, ast.FunctionDef)
        # Optimizers and averages of weights loop under it, too.
        calls_model = any(any(code.calls("model", "net", root=each)) for each in code.nodes(ast.For, function))
        for decorator in function.decorator_list:
            if calls_model and code.source(decorator) in NO_GRAD:
                yield code.changed((decorator, "torch.enable_grad()"), at=function.body[0])


def keep_graph(code: Code) -> Iterator[Planted]:
    for addition in code.nodes(ast.AugAssign):
        assert isinstance(addition, ast.AugAssign)
        loop = code.around(addition, ast.For)
        if loop is None or not any(code.calls("backward", root=loop)):
            continue
        numbers = [
            (call, code.source(call.func.value))
            for call in code.calls("item", root=addition.value)
            if isinstance(call.func, ast.Attribute)
            and "loss" in code.source(call.func.value)
            # What is detached, or gathered from the ranks, has no graph; `float(loss.item())` is a number either way.
            and not re.search("gather|detach", code.source(call))
            and last_name(getattr(code.parents[call], "func", call)) not in ("float", "int")
        ]
        if numbers:
            yield code.changed(*numbers)


OPERATORS = (
    Operator("set_epoch dropped", ("GPU302",), drop_set_epoch, anywhere=True),
    Operator("sampler dropped", ("GPU301", "GPU307"), drop_sampler, anywhere=True),
    Operator("shuffle=True beside a sampler", ("GPU303",), shuffle_beside_sampler),
    Operator("set_epoch in the batch loop", ("GPU306",), set_epoch_in_batch_loop),
    Operator("batch not moved", ("GPU201",), drop_batch_move),
    Operator("model not moved", ("GPU202", "GPU207", "GPU208"), drop_model_move, anywhere=True),
    Operator("map_location dropped", ("GPU209",), drop_map_location),
    Operator("rank kept as text", ("GPU409",), local_rank_as_text, anywhere=True),
    Operator("set_device(0)", ("GPU204", "GPU206", "GPU208"), always_gpu_zero, anywhere=True, of_ranks=True),
    Operator("RANK for LOCAL_RANK", ("GPU205",), rank_for_local_rank, anywhere=True),
    Operator("wrap dropped", ("GPU101",), drop_wrap, anywhere=True),
    Operator("wrapper discarded", ("GPU103", "GPU102", "GPU101"), discard_wrapper, anywhere=True),
    Operator("unwrapped model called", ("GPU102", "GPU103"), call_unwrapped, anywhere=True),
    Operator("wrapper asked for an attribute", ("GPU104",), ask_the_wrapper),
    Operator("unwrap_model dropped", ("GPU104",), drop_unwrap),
    Operator("process group never made", ("GPU401",), drop_process_group, anywhere=True),
    Operator("arguments of spawn dropped", ("GPU404",), drop_spawn_arguments),
    Operator("main guard dropped", ("GPU405",), drop_main_guard, anywhere=True),
    Operator("save guard dropped", ("GPU601",), drop_save_guard),
    Operator("logger guard dropped", ("GPU607",), drop_logger_guard),
    Operator("collective on rank 0", ("GPU501", "GPU502", "GPU503"), collective_on_rank_zero),
    Operator("return before a collective", ("GPU501", "GPU502", "GPU503"), leave_before_collective),
    Operator("validation on rank 0", ("GPU501", "GPU502"), validate_on_rank_zero, anywhere=True),
    Operator("round skipped for a loss of one rank", ("GPU503",), skip_rounds_alone, of_ranks=True),
    # Where the score decides which model is kept, GPU609 says of it that it is of one share of the data only.
    Operator("validation not reduced", ("GPU312", "GPU609"), drop_reduction, anywhere=True),
    Operator("backward and step swapped", ("GPU711",), swap_backward_and_step),
    Operator("zero_grad dropped", ("GPU709",), drop_zero_grad, anywhere=True),
    Operator("step dropped", ("GPU711",), drop_step, anywhere=True),
    Operator("no_sync dropped", ("GPU701",), drop_no_sync, anywhere=True),
    Operator("no_grad dropped", ("GPU805",), drop_no_grad),
    Operator("loss summed with its graph", ("GPU710",), keep_graph),
)
