"""Shell scripts, as a parser of the shell reads them, followed from top to bottom: which commands they run, with which
words and variables.

Conditions are not decided: what differs between their sides is not known behind them. A loop's body is followed once,
with what it assigns not known.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.placed_text import PlacedText
from gpudoctor.lint.launchfiles.shell_expansion import MAX_LENGTH, Expansion, ShellState
from gpudoctor.lint.launchfiles.shell_grammar import parser
from gpudoctor.lint.launchfiles.shell_tests import holds, matching
from gpudoctor.lint.launchfiles.shell_values import glued, joined
from gpudoctor.lint.launchfiles.shell_words import Hole, ShellCommand, ShellVariable, Word
from gpudoctor.record import dataclass, replace

if TYPE_CHECKING:
    from tree_sitter import Node

Scripts = Callable[[Word, str | None], PlacedText | None]
"""The text of a script, by the word that names it and the folder from where it is named."""

MAX_BYTES = 64 * 1024
"""A longer script is no launch file."""
MAX_COMMANDS = 2_000
_MAX_CALLS = 4
"""Functions of a script that call each other are followed so deep."""
_ASSIGNING = frozenset({"read", "mapfile", "readarray", "getopts"})


@dataclass(frozen=True)
class ScriptComment:
    """A comment, and the lines of the command that it belongs to."""

    text: str
    at: Location
    first: int
    last: int
    alone: bool


@dataclass(frozen=True)
class Script:
    """What was read of a script."""

    commands: tuple[ShellCommand, ...]
    comments: tuple[ScriptComment, ...]
    head: tuple[ScriptComment, ...]
    """Comments before the first command."""
    scripts: Scripts | None = None
    """Gives those that it sources, and that scripts within its words do."""


def read_script(
    text: PlacedText,
    variables: dict[str, ShellVariable] | None = None,
    *,
    folder: str | None = "",
    per_node: bool = False,
    conditional: bool = False,
    looped: bool = False,
    background: bool = False,
    positional: tuple[Word, ...] | None = None,
    scripts: Scripts | None = None,
) -> Script:
    """Follow a script, with what is known of its variables before. `scripts` gives it those that it sources."""
    state = ShellState(dict(variables or {}), positional, folder=folder, per_node=per_node)
    run = _ScriptRun(text, state, scripts)
    run.state.conditional, run.state.looped, run.state.background = conditional, looped, background
    if len(run.data) > MAX_BYTES:
        return Script((), (), ())
    tree = parser().parse(run.data)
    run.block(tree.root_node.children)
    for name in [name for name, (of, _) in run.functions.items() if of is run and name not in run.called]:
        run.uncalled(name)
    comments = tuple(run.comments(tree.root_node))
    starts = [node.start_byte for node in tree.root_node.children if node.type != "comment"]
    first = run.location_of(starts[0], starts[0]).line if starts else 10**9
    return Script(tuple(run.commands), comments, tuple(each for each in comments if each.at.line < first), scripts)


class _ScriptRun(Expansion):
    """One script on its way from top to bottom."""

    def __init__(self, text: PlacedText, state: ShellState, scripts: Scripts | None = None) -> None:
        super().__init__(text, state)
        self.scripts = scripts
        self.commands: list[ShellCommand] = []
        self.functions: dict[str, tuple[_ScriptRun, Node]] = {}
        self.called: set[str] = set()
        self._depth = 0
        self._sourced = 0

    def comments(self, root: Node) -> Iterator[ScriptComment]:
        todo = [root]
        while todo:
            node = todo.pop()
            todo += reversed(node.children)
            if node.type == "comment":
                yield self._comment(node)

    def _comment(self, node: Node) -> ScriptComment:
        at, before, after = self.location(node), node.prev_sibling, node.next_sibling
        if before is not None and before.end_point.row == node.start_point.row and before.is_named:
            return ScriptComment(self.source(node), at, self.location(before).line, at.line, False)
        begins = self.data.rfind(b"\n", 0, node.start_byte) + 1
        alone = not self.data[begins : node.start_byte].strip()
        while after is not None and after.type == "comment":
            after = after.next_sibling
        if not alone or after is None:
            return ScriptComment(self.source(node), at, at.line, at.line, alone)
        below = self.location(after)
        head = below.line if after.type not in _SIMPLE else below.end_line
        return ScriptComment(self.source(node), at, at.line, head, True)

    # --- statements ---

    def block(self, nodes: Sequence[Node]) -> None:
        for index, node in enumerate(nodes):
            if not node.is_named:
                continue
            follows = nodes[index + 1] if index + 1 < len(nodes) else None
            if follows is not None and follows.type == "&":
                before, self.state.background = self.state.background, True
                # It runs in a shell of its own.
                self._aside([node])
                self.state.background = before
            else:
                self.statement(node)

    def statement(self, node: Node) -> None:
        if len(self.commands) > MAX_COMMANDS:
            return
        kind = node.type
        if kind == "command":
            self._command(node)
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind in ("variable_assignment", "variable_assignments", "declaration_command"):
            self._assign_all(node)
        elif kind == "unset_command":
            for name in self._names_in(node):
                self._forget(name)
        elif kind == "function_definition":
            self._define(node)
        elif kind == "if_statement":
            self._if(node)
        elif kind == "case_statement":
            self._case(node)
        elif kind in ("for_statement", "c_style_for_statement", "while_statement"):
            self._loop(node)
        elif kind == "list":
            self._list(node)
        elif kind in ("pipeline", "subshell"):
            self._aside(node.named_children)
        elif kind == "comment":
            return
        else:
            self.block(node.children)

    def _if(self, node: Node) -> None:
        branches: list[list[Node]] = [[]]
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                branches.append(list(child.children))
            else:
                branches[0].append(child)
        possible: list[list[Node]] = []
        decided = False
        for branch in branches:
            taken = branch[0].type == "else" or self._tested(branch)
            possible += [branch] if taken is not False else []
            decided = taken is True
            if decided:
                break
        if decided and len(possible) == 1:
            self.block(possible[0])
        else:
            # Where nobody leaves a branch by force, what follows it is not known to run.
            self._branches(possible, whole=decided)

    def _case(self, node: Node) -> None:
        items = [child for child in node.children if child.type == "case_item"]
        subject = node.child_by_field_name("value")
        taken = matching(self.word(subject).text if subject is not None else None, items, self)
        if taken is None:
            self._branches([item.children for item in items], whole=False)
        else:
            self.block(taken.children)

    def _tested(self, branch: Sequence[Node]) -> bool | None:
        """What the test between `if` and `then` comes to."""
        tests = list(itertools.takewhile(lambda node: node.type != "then", branch[1:]))
        named = [node for node in tests if node.is_named]
        return holds(named[0], self) if len(named) == 1 else None

    def _branches(self, branches: Sequence[Sequence[Node]], *, whole: bool) -> None:
        before, state = dict(self.state.variables), self.state
        folder, conditional = state.folder, state.conditional
        ends: list[dict[str, ShellVariable]] = [] if whole else [before]
        folders = [] if whole else [folder]
        for branch in branches:
            state.variables, state.folder, state.conditional = dict(before), folder, True
            self.block(branch)
            # `exit 1` in it: what follows knows nothing of this branch.
            if not self._leaves(branch):
                ends.append(state.variables)
                folders.append(state.folder)
        state.variables, state.conditional = joined(ends or [before]), conditional
        state.folder = folders[0] if folders and all(each == folders[0] for each in folders) else None

    def _leaves(self, branch: Sequence[Node]) -> bool:
        last = next((node for node in reversed(branch) if node.is_named and node.type != "comment"), None)
        return last is not None and last.type == "command" and self.source(last).split()[:1] in (["exit"], ["return"])

    def _loop(self, node: Node) -> None:
        before, state = dict(self.state.variables), self.state
        looped, conditional, folder = state.looped, state.conditional, state.folder
        body = [child for child in node.children if child.is_named]
        changed = {name for child in body for name in self._assigned_in(child)}
        if node.type == "for_statement":
            changed |= {self.source(child) for child in node.children if child.type == "variable_name"}
        for name in changed:
            self._forget(name)
        if node.type == "for_statement":
            self._count(node)
        first, waits = len(self.commands), state.waits
        state.looped = True
        for child in body:
            if child.type in ("do_group", "compound_statement"):
                self.block(child.children)
            elif child.type in ("command", "pipeline", "list", "redirected_statement"):
                self.statement(child)
        if state.waits > waits:
            # Each round waits for what it has started.
            self.commands[first:] = [replace(each, looped=looped) for each in self.commands[first:]]
        state.variables = joined([before, state.variables])
        state.looped, state.conditional = looped, conditional
        state.folder = folder if state.folder == folder else None

    def _count(self, node: Node) -> None:
        """What the variable of a loop holds in some round."""
        name, *items = [child for child in node.named_children if child.type not in ("do_group", "comment")]
        bound = self.state.variables[self.source(name)]
        words = [word for each in items for word in self.words(each)]
        if words and not any(word.open or " " in word.shown for word in words):
            hole = replace(bound.word, parts=(Hole(self.source(name), single=True),))
            self.state.variables[self.source(name)] = replace(bound, words=(hole,))

    def _list(self, node: Node) -> None:
        first, *others = node.named_children
        self.statement(first)
        kinds = {child.type for child in node.children if not child.is_named}
        known = holds(first, self) if len(others) == 1 else None
        if known is not None:
            self.block(others if known is ("&&" in kinds) else [])
            return
        for other in others:
            before, conditional = dict(self.state.variables), self.state.conditional
            # `cd x && train` is what happens where all goes well; `test && X=1` may or may not.
            tests = "||" in kinds or first.type in ("test_command", "negated_command")
            self.state.conditional = conditional or tests
            self.statement(other)
            self.state.conditional = conditional
            if tests:
                self.state.variables = joined([before, self.state.variables])

    def has_file(self, name: Word) -> bool:
        """A file of the project has this name."""
        return self.scripts is not None and self.scripts(name, self.state.folder) is not None

    def _aside(self, nodes: Sequence[Node]) -> None:
        """In a shell of their own: what they assign is gone afterwards."""
        before, folder = dict(self.state.variables), self.state.folder
        self.block(nodes)
        self.state.variables, self.state.folder = before, folder

    def _define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[self.source(name)] = (self, body)

    def uncalled(self, name: str) -> None:
        """A function that the script itself does not call: whoever sources it does."""
        self.called.add(name)
        conditional, self.state.conditional = self.state.conditional, True
        self._call(*self.functions[name], None)
        self.state.conditional = conditional

    def _call(self, of: _ScriptRun, body: Node, words: tuple[Word, ...] | None) -> None:
        before = self.state.positional
        self._depth += 1
        self.state.positional = words
        of.statement(body)
        self.state.positional = before
        self._depth -= 1

    # --- variables ---

    def _forget(self, name: str) -> None:
        old = self.state.variables.get(name)
        at = old.at if old is not None else self.text.location(0, 0)
        hole = Word((Hole(name),), at)
        self.state.variables[name] = ShellVariable((hole,), at, old is not None and old.exported)

    def _names_in(self, node: Node) -> Iterator[str]:
        return (self.source(child) for child in node.children if child.type == "variable_name")

    def _assigned_in(self, node: Node) -> Iterator[str]:
        todo = [node]
        while todo:
            each = todo.pop()
            todo += each.children
            if each.type == "variable_assignment":
                name = each.child_by_field_name("name")
                if name is not None:
                    yield self.source(name)
            elif (
                each.type == "command" and self.source(each).split()[:1] and self.source(each).split()[0] in _ASSIGNING
            ):
                yield from (word for word in self.source(each).split()[1:] if word.isidentifier())

    def _assign_all(self, node: Node) -> None:
        words = [self.source(child) for child in node.children if not child.is_named or child.type == "word"]
        exports = bool(words) and (
            words[0] == "export"
            or (words[0] in ("declare", "typeset") and any(w.startswith("-") and "x" in w for w in words))
        )
        for child in [node] if node.type == "variable_assignment" else node.children:
            if child.type == "variable_assignment":
                self._assign(child, exports)
            elif child.type == "variable_name" and exports:
                name = self.source(child)
                known = self.state.variables.get(name)
                at = self.location(child)
                bound = known or ShellVariable((Word((Hole(name),), at),), at)
                self.state.variables[name] = replace(bound, exported=True)

    def _assign(self, node: Node, exports: bool = False) -> None:
        found = self._assignment(node)
        if found is None:
            return
        name, bound = found
        old = self.state.variables.get(name)
        exported = exports or self.state.all_exported or (old is not None and old.exported)
        self.state.variables[name] = replace(bound, exported=exported)

    def _assignment(self, node: Node) -> tuple[str, ShellVariable] | None:
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return None
        name, at = self.source(target), self.location(node)
        adds = any(child.type == "+=" for child in node.children)
        old = self.state.variables.get(name)
        if target.type != "variable_name":
            # One item of an array: what the others hold is not known any more.
            name = self.source(target.children[0]) if target.children else name
            return name, ShellVariable((Word((Hole(name),), at, open=True),), at, array=True)
        if value is not None and value.type == "array":
            words = tuple(
                word for child in value.named_children if child.type != "comment" for word in self.words(child)
            )
            if len(words) > MAX_LENGTH:
                words = (Word((Hole(name),), at, open=True),)
            known = old.words if adds and old is not None and old.array and len(old.words) < MAX_LENGTH else ()
            if adds and old is None:
                known = (Word((Hole(name),), at, open=True),)
            return name, ShellVariable((*known, *words), at, array=True)
        parts = self.parts_of(value)[0] if value is not None else ("",)
        if adds and old is not None and len(old.word.parts) + len(old.word.shown) > MAX_LENGTH:
            parts = (Hole(name),)
        elif adds:
            parts = (*(old.word.parts if old is not None else (Hole(name),)), *parts)
        return name, ShellVariable((Word(glued(parts), at),), at)

    # --- commands ---

    def _redirected(self, node: Node) -> None:
        before = len(self.commands)
        for child in node.named_children:
            if not child.type.endswith("redirect"):
                self.statement(child)
        bodies = [part for child in node.children if child.type == "heredoc_redirect" for part in child.children]
        body = next((part for part in bodies if part.type == "heredoc_body"), None)
        if body is not None and len(self.commands) > before:
            quoted = any(part.type == "heredoc_start" and self.source(part)[:1] in "'\"\\" for part in bodies)
            span = self.offset(body.start_byte), self.offset(body.end_byte)
            parts, spans = ((self.source(body),), (span,)) if quoted else self.parts_of(body)
            here = Word(parts, self.location(body), inside=spans)
            self.commands[before] = replace(self.commands[before], heredoc=here)

    def _command(self, node: Node) -> None:
        given = dict(self.state.variables)
        words: list[Word] = []
        prefixed: dict[str, ShellVariable] = {}
        for child in node.children:
            if child.type == "variable_assignment":
                found = self._assignment(child)
                if found is not None:
                    prefixed[found[0]] = replace(found[1], exported=True)
            elif child.type == "command_name":
                for part in child.children:
                    words += self.words(part)
            elif child.is_named and not child.type.endswith("redirect") and child.type != "comment":
                words += self.words(child)
            if len(words) > MAX_LENGTH:
                return
        if words:
            self._run(node, tuple(words), {**given, **prefixed})

    def _run(self, node: Node, words: tuple[Word, ...], given: dict[str, ShellVariable]) -> None:
        name, state = words[0].text, self.state
        if name == "cd":
            goal = words[1].text if len(words) == 2 else None
            beside = words[1].beside if len(words) == 2 else None
            if goal is not None and state.folder is not None and not goal.startswith(("~", "-")):
                state.folder = posixpath.join(state.folder, goal)
            else:
                state.folder = beside
        elif name == "set" and len(words) > 1:
            if words[1].text == "-a" or (len(words) > 2 and words[2].text == "allexport"):
                state.all_exported = True
            elif words[1].text == "--":
                state.positional = None
        elif name == "wait":
            state.waits += 1
        elif name == "shift":
            self._shift(words[1].number if len(words) > 1 else 1)
        elif name in _ASSIGNING or name == "unset":
            for word in words[1:]:
                if word.text is not None and word.text.isidentifier():
                    self._forget(word.text)
            if name == "read":
                self._read_array(node, words, given)
        if name in self.functions and self._depth < _MAX_CALLS:
            self.called.add(name)
            # `CUDA_VISIBLE_DEVICES=0,1 launch train.py`: what stands before it holds for its commands.
            before, state.variables = state.variables, dict(given)
            self._call(*self.functions[name], words[1:])
            told = {key for key, bound in given.items() if before.get(key) is not bound}
            kept = {key: bound for key, bound in state.variables.items() if key not in told}
            state.variables = kept | {key: before[key] for key in told & before.keys()}
            return
        if name in ("source", ".") and len(words) > 1:
            self._source(words[1])
            return
        exported = {key: bound for key, bound in given.items() if bound.exported}
        self.commands.append(
            ShellCommand(
                words,
                self.location(node),
                exported,
                state.conditional,
                state.looped,
                state.background,
                state.per_node,
                state.waits,
                state.folder,
            )
        )

    def _read_array(self, node: Node, words: Sequence[Word], given: Mapping[str, ShellVariable]) -> None:
        """`IFS=, read -ra GPUS <<< "$LIST"`"""
        text, between = self.herestring(node), given["IFS"].word.text if "IFS" in given else " "
        flags = [word.shown for word in words[1:-1]]
        if text is None or not between or not any(flag.startswith("-") and "a" in flag for flag in flags):
            return
        at = self.location(node)
        items = tuple(Word((each,), at) for each in text.strip().split(between.strip() or None))
        self.state.variables[words[-1].shown] = ShellVariable(items, at, array=True)

    def _shift(self, count: int | None) -> None:
        given = self.state.positional
        known = given is not None and count is not None and not any(word.open for word in given[:count])
        # In a loop or in a branch it may be done or not.
        sure = known and not self.state.looped and not self.state.conditional
        self.state.positional = given[count:] if given is not None and sure else None

    def _source(self, name: Word) -> None:
        """Another script goes on in the place of this command, with the same variables."""
        text = self.scripts(name, self.state.folder) if self.scripts is not None else None
        if text is None or self._sourced >= _MAX_CALLS:
            return
        inner = _ScriptRun(text, self.state, self.scripts)
        inner.commands, inner.functions, inner.called = self.commands, self.functions, self.called
        inner._sourced = self._sourced + 1
        if len(inner.data) <= MAX_BYTES:
            inner.block(parser().parse(inner.data).root_node.children)


_SIMPLE = frozenset(
    {"command", "redirected_statement", "variable_assignment", "declaration_command", "list", "pipeline"}
)
"""What a comment above it means as a whole."""
