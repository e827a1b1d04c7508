"""Markdown of the repository as pages of the site: links to pages, codes that lead to their rules, code in colours."""

import ast
import os
import posixpath
import re
from collections.abc import Callable, Mapping
from textwrap import dedent

Change = Callable[[str], str]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?<![\w/\[`-])GPU\d{3}(?![\w\]`])")
_ISSUE = re.compile(r"(?<![\w/])([\w.-]+/[\w.-]+)#(\d+)")
_ADDRESS = re.compile(r"(?<![(<\w])https?://[^\s)>,]+[^\s)>,.;]")
_BLOCK = re.compile(r"(^```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)
# What is shown as it is: blocks between fences, and code between backticks.
_VERBATIM = re.compile(r"(^```.*?^```[ \t]*$|`+[^`\n]+`+)", re.MULTILINE | re.DOTALL)


def page(text: str, source: str, target: str, targets: Mapping[str, str], rules: Mapping[str, str]) -> str:
    """The text of the file `source` as the page `target`, both by their paths.

    `targets` has the pages that files of the repository become, `rules` the names of the rules by code.
    """
    text = _fenced(text)
    text = _outside(_BLOCK, text, lambda piece: _LINK.sub(lambda link: _linked(link, source, target, targets), piece))
    here = posixpath.dirname(target)

    def to_rule(code: re.Match[str]) -> str:
        name = rules.get(code[0])
        known = name and target != f"rules/{name}.md"
        return f"[{code[0]}]({relative(f'rules/{name}.md', here)})" if known else code[0]

    return _outside(_VERBATIM, text, lambda piece: _prose(piece, lambda words: _CODE.sub(to_rule, words)))


def sources(text: str) -> str:
    """Addresses and issues as links: `pytorch/pytorch#31771` is one of GitHub."""
    text = _ADDRESS.sub(lambda found: f"<{found[0]}>", text)
    return _ISSUE.sub(lambda found: f"[{found[0]}](https://github.com/{found[1]}/issues/{found[2]})", text)


def relative(target: str, folder: str) -> str:
    """The way to a page from a folder of pages."""
    return posixpath.relpath(target, folder or ".")


def code_block(code: str, language: str) -> str:
    """Code between fences that it does not hold itself."""
    fence = "````" if "```" in code else "```"
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def _in_colours(code: str) -> str:
    """A block between fences, with its language as far as it can be told."""
    try:
        ast.parse(code)
    except SyntaxError:
        return code_block(code, "sh" if re.match(r"(gpudoctor|srun|torchrun|python) ", code) else "text")
    return code_block(code, "python")


def _linked(link: re.Match[str], source: str, target: str, targets: Mapping[str, str]) -> str:
    picture, text, goal = link.groups()
    if "://" in goal or goal.startswith("#"):
        return link[0]
    path, mark, anchor = goal.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    found = targets.get(path)
    if found is None:
        # A file of the repository that is no page of the site is named: there is no address to lead to. What is not
        # there at all is told by the build.
        return text if os.path.exists(path) else link[0]
    return f"{picture}[{text}]({relative(found, posixpath.dirname(target))}{mark}{anchor})"


def _outside(shown: re.Pattern[str], text: str, change: Change) -> str:
    pieces = shown.split(text)
    return "".join(piece if at % 2 else change(piece) for at, piece in enumerate(pieces))


def _prose(piece: str, change: Change) -> str:
    # A link in a heading would stand in the table of contents, too, and none may stand in another.
    return "".join(line if line.startswith("#") else _each(line, change) for line in piece.splitlines(keepends=True))


def _each(line: str, change: Change) -> str:
    pieces = re.split(r"(\[[^\]]*\]\([^)]*\))", line)
    return "".join(piece if at % 2 else change(piece) for at, piece in enumerate(pieces))


def _fenced(text: str) -> str:
    """Indented programs between fences; those of lists stay, which are no programs of their own."""
    out: list[str] = []
    block: list[str] = []
    fenced = False
    before = ""
    for line in [*text.split("\n"), "end"]:
        fenced ^= line.startswith("```")
        inside = not fenced and (line.startswith("    ") and (block or before == ""))
        if inside or (block and not line.strip()):
            block.append(line)
            continue
        if block:
            if any(out) and not re.match(r"([*-]|\d+\.) ", next(each for each in reversed(out) if each)):
                out += [*_in_colours(dedent("\n".join(block))).split("\n"), ""]
            else:
                out += block
            block = []
        out.append(line)
        before = line
    return "\n".join(out[:-1])
