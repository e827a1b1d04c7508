"""At which address processes meet, as far as it is known."""

from __future__ import annotations

from gpudoctor.lint.domain.value import Values, text_of

HERE = ("localhost", "127.", "0.0.0.0", "::1", "[::1]")


def is_here(values: Values) -> bool:
    """Only this machine has the address: `setdefault` and arguments leave it open."""
    # `f"tcp://localhost:{port}"` has an open end; the host stands before it.
    return values.all(lambda value: (text_of(value.in_text[0]) or "").removeprefix("tcp://").startswith(HERE))
