"""However a program finds its modules, its training is reached."""

import pytest

from tests.support.entry_files import ENGINE, assert_trains, followed

SEARCH_PATHS = [
    'sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../code/core"))',
    'sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/code/core")',
    'sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "code" / "core"))',
    'sys.path.insert(0, str(Path(__file__).resolve().parents[1].joinpath("code", "core")))',
    'sys.path.append(f"{os.path.dirname(__file__)}/../code/core")',
    'sys.path.append(os.path.abspath(os.path.join(__file__, os.pardir, os.pardir, "code", "core")))',
    'sys.path.append(os.path.join(os.path.split(os.path.abspath(__file__))[0], "..", "code", "core"))',
    'sys.path += [os.path.join(os.path.dirname(__file__), "..", "code", "core")]',
    'sys.path.extend([os.path.join(os.path.dirname(__file__), "..", "code", each) for each in ("core", "more")])',
    'sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "code", "core")]',
    'sys.path = [os.path.join(os.path.dirname(__file__), "..", "code", "core"), *sys.path]',
    'sys.path = [os.path.join(os.path.dirname(__file__), "..", "code", "core")] + sys.path',
    'site.addsitedir(os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'from sys import path; path.append(os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'sys.path.append("../code/core")',
]  # fmt: skip


@pytest.mark.parametrize("change", SEARCH_PATHS)
def test_a_search_path_that_the_program_computes(change: str) -> None:
    start = f"import os, site, sys\nfrom pathlib import Path\n{change}\nfrom loops.engine import train\ntrain()\n"
    assert_trains(followed("tools/train.py", {"tools/train.py": start, "code/core/loops/engine.py": ENGINE}))


def test_a_search_path_that_an_imported_helper_changes() -> None:
    helper = """
        import os.path as osp
        import sys

        def add(path):
            if path not in sys.path:
                sys.path.insert(0, path)

        here = osp.dirname(__file__)
        add(osp.join(here, "..", "code", "core"))
        add(osp.join(here, "..", "code", "more"))
        """
    start = "import _paths\nfrom loops.engine import train\ntrain()\n"
    files = {"tools/train.py": start, "tools/_paths.py": helper, "code/core/loops/engine.py": ENGINE}
    assert_trains(followed("tools/train.py", files))


def test_what_a_program_puts_first_comes_first() -> None:
    start = (
        "import os, sys\nsys.path.insert(0, os.path.dirname(__file__) + '/../code')\nimport engine\nengine.train()\n"
    )
    files = {"tools/train.py": start, "code/engine.py": ENGINE, "tools/engine.py": "def train(): pass\n"}
    assert_trains(followed("tools/train.py", files))
    later = start.replace("insert(0, ", "append(")
    assert followed("tools/train.py", {"tools/train.py": later})[0].training_loops == 0


def test_a_package_that_counts_from_a_folder_around_the_script() -> None:
    start = "from kit.core.engine import train\nif __name__ == '__main__':\n    train()\n"
    around = dict.fromkeys(("requirements.txt", "models/__init__.py", "models/kit/__init__.py"), "")
    inside = {"models/kit/scripts/__init__.py": "", "models/kit/core/engine.py": ENGINE}
    assert_trains(followed("models/kit/scripts/train.py", {**around, **inside, "models/kit/scripts/train.py": start}))


PACKAGED = {
    "guard": ("kit/train.py", "from .engine import train\nif __name__ == '__main__':\n    train()\n"),
    "main file": ("kit/__main__.py", "from kit.engine import train\ntrain()\n"),
    "relative main file": ("kit/__main__.py", "from .engine import train\ntrain()\n"),
    "no guard": ("kit/train.py", "from .engine import train\ntrain()\n"),
}


@pytest.mark.parametrize("folder", ["", "src/"])
@pytest.mark.parametrize("way", PACKAGED)
def test_a_module_of_a_package(folder: str, way: str) -> None:
    path, text = PACKAGED[way]
    files = {"kit/__init__.py": "", path: text, "kit/engine.py": ENGINE}
    assert_trains(followed(folder + path, {folder + name: text for name, text in files.items()}))
