"""A comment that should silence a rule names none that exists.

## What goes wrong

The comment does nothing. Its author believes that the finding was dealt with, and it comes back in the next run; or
the line looks as if it had been reviewed, and the mistake is only made later.

## Fix

By hand: write the code or the name that the message proposes; `gpudoctor rules` lists them all. Codes (`GPU204`),
beginnings of codes (`GPU2`) and names can stand between the brackets, separated by commas. No automatic fix, because
the comment would then start to silence something.

## Silent when

The comment names a rule that exists but did not run. In `# noqa: ...` only codes that begin with `GPU` are looked at:
the others belong to other linters. A comment that merely begins with `gpudoctor:` and goes on in prose is not a
directive.

## Sources

The same check exists in other linters, for the same reason: https://docs.astral.sh/ruff/rules/invalid-rule-code/
"""

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Rule


class UnknownSuppression(Rule):
    """Lint itself finds it when it reads the comments of a file."""

    code = "GPU003"
    # A typing error here means that what the author wanted silenced is not, or will not be.
    severity = Severity.WARNING
