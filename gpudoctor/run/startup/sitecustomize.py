"""Python imports this at each start while a run is watched: our folder stands first in PYTHONPATH then.

It must cost nothing and change nothing: the `sitecustomize` that would have been imported without us is executed, our
folder leaves the path of modules (the environment keeps it, for processes to come), and torch is waited for.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


def _without_us() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]


def _import_the_other() -> None:
    """In our place, as if we had never been here; an error of it is the user's own and looks as it always does."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _watch() -> None:
    """Make `gpudoctor` importable without a place on the path, where it could shadow a module of the user's."""
    if "gpudoctor" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "gpudoctor", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules["gpudoctor"] = package
        spec.loader.exec_module(package)
    from gpudoctor.run import startup_agent

    startup_agent.end_with_launcher()
    startup_agent.wait_for_torch()


_without_us()
if os.environ.get("GPUDOCTOR_RUN_FOLDER"):
    _watch()
_import_the_other()
