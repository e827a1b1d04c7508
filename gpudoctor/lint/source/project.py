"""The files of a project as modules, found as Python would find them when the entry script is started."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gpudoctor.lint.source.documented_starts import DocumentedStarts
from gpudoctor.lint.source.file import SourceFile, Sources, Unreadable
from gpudoctor.lint.source.file_queries import folder_above, is_file, is_folder, real_path
from gpudoctor.lint.source.layout import (
    distributions_beside,
    folders_in,
    holds_python,
    is_inside,
    is_near,
    is_package,
    modules_in,
    package_root,
    packages_around,
    plain_folders,
    project_root,
    search_roots,
    too_new,
)
from gpudoctor.lint.source.library_roots import (
    KNOWN_BETTER,
    LIBRARIES,
    SHADOWED_BY_PACKAGES,
    is_always_loaded,
    is_standard,
    is_strange,
)
from gpudoctor.lint.source.size_limits import MAX_PROJECT_BYTES, MAX_PROJECT_FILES
from gpudoctor.lint.source.syntax_walk import walk
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.source.usual_settings import WantedFile


@dataclass(frozen=True, eq=False)
class ModuleFile:
    """A file of the project as a module. `name` is the best guess at its dotted name, `package` the package it is in,
    which for a package's own `__init__.py` is the package itself."""

    source: SourceFile
    name: str
    package: str
    is_package: bool

    def __repr__(self) -> str:
        return f"ModuleFile({self.name} at {self.source.shown})"


@dataclass(frozen=True, eq=False)
class Package:
    """A package without a file: no `__init__.py` in its folders, or one that cannot be read."""

    name: str
    folders: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Package({self.name})"


_OF_BUILDS = ("setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "meson.build")

_MOST_ASKED = 60
"""In so many files is looked for what a program reads of its settings."""


class Project:
    """What an entry script can import from its own project. Libraries are no part of it.

    No module outside of `root` and the entry's folder is ever read, but for folders near by that the program of a
    project without marks puts on `sys.path`. `unreadable` lists files that were asked for in
    vain, `limits` what was left unread because there was too much of it, each once. Where the start turns out to be
    no entry, `followed` tells which of its functions and classes are worth following; None means all.
    """

    def __init__(self, start: str, sources: Sources | None = None) -> None:
        path = real_path(start)
        self._start = path
        self._entry_folder = path if is_folder(path) else os.path.dirname(path)
        root, self.is_marked = project_root(self._entry_folder)
        self.root = root
        self.unreadable: list[Unreadable] = []
        self.limits: list[str] = []
        self.followed: Callable[[SourceFile], frozenset[str] | None] = lambda file: None
        self.parses_late = False
        """Files are parsed when `can_execute` is asked: of what a library file imports, most never is."""
        self._root = root
        self._sources = sources or Sources()
        self._roots = search_roots(self._entry_folder, root)
        self._outside: tuple[str, ...] = ()
        self._added_first: tuple[str, ...] = ()
        self._added: tuple[str, ...] = ()
        self._modules: dict[str, ModuleFile | None] = {}
        self._packages: dict[tuple[str, ...], Package] = {}
        self._found: dict[tuple[str, str], ModuleFile | Package | None] = {}
        self._usual: dict[tuple[WantedFile, str], tuple[str, object] | None] = {}
        self._bytes = 0

    @property
    def is_built(self) -> bool:
        """A build may add modules to its packages: compiled ones, or a version."""
        return any(is_file(os.path.join(self.root, name)) for name in _OF_BUILDS)

    def too_new_torch(self) -> list[int]:
        """The first version of torch that it cannot be installed with, as `[2, 0]`; empty where none is known."""
        return self.too_new("torch")

    def too_new(self, library: str) -> list[int]:
        """The same of another library."""
        return too_new(self.root).get(library, [])

    def documented_starts(self) -> DocumentedStarts:
        """How its scripts and READMEs say that the program is started."""
        return DocumentedStarts(self._start, self.root, self.is_marked)

    def start(self) -> ModuleFile | None:
        """The module that the program starts with, or None where it cannot be read."""
        return self._module(self._start)

    def module_of(self, path: str) -> ModuleFile | None:
        """The module that a file of the project is, or None where it cannot be read or lies elsewhere."""
        return self._module(real_path(path))

    def find(self, importer: ModuleFile, dotted: str, level: int = 0) -> ModuleFile | Package | None:
        """What `import dotted` finds in `importer`, or `from <level dots>dotted import …`; None for a library."""
        folder = os.path.dirname(importer.source.path)
        # One dot is the file's own package, each further dot one folder up.
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        # All files of a folder see the same modules.
        key = ("." if level else "") + folder, dotted
        if key not in self._found:
            parts = dotted.split(".") if dotted else []
            if not level:
                self._found[key] = self._absolute(importer, parts)
            else:
                self._found[key] = None if _known_as(folder, parts) else self._under(folder, parts)
        return self._found[key]

    def file(self, shown: str) -> SourceFile | None:
        """A file that was read, by the path that users know."""
        source = self._sources.shown(shown)
        return source if isinstance(source, SourceFile) else None

    def library_name(self, importer: ModuleFile, dotted: str, level: int) -> str:
        """What an import that finds nothing in the project is called."""
        if not level:
            return dotted
        folder = os.path.normpath(os.path.join(os.path.dirname(importer.source.path), *[os.pardir] * (level - 1)))
        return _known_as(folder, dotted.split(".") if dotted else []) or "." * level + dotted

    def can_execute(self, module: ModuleFile) -> bool:
        """The module can be parsed, and is; only modules that were found late need be asked."""
        source = self._sources.read(module.source.path)
        if isinstance(source, Unreadable) and source not in self.unreadable:
            self.unreadable.append(source)
        return isinstance(source, SourceFile)

    def submodule(self, package: ModuleFile | Package, name: str) -> ModuleFile | Package | None:
        """The module `name` inside a package, which an import statement would load; None where there is none."""
        if isinstance(package, ModuleFile):
            return self._under(os.path.dirname(package.source.path), [name]) if package.is_package else None
        found = [self._under(folder, [name]) for folder in package.folders]
        return self._best(found)

    def imports_of(self, module: ModuleFile) -> Iterator[ModuleFile]:
        """The files of the project that a module imports anywhere, in the order of its tree."""
        for node in walk(module.source.tree):
            found: list[ModuleFile | Package | None] = []
            if isinstance(node, ast.Import):
                found = [each for alias in node.names for each in self._with_packages(alias.name, module)]
            elif isinstance(node, ast.ImportFrom):
                package = self.find(module, node.module or "", node.level)
                found = [package] if node.level else self._with_packages(node.module or "", module)
                if package is not None:
                    found += [self.submodule(package, alias.name) for alias in node.names]
            yield from (each for each in found if isinstance(each, ModuleFile))

    def settings(self, name: str) -> tuple[str, object] | None:
        """The path without links and the document of a settings file that the program names, where it can be read. It
        is looked for from the program's folder upwards: nobody knows in which folder it is started."""
        path = self._named(name)
        document = self._document(path) if path else None
        return (path, document) if document is not None else None

    def _named(self, name: str) -> str:
        """The path without links of the file of the project that has this name in the program's folder, or above it."""
        folder = self._entry_folder
        while True:
            path = real_path(os.path.normpath(os.path.join(folder, name)))
            if self._is_ours(path) and is_file(path):
                return path
            if os.path.isabs(name) or folder in (self.root, os.path.dirname(folder)):
                return ""
            folder = os.path.dirname(folder)

    def _document(self, path: str) -> object:
        # Imported late: few programs are configured by a file.
        from gpudoctor.lint.source.setting_files import document_in

        found = self._sources.read(path, late=True) if self._is_ours(path) and is_file(path) else None
        return document_in(found.text, path, self._document) if isinstance(found, SourceFile) else None

    def usual_settings(self, wanted: WantedFile, file: SourceFile) -> tuple[str, object] | None:
        """The same of the one that the program, which reads it in this file, is usually started with."""
        # Imported late, as above.
        from gpudoctor.lint.source.usual_settings import candidates

        key = wanted, file.path
        start = self.start()
        if key not in self._usual and start is not None:
            loaded = [each.source for each in self._modules.values() if each is not None][:_MOST_ASKED]
            trees = [each.tree for each in (start.source, file)], (each.tree for each in loaded)
            found = (self.settings(each) for each in candidates(self.root, self._start, wanted, trees))
            self._usual[key] = next((each for each in found if each is not None and isinstance(each[1], dict)), None)
        return self._usual.get(key)

    def usual_module(self, wanted: WantedFile) -> str:
        """The name of the module that the program is usually given to import; empty where nothing says so."""
        # Imported late, as above.
        from gpudoctor.lint.source.usual_settings import candidates

        paths = map(self._named, candidates(self.root, self._start, wanted, ()))
        modules = (self.module_of(path) for path in paths if path.endswith(wanted.endings))
        return next((each.name for each in modules if each is not None), "")

    def defining(self, name: str) -> Iterator[list[ModuleFile]]:
        """The modules that define a name, those of each folder together."""
        # Imported late, as above.
        from gpudoctor.lint.source.defined_names import files_defining

        for paths in files_defining(self.root, name):
            yield [each for path in paths if (each := self._module(real_path(path))) is not None]

    def hydra_config(self, file: str, folder: str, name: str, chosen: Mapping[str, str]) -> object:
        """What hydra composes of the files in this folder beside a file, or above it, with what the command line says;
        None where that is not known."""
        # Imported late: few programs are configured so.
        from gpudoctor.lint.source.hydra_configs import composed

        def text_of(path: str) -> str | None:
            path = real_path(path)
            found = self._sources.read(path, late=True) if self._is_ours(path) and is_file(path) else None
            return found.text if isinstance(found, SourceFile) else None

        whole = os.path.join(folder_above(real_path(file), (folder,)) or os.path.dirname(real_path(file)), folder)
        return composed(os.path.normpath(whole), name, text_of, chosen)

    def _with_packages(self, dotted: str, module: ModuleFile) -> list[ModuleFile | Package | None]:
        """A module, and the packages around it, which Python executes first."""
        parts = dotted.split(".")
        return [self.find(module, ".".join(parts[:count])) for count in range(len(parts), 0, -1)]

    def module_names(self, package: ModuleFile | Package) -> tuple[str, ...]:
        """The names of the modules inside a package, sorted; those that begin with a line below are its own affair."""
        return tuple(sorted({name for each in _folders_of(package) for name in modules_in(each) if name[0] != "_"}))

    def folder_names(self, package: ModuleFile | Package) -> tuple[str, ...]:
        """The names of the folders inside a package, sorted, in which modules may lie."""
        return tuple(sorted({name for each in _folders_of(package) for name in folders_in(each)}))

    def modules_in_tree(self, folder: str, most: int) -> list[ModuleFile]:
        """The modules in a folder of the project and below it, but for those that begin with a line below; none where
        they are more than `most`."""
        # Imported late: hardly any program searches for its modules.
        from gpudoctor.lint.source.setting_files import files_ending_with

        paths = files_ending_with(folder, (".py",)) if self._is_ours(real_path(folder)) else []
        paths = [each for each in paths if os.path.basename(each)[0] != "_"]
        found = map(self._module, paths if len(paths) <= most else ())
        return [each for each in found if each is not None]

    def add_search_path(self, folder: str, *, first: bool = False) -> None:
        """The program puts this folder on `sys.path`, before all others or behind them."""
        path = real_path(folder)
        if not self._is_ours(path):
            # Where nothing says how far a project goes, its own program does.
            if self.is_marked or not is_near(path, self._entry_folder):
                return
            self._outside += (path,)
            self._modules = {path: module for path, module in self._modules.items() if module is not None}
        if path in self._added_first or (path in self._added and not first):
            return
        if first:
            self._added_first = (path, *self._added_first)
        else:
            self._added += (path,)
        # What was looked for in vain may be found now.
        self._found.clear()

    def _absolute(self, importer: ModuleFile, parts: list[str]) -> ModuleFile | Package | None:
        top = parts[0] if parts else ""
        folder = os.path.dirname(importer.source.path)
        home = package_root(folder)
        inside = bool(home) and os.path.relpath(importer.source.path, home).split(os.sep)[0] == top
        if not top or (top in LIBRARIES and (not inside or _is_better_known(top, home))) or is_always_loaded(top):
            return None
        if is_standard(top):
            # A helper's neighbour called `logging.py` is not what its `import logging` finds; the entry's would be,
            # unless the entry is a part of a package and is started with `python -m`.
            first = () if is_package(self._entry_folder) else (self._entry_folder,)
            return self._best(self._under(root, parts) for root in (*self._added_first, *first, *self._added))
        # A helper outside of packages finds its neighbours if the program has put their folder on `sys.path`.
        roots = dict.fromkeys((*self._added_first, *self._roots, *self._added, home or folder))
        found = self._best(self._under(root, parts) for root in roots)
        # `from train import utils` in train/train.py: nobody imports himself, it means the folder around him.
        if isinstance(found, ModuleFile) and found.source is importer.source:
            found = self._best(each for root in roots if (each := self._under(root, parts)) is not found) or found
        # An installed package comes before a folder without `__init__.py`, wherever that stands.
        if isinstance(found, Package) and top in SHADOWED_BY_PACKAGES:
            return None
        if found is None and top not in SHADOWED_BY_PACKAGES:
            above = self._from_package_above(parts) or (self._installed_in_place(parts) if self.is_marked else None)
            return above or self._from_renamed_root(parts)
        return found

    def _from_renamed_root(self, parts: list[str]) -> ModuleFile | Package | None:
        """A module of the package that the root is, by the name that its folder had where it was written: nobody knows
        how a checkout will be called (`name-main`, `name_v2`). Of a part of a larger tree it is a long one:
        `from vision.teams.kit.tools.train import …`."""
        if not is_strange(parts[0]):
            return None
        called = os.path.basename(self._root).replace("-", "_")
        if len(parts) == 1:
            return self._under(self._root, []) if parts[0] == called else None
        starts = (1,) if parts[0] in called or is_package(self._root) else range(2, len(parts) - 1)
        found = (self._under(self._root, parts[start:]) for start in starts)
        return next((module for module in found if isinstance(module, ModuleFile)), None)

    def _from_package_above(self, parts: list[str]) -> ModuleFile | None:
        """A module that counts from a package around the entry, where nothing else is meant: `PYTHONPATH=a/b/models`,
        with `a/b/models/__init__.py` left from those who import it by its long name."""
        roots = packages_around(self._entry_folder, self._root)
        # A plugin for a library is called as the library is, and has other modules inside.
        if len(parts) < 2:
            roots = [root for root in roots if self._is_started_in(root)]
        found = (self._under(root, parts) for root in roots)
        return next((module for module in found if isinstance(module, ModuleFile)), None)

    def _is_started_in(self, folder: str) -> bool:
        """The names of other modules that the entry imports count from this package."""
        start = self.start()
        named = (
            (each.module for each in walk(start.source.tree) if isinstance(each, ast.ImportFrom) and not each.level)
            if start
            else ()
        )
        inside = (self._under(folder, each.split(".")) for each in named if each and "." in each)
        return any(isinstance(module, ModuleFile) for module in inside)

    def _installed_in_place(self, parts: list[str]) -> ModuleFile | None:
        """A module that only one folder can mean, below the root or beside it: `pip install -e ./packages`,
        `cd code; python …`, `pip install -e core -e training`."""
        beside = distributions_beside(self._root)
        self._outside = tuple(dict.fromkeys((*self._outside, *beside)))
        found = [self._under(folder, parts) for folder in (*plain_folders(self._root), *beside)]
        files = [module for module in found if isinstance(module, ModuleFile)]
        return files[0] if len(files) == 1 else None

    def _best(self, found: Iterable[ModuleFile | Package | None]) -> ModuleFile | Package | None:
        """The first file; else all folders of that name together, which is how Python makes a namespace package."""
        packages: list[Package] = []
        for module in found:
            if isinstance(module, ModuleFile):
                return module
            if module is not None:
                packages.append(module)
        if len(packages) < 2:
            return packages[0] if packages else None
        return self._package(packages[0].name, [folder for package in packages for folder in package.folders])

    def _under(self, folder: str, parts: list[str]) -> ModuleFile | Package | None:
        """The module `parts` counted from a folder; the folder itself as a package where there are no parts."""
        for part in parts[:-1]:
            outer, folder = folder, os.path.join(folder, part)
            # Python takes a package before a module of the same name, and that before a folder without `__init__.py`.
            if not is_package(folder) and is_file(os.path.join(outer, f"{part}.py")):
                return None
        path = os.path.join(folder, parts[-1]) if parts else folder
        if is_package(path):
            init = real_path(os.path.join(path, "__init__.py"))
            # A broken `__init__.py` must not hide the modules beside it.
            return self._module(init) or (self._package(self._name_of(path), [path]) if self._is_ours(init) else None)
        # A file that a notebook writes is there by the time it is imported.
        if parts and (is_file(f"{path}.py") or f"{path}.py" in self._sources.edited):
            return self._module(real_path(f"{path}.py"))
        if is_folder(path) and self._is_ours(real_path(path)) and holds_python(path):
            return self._package(self._name_of(path), [path])
        return None

    def _package(self, name: str, folders: list[str]) -> Package:
        key = tuple(dict.fromkeys(folders))
        if key not in self._packages:
            self._packages[key] = Package(name, key)
        return self._packages[key]

    def _module(self, path: str) -> ModuleFile | None:
        if path not in self._modules:
            self._modules[path] = self._load(path) if self._is_ours(path) else None
        return self._modules[path]

    def _load(self, path: str) -> ModuleFile | None:
        if self._is_too_much():
            return None
        source = self._sources.read(path, late=self.parses_late)
        # Remembered: what such a file would have said is missing, and rules of absence must know.
        if isinstance(source, Unreadable):
            self.unreadable.append(source)
            return None
        self.unreadable += source.flaws
        self._bytes += len(source.text)
        is_package = os.path.basename(path) == "__init__.py"
        name = self._name_of(os.path.dirname(path) if is_package else path.removesuffix(".py"))
        return ModuleFile(source, name, name if is_package else name.rpartition(".")[0], is_package)

    def _is_too_much(self) -> bool:
        reached = ""
        if sum(module is not None for module in self._modules.values()) >= MAX_PROJECT_FILES:
            reached = f"more than {MAX_PROJECT_FILES} files of the project are imported; the rest was not read"
        elif self._bytes > MAX_PROJECT_BYTES:
            reached = f"more than {MAX_PROJECT_BYTES // 1024**2} MiB of the project are imported; the rest was not read"
        if reached and reached not in self.limits:
            self.limits.append(reached)
        return bool(reached)

    def _is_ours(self, path: str) -> bool:
        return any(is_inside(path, each) for each in (self._root, self._entry_folder, *self._outside))

    def _name_of(self, path: str) -> str:
        """The dotted name of a path without its suffix: from its package's root, else the nearest search root."""
        folder = os.path.dirname(path)
        roots = [package_root(folder), *sorted(self._roots, key=len, reverse=True)]
        for root in filter(None, roots):
            if is_inside(folder, root):
                parts = os.path.relpath(path, root).split(os.sep)
                if all(part.isidentifier() for part in parts):
                    return ".".join(parts)
        return os.path.basename(path)


def _folders_of(package: ModuleFile | Package) -> tuple[str, ...]:
    if isinstance(package, Package):
        return package.folders
    return (os.path.dirname(package.source.path),) if package.is_package else ()


def project_of(path: str, sources: Sources | None = None) -> tuple[Project, ModuleFile | None]:
    """The project of a file that is an entry, and the module that the file is; None where it cannot be read."""
    project = Project(path, sources)
    return project, project.start()


def _is_better_known(top: str, home: str) -> bool:
    """This package below `home` is the checkout of a library, of which the models say more."""
    insides = KNOWN_BETTER.get(top)
    return insides is not None and all(is_package(os.path.join(home, top, each)) for each in insides)


def _known_as(folder: str, parts: list[str]) -> str:
    """The library name that `parts` have in a folder of such a checkout, unless they are its private affair."""
    home = package_root(folder)
    names = [*os.path.relpath(folder, home).split(os.sep), *parts] if home else []
    if not names or not _is_better_known(names[0], home) or any(name.startswith("_") for name in names):
        return ""
    return ".".join(names)
