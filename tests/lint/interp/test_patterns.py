"""`match`: which pattern fits, and what its names hold."""

import pytest

MATCHES = {
    "a mapping": ("""{"kind": "ddp", "n": 4}""", "('ddp', 4)"),
    "the rest of a mapping": ("""{"kind": "fsdp", "n": 4, "m": 5}""", "('fsdp', {'n': 4, 'm': 5})"),
    "an attribute by its place": ("""Settings("fsdp")""", "'settings of FSDP'"),
    "attributes by their names": ("""Settings()""", "('settings', 1)"),
    "the rest of a sequence": ("""[1, 2, 3]""", "('first', [2, 3])"),
    "a sequence of so many": ("""(4, 5, "z")""", "(4, 5)"),
    "a kind": ("""3.5""", "('number', 3.5)"),
    "a text, which is no sequence": ("""'abc'""", "('text', 'abc')"),
    "nothing": ("""None""", "'nothing'"),
    "none of them": ("""{}""", "'other'"),
}


@pytest.mark.parametrize(("given", "shown"), MATCHES.values(), ids=MATCHES)
def test_which_pattern_fits(paper, given, shown):
    paper(
        f"""
        from dataclasses import dataclass
        @dataclass
        class Settings:
            kind: str = "ddp"
            number: int = 1
        def chosen(given):
            match given:
                case {{"kind": "fsdp", **rest}}:
                    return "fsdp", rest
                case {{"kind": str() as kind, "n": n}}:
                    return kind, n
                case Settings("fsdp"):
                    return "settings of FSDP"
                case Settings(kind="ddp", number=n):
                    return "settings", n
                case [1, *others]:
                    return "first", others
                case (a, b, "z"):
                    return a, b
                case int(number) | float(number):
                    return "number", number
                case str() as text:
                    return "text", text
                case None:
                    return "nothing"
            return "other"
        reveal(chosen({given}))  #: {shown}
        """
    )


def test_what_may_fit_is_said_as_it_is_written(paper):
    paper(
        """
        import sys
        match sys.argv:
            case [_, "--cpu"]:
                device = "cpu"
            case _:
                device = "cuda"
        reveal(device)  #: 'cpu' if case [_, '--cpu'] | 'cuda' if not (case [_, '--cpu'])
        """
    )
