"""Numbers, texts and their kinds."""

import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

claim(isinstance(True, int) and not isinstance(1, bool) and bool() is False and bool("") is False)
claim(isinstance([], list) and isinstance([], Sequence) and isinstance([], Iterable) and isinstance((), Iterable))
claim(isinstance({}, Mapping) and isinstance({1}, set) and not isinstance({1}, list) and isinstance("a", str))
claim(float(True) is not True and int(False) is not False and 1 == True)
claim(abs(-2) == 2 and round(1.6) == 2 and max(3, 5) == 5 and min([3, 5]) == 3 and sum([1, 2]) == 3)
claim(divmod(7, 2) == (3, 1) and 7 // 2 == 3 and 2**3 == 8 and 6 & 3 == 2 and 1 << 3 == 8)
claim(math.ceil(1.2) == 2 and math.floor(1.8) == 1 and math.sqrt(4) == 2)
claim(int("3") == 3 and float("1.5") == 1.5 and str(3) == "3")
width = 10
claim(f"x={10:{width}}" == "x=        10" and f"{3:02d}" == "03" and f"{'a'!r}" == "'a'" and repr("a") == "'a'")
claim("{:.2f}".format(1.0) == "1.00" and "{b}-{a}".format(a=1, b=2) == "2-1" and "%02d" % 3 == "03")
claim("a-b".split("-") == ["a", "b"] and ",".join(["a", "b"]) == "a,b" and "a.b.c".rsplit(".", 1) == ["a.b", "c"])
claim("abc"[1:] == "bc" and "abc"[-1] == "c" and "x" * 3 == "xxx")
claim("Abc".lower() == "abc" and "a.b".replace(".", "_") == "a_b" and "ab".startswith("a"))
claim(os.path.join("a", "b") == "a/b" and os.path.basename("a/b.py") == "b.py")
claim(os.path.splitext("b.py")[0] == "b" and str(pathlib.Path("a") / "b") == "a/b")
claim(pathlib.Path("a/b.txt").stem == "b" and pathlib.Path("a/b.txt").suffix == ".txt")
claim((None or 3) == 3 and (0 and 3) == 0 and (3 if not [] else 4) == 3)

# The kind of a value makes others of its kind.
claim(type(3) is int and type(0.5)("2") == 2.0 and type("3")(4) == "4")

# Whether there is anything in a list, asked in its several ways.
gpus = [int(each) for each in os.environ.get("GPUS", "0,1").split(",") if int(each) >= 0]
if gpus:
    claim(len(gpus) > 0 and len(gpus) != 0 and len(gpus) >= 1 and bool(len(gpus)))
else:
    claim(not len(gpus) and len(gpus) == 0 and len(gpus) < 1 and len(gpus) <= 0)

# What is too much to be kept one by one has kinds all the same.
for value in (1, "two", 3.0, 4, "five", 6.0, 7, "eight", 9.0, 10, "eleven", 12.0, 13, "fourteen", 15.0, 16, "seventeen"):
    claim(type(value) is not dict)


def chosen(settings):
    def of(name):
        return name in settings and eval(f"settings[{name!r}]")

    return of("width") + eval("1 + 1")


claim(chosen({"width": 3}) == 5)
claim(max(["b", "a"], key=len) in ("b", "a"))
