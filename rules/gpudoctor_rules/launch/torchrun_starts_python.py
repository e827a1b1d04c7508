"""A launcher is told to start `python`, which it takes for the script.

## What goes wrong

`torchrun` starts Python itself, and the first word after its options is the script. With
`torchrun --nproc-per-node=4 python train.py` each process looks for a file called `python` and ends with
`can't open file '.../python': [Errno 2] No such file or directory`. `accelerate launch` and `deepspeed` do the same.

## Fix

Leave the word `python` out. Safe: the command could not start anything before.

## Silent when

`--no-python` says that the word is a command; a file of that name is there.

## Sources

https://docs.pytorch.org/docs/stable/elastic/run.html, https://huggingface.co/docs/accelerate/basic_tutorials/launch.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.launchfiles.start import StartedBy
from gpudoctor.rule import Findings, Launched, Rule

_PYTHONS = ("python", "python3", "python2")
_FLAGS = ("-u", "-B", "-O", "-s", "-E", "-I")


class TorchrunStartsPython(Rule):
    code = "GPU424"
    severity = Severity.ERROR
    fix_safety = Safety.SAFE
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            script = launch.script
            name = script.usual if script is not None else None
            if launch.launcher is StartedBy.PYTHON or script is None or name not in _PYTHONS:
                continue
            if "no-python" in launch.options or launched.path_of(file, launch) is not None or launch.module:
                continue
            flags = []
            for word in launch.arguments:
                if word.text not in _FLAGS:
                    break
                flags.append(word)
            after = launch.arguments[len(flags)].text if len(launch.arguments) > len(flags) else None
            whole = after is not None and not after.startswith("-")
            title = f"Leave `{name}` out"
            yield self.found(
                script.at,
                f"`{launch.launcher.value}` takes `{name}` for the script: every process ends with `can't open "
                f"file '.../{name}': [Errno 2] No such file or directory`.",
                remedy=f"Leave `{name}` out: the launcher starts Python itself.",
                fix=launched.without_words([script, *flags], Safety.SAFE, title) if whole else None,
            )
