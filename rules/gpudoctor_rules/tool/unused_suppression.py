"""A comment silences a rule that finds nothing there.

## What goes wrong

Nothing yet. The comment outlived the mistake that it was written for, or stands on another line than the one that is
reported. It will hide the mistake when somebody makes it again on that line, and until then it tells readers that
something is wrong here.

A comment counts for what starts on its own line; at the end of a statement that goes over several lines it counts for
all of them. On a line of its own it silences nothing, except `ignore-file`.

## Fix

Safe: remove the code, or the whole comment where nothing else is left in it. The program does not change, and no
finding appears, because there was none.

## Silent when

The rule that the comment names did not run, or a part of the program could not be followed, so that it is not known
whether the comment is of use. A plain `# noqa` and the codes of other linters are never judged.

## Sources

Off by default, because it is advice. The same check exists in other linters:
https://docs.astral.sh/ruff/rules/unused-noqa/
"""

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.rule import Rule


class UnusedSuppression(Rule):
    """Lint itself finds it, from the comments that were of no use once all rules have been asked."""

    code = "GPU002"
    # Advice about comments must not break the build of a program that is right.
    severity = Severity.INFO
    fix_safety = Safety.SAFE
