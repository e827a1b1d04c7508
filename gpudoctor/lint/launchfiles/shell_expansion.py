"""How the shell expands words: variables, arrays, arithmetic, and what small commands print."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.quoted_script import ESCAPE
from gpudoctor.lint.launchfiles.shell_output import output_of, replaced
from gpudoctor.lint.launchfiles.shell_values import calculated, is_list, is_open, plain_text, unescaped
from gpudoctor.lint.launchfiles.shell_words import Hole, ShellVariable, Word, WordPart
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.launchfiles.placed_text import PlacedText

MAX_LENGTH = 10_000
"""Letters of a word, and words of a command or an array: more are not known. A line can double a variable."""


@dataclass
class ShellState:
    """What is known where the script is."""

    variables: dict[str, ShellVariable]
    positional: tuple[Word, ...] | None = None
    folder: str | None = ""
    per_node: bool = False
    conditional: bool = False
    looped: bool = False
    background: bool = False
    all_exported: bool = False
    waits: int = 0


class Expansion:
    """What the words of a script come to where it is."""

    def __init__(self, text: PlacedText, state: ShellState) -> None:
        self.text = text
        self.data = text.text.encode()
        self._continuing = [found.start() for found in re.finditer(rb"[\x80-\xbf]", self.data)]
        """The bytes at which no character begins."""
        self.state = state

    def offset(self, byte: int) -> int:
        return byte - bisect_left(self._continuing, byte)

    def location_of(self, start: int, end: int) -> Location:
        return self.text.location(self.offset(start), self.offset(end))

    def location(self, node: Node) -> Location:
        return self.location_of(node.start_byte, node.end_byte)

    def source(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def word(self, node: Node) -> Word:
        """What a node says, as one word."""
        return Word(self.parts_of(node)[0], self.location(node))

    def words(self, node: Node) -> list[Word]:
        """The words that one argument comes to."""
        if node.type in ("simple_expansion", "expansion"):
            return self._expanded(node)
        at = self.location(node)
        if node.type == "string":
            inner = [child for child in node.children if child.is_named]
            if (
                len(inner) == 1
                and inner[0].type in ("simple_expansion", "expansion")
                and is_list(self.source(inner[0]))
            ):
                return self._listed(inner[0])
        if node.type == "brace_expression":
            return [Word((Hole(),), at, open=True)]
        parts, spans = self.parts_of(node)
        if node.type == "command_substitution":
            known = isinstance(parts[0], str)
            return self._split(parts, node) if known else [Word(parts, at, open=True, inside=spans)]
        return [Word(parts, at, inside=spans)]

    def _expanded(self, node: Node) -> list[Word]:
        """An expansion without quotes, which may be several words."""
        if is_list(self.source(node)):
            return self._listed(node)
        return self._split(self._value_of(node), node)

    def _split(self, parts: Sequence[WordPart], node: Node) -> list[Word]:
        """What is expanded without quotes around it."""
        at = self.location(node)
        found: list[list[WordPart]] = [[]]
        for part in parts:
            if isinstance(part, Hole):
                found[-1].append(part)
                continue
            # Blanks end a word; what touches what is not known is a part of it.
            first, *others = re.split(r"\s+", part)
            found[-1] += [first] if first else []
            found += [[text] if text else [] for text in others]
        span = self.offset(node.start_byte), self.offset(node.end_byte)
        return [Word(tuple(each), at, is_open(each), (span,) * len(each)) for each in found if each]

    def _listed(self, node: Node) -> list[Word]:
        """`"$@"` and `"${ARRAY[@]}"`."""
        source, at = self.source(node), self.location(node)
        name = re.match(r"\$\{?([\w@*]+)", source)
        plain = re.fullmatch(r"\$[@*]|\$\{[@*]\}|\$\{\w+\[[@*]\]\}", source)
        if name is not None and plain:
            if name[1] in ("@", "*"):
                if self.state.positional is not None:
                    return list(self.state.positional)
            else:
                known = self.state.variables.get(name[1])
                if known is not None and known.array:
                    return list(known.words)
        return [Word((Hole(name[1] if name else ""),), at, open=True)]

    def parts_of(self, node: Node) -> tuple[tuple[WordPart, ...], tuple[tuple[int, int], ...]]:
        found: list[tuple[WordPart, int, int]] = []
        length = 0
        for each in self._raw(node):
            length += 1 if isinstance(each[0], Hole) else len(each[0]) + 1
            if length > MAX_LENGTH:
                return (Hole(),), ((self.offset(node.start_byte), self.offset(node.end_byte)),)
            # `-I{}` is three nodes for the parser. The lines of a script keep their places where its parts stay apart.
            last = found[-1] if found and node.type != "heredoc_body" else None
            if last is not None and isinstance(last[0], str) and isinstance(each[0], str) and last[2] == each[1]:
                each = last[0] + each[0], found.pop()[1], each[2]
            found.append(each)
        if len(found) == 1:
            return (found[0][0],), ((self.offset(found[0][1]), self.offset(found[0][2])),)
        spans = tuple((self.offset(start), self.offset(end)) for _, start, end in found)
        parts = tuple(part for part, _, _ in found)
        return (parts, spans) if found else (("",), ())

    def _raw(self, node: Node) -> Iterator[tuple[WordPart, int, int]]:
        kind, start, end = node.type, self._begin(node), node.end_byte
        if kind == "raw_string":
            yield self.source(node)[1:-1], start + 1, end - 1
        elif kind == "ansi_c_string":
            yield unescaped(self.source(node)[2:-1]), start, end
        elif kind in ("string", "translated_string"):
            yield from self._mixed(node, node.start_byte + (2 if kind == "translated_string" else 1), end - 1)
        elif kind == "heredoc_body":
            yield from self._mixed(node, start, end)
        elif kind == "concatenation":
            for child in node.children:
                yield from self._raw(child)
        elif kind in ("simple_expansion", "expansion"):
            for part in self._value_of(node):
                yield part, start, end
        elif kind == "command_substitution":
            inner = node.named_children
            printed = self._output(inner[0], None) if len(inner) == 1 else None
            yield Hole(commands=tuple(self._inner(node))) if printed is None else printed.rstrip("\n"), start, end
        elif kind == "arithmetic_expansion":
            number = self.arithmetic(node)
            yield Hole() if number is None else str(number), start, end
        elif kind in ("brace_expression", "process_substitution"):
            yield Hole(), start, end
        else:
            yield _without_escapes(r"\\(\n|.)", self.source(node)), start, end

    def _begin(self, node: Node) -> int:
        """Where it begins: for the parser, an expansion takes in the blanks between it and another one."""
        source = self.data[node.start_byte : node.end_byte]
        blanks = len(source) - len(source.lstrip()) if node.type == "simple_expansion" else 0
        return node.start_byte + blanks

    def _mixed(self, node: Node, at: int, end: int) -> Iterator[tuple[WordPart, int, int]]:
        """Text, with what is expanded in it."""
        for child in node.children:
            if child.type in ("string_content", "heredoc_content", '"', "$"):
                continue
            begins = self._begin(child)
            if begins > at:
                yield self._literal(at, begins), at, begins
            yield from self._raw(child)
            at = child.end_byte
        if at < end:
            yield self._literal(at, end), at, end
        elif not node.named_children:
            yield "", at, end

    def _literal(self, start: int, end: int) -> str:
        return _without_escapes(ESCAPE, self.data[start:end].decode("utf-8", "replace"))

    def _value_of(self, node: Node) -> tuple[WordPart, ...]:
        source = self.source(node).lstrip()
        match = re.fullmatch(r"\$(\w+|[@*#?$!-])|\$\{(\w+)\}", source)
        if match is None:
            parts, at = self._with_default(source), self.location(node)
            assigns = re.match(r"\$\{(\w+):?=", source)
            if assigns is not None:
                self.state.variables.setdefault(assigns[1], ShellVariable((Word(parts, at),), at))
            return parts
        name = match[1] or match[2]
        if name == "#" and self.state.positional is not None and not any(w.open for w in self.state.positional):
            return (str(len(self.state.positional)),)
        if name.isdecimal():
            given = self._argument(name)
            return given.parts if given is not None else (Hole(name),)
        bound = self.state.variables.get(name)
        return bound.word.parts if bound is not None else (Hole(name),)

    def _argument(self, number: str) -> Word | None:
        given, index = self.state.positional, int(number) - 1
        known = given is not None and not any(word.open for word in given) and 0 <= index < len(given)
        return given[index] if given is not None and known else None

    def _with_default(self, source: str) -> tuple[WordPart, ...]:
        match = re.match(r"\$\{#?(\w+)(?:(:?[-+=?])(.*)\}$)?", source, re.DOTALL)
        name, sign = (match[1], (match[2] or "").lstrip(":")) if match else ("", "")
        bound = self.state.variables.get(name)
        if name.isdecimal() and sign and sign in "-=?" and (given := self._argument(name)) is not None and given.text:
            return given.parts
        if sign and sign in "-=?" and bound is not None and bound.word.text:
            return bound.word.parts
        known = self._changed(source, name, bound) if not sign else None
        if known is not None:
            return (known,)
        default: str | None = None
        if match is not None and sign and sign in "-=":
            default = bound.word.usual if bound is not None else None
            # What it was given counts, known or not.
            if not default and (bound is None or bound.word.parts in ((Hole(name),), ("",))):
                default = plain_text(match[3])
        return (Hole(name, default=default),)

    def _changed(self, source: str, name: str, bound: ShellVariable | None) -> str | None:
        """What `${#GPUS}`, `${GPUS//,/ }`, `${FILE%.sh}` and `${NODES[0]}` come to."""
        words = bound.words if bound is not None and not any(word.open for word in bound.words) else None
        index = re.fullmatch(r"\$\{\w+\[\"?(\$?)\{?(\w+)\}?\"?\]\}", source)
        if re.fullmatch(r"\$\{#\w+\[[@*]\]\}", source) and bound is not None and bound.array:
            return str(len(words)) if words is not None else None
        if index is not None and bound is not None and bound.array:
            held = self.state.variables.get(index[2]) if index[1] else None
            key = held.word.text if held is not None else index[2]
            keyed = next((item for word in words or () if (item := word.after(f"[{key}]=")) is not None), None)
            if keyed is not None:
                return keyed.text
            number = int(index[2]) if index[2].isdecimal() else self._number_of(index[2])
            return words[number].text if words is not None and number is not None and number < len(words) else None
        text = bound.word.text if bound is not None else None
        if text is None:
            return None
        if source == f"${{#{name}}}":
            return str(len(text))
        change = re.fullmatch(r"\$\{\w+(//?|##?|%%?)((?:\\.|[^/])*)(?:/(.*))?\}", source, re.DOTALL)
        if change is None:
            return None
        if change[1] not in ("/", "//"):
            change = re.fullmatch(r"\$\{\w+(##?|%%?)(.*)()\}", source, re.DOTALL) or change
        pattern, new = plain_text(change[2].replace("\\", "")), plain_text(change[3] or "")
        return replaced(text, change[1], pattern, new) if pattern is not None and new is not None else None

    def _number_of(self, name: str) -> int | None:
        bound = self.state.variables.get(name)
        return bound.word.number if bound is not None else None

    def _inner(self, node: Node) -> Iterator[tuple[str, ...]]:
        """The commands whose output is taken."""
        todo = list(node.named_children)
        while todo:
            each = todo.pop(0)
            if each.type == "command":
                yield tuple(word.text or "" for word in self._words_in(each))
            else:
                todo += each.named_children

    def _words_in(self, command: Node) -> list[Word]:
        nodes = (
            part
            for child in command.children
            for part in (child.children if child.type == "command_name" else [child])
            if part.is_named and not part.type.endswith("redirect")
        )
        return [word for part in nodes for word in self.words(part)]

    def herestring(self, command: Node) -> str | None:
        """What a command reads from `<<< "$GPUS"`."""
        of = next((child.named_children for child in command.children if child.type == "herestring_redirect"), [])
        text = self.word(of[0]).text if of else None
        return f"{text}\n" if text is not None else None

    def _output(self, node: Node, given: str | None) -> str | None:
        """What is printed where this is read; None where that is not known."""
        if node.type == "pipeline":
            for child in node.named_children:
                given = self._output(child, given)
            return given
        if node.type == "redirected_statement":
            body, *others = node.named_children
            errors = all(self.source(each).startswith("2>") for each in others)
            return self._output(body, given) if errors else None
        given = self.herestring(node) or given
        texts = [word.text for word in self._words_in(node)] if node.type == "command" else []
        known = [text for text in texts if text is not None]
        return output_of(known, given) if known and len(known) == len(texts) else None

    def arithmetic(self, node: Node) -> int | None:
        if node.type in ("arithmetic_expansion", "parenthesized_expression"):
            inner = node.named_children
            return self.arithmetic(inner[0]) if len(inner) == 1 else None
        if node.type == "binary_expression" and len(node.children) == 3:
            left, right = self.arithmetic(node.children[0]), self.arithmetic(node.children[2])
            return calculated(self.source(node.children[1]), left, right)
        if node.type in ("simple_expansion", "expansion", "command_substitution"):
            return self.word(node).number
        source = self.source(node)
        if source.isdecimal():
            return int(source)
        return self._number_of(source)


def _without_escapes(escape: str, text: str) -> str:
    """The text with what its escapes stand for: themselves, or nothing for the end of a line."""
    return re.sub(escape, lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text
