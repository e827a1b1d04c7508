"""`gpudoctor completion`: makes a shell complete what is typed after `gpudoctor`.

The scripts know nothing: at each TAB they hand the words to this command, which answers from the options and the rules
that are installed. So they never grow stale, and there is one implementation for all shells.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from textwrap import dedent

from gpudoctor.cli.command import Command, one_of
from gpudoctor.cli.output import write_out
from gpudoctor.cli.suggestions import Suggestion, suggestions

FILES = ":files"
"""The answer that leaves the word to the shell, which knows files. No word that is suggested begins with a colon."""

BASH = f"""\
    # Put this into ~/.bashrc:  eval "$(gpudoctor completion bash)"
    _gpudoctor() {{
        local line
        COMPREPLY=()
        while IFS= read -r line; do
            if [[ $line == {FILES} ]]; then
                compopt -o default
            else
                COMPREPLY+=("$line")
            fi
        done < <("${{COMP_WORDS[0]}}" completion bash -- "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
    }}
    complete -F _gpudoctor gpudoctor
"""

ZSH = f"""\
    #compdef gpudoctor
    # Put this into ~/.zshrc, after compinit:  eval "$(gpudoctor completion zsh)"
    _gpudoctor() {{
        local -a found
        found=("${{(@f)$("${{words[1]}}" completion zsh -- "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
        if [[ $found[1] == {FILES} ]]; then
            _files
        elif [[ -n $found[1] ]]; then
            _describe gpudoctor found
        fi
    }}
    compdef _gpudoctor gpudoctor
"""

FISH = f"""\
    # Put this into ~/.config/fish/config.fish:  gpudoctor completion fish | source
    function __gpudoctor_suggestions
        set -l before (commandline -opc)
        set -l current (commandline -ct)
        set -l found ($before[1] completion fish -- $before[2..-1] "$current" 2>/dev/null)
        if test "$found[1]" = {FILES}
            __fish_complete_path "$current"
        else
            printf '%s\\n' $found
        end
    end
    complete -c gpudoctor -f -a '(__gpudoctor_suggestions)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


class Completion(Command):
    """Print the completion script of a shell, for commands, options and rules.

    For bash put `eval "$(gpudoctor completion bash)"` into ~/.bashrc; for zsh the same with zsh into ~/.zshrc, after
    compinit; for fish `gpudoctor completion fish | source` into ~/.config/fish/config.fish.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", metavar="|".join(SCRIPTS), type=one_of(*SCRIPTS), help="the shell to complete in")
        # What a script hands over; nobody types it.
        words = parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        # Or it would be named where the shell is missing.
        words.required = False

    def run(self, options: argparse.Namespace) -> int:
        if "--" not in options.arguments:
            write_out(dedent(SCRIPTS[options.shell]))
            return 0
        # Versions of argparse differ in which `--` they drop.
        words = options.arguments[options.arguments.index("--") + 1 :]
        found = suggestions(words)
        lines = [FILES] if found is None else map(_LINES[options.shell], found)
        write_out("".join(f"{line}\n" for line in lines))
        return 0


def _for_zsh(suggestion: Suggestion) -> str:
    word = suggestion.word.replace(":", "\\:")
    return f"{word}:{suggestion.meaning}" if suggestion.meaning else word


def _for_fish(suggestion: Suggestion) -> str:
    return "\t".join(part for part in suggestion if part)


_LINES: dict[str, Callable[[Suggestion], str]] = {
    "bash": lambda suggestion: suggestion.word,
    "zsh": _for_zsh,
    "fish": _for_fish,
}
