"""Which file an import means, in projects laid out as people lay them out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.source import layout
from gpudoctor.lint.source import project as project_module
from gpudoctor.lint.source.file import Sources
from gpudoctor.lint.source.project import ModuleFile, Package, Project


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lay(*files: str, **texts: str) -> None:
    """Make these files below the working directory. One that ends in a slash is a folder."""
    for name in files:
        path = Path(name)
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get(path.stem, ""))


def opened(entry: str) -> tuple[Project, ModuleFile]:
    project = Project(entry)
    module = project.module_of(entry)
    assert module is not None
    return project, module


def seen(found: ModuleFile | Package | None) -> str | None:
    """A module by the path of its file, a package without one by its folders."""
    if isinstance(found, ModuleFile):
        return found.source.shown
    return found and " + ".join(f"{os.path.relpath(folder)}/" for folder in found.folders)


def find(entry: str, dotted: str, level: int = 0, importer: str = "") -> str | None:
    project, start = opened(entry)
    module = project.module_of(importer) if importer else start
    assert module is not None
    return seen(project.find(module, dotted, level))


class TestAbsolute:
    def test_sibling_script(self) -> None:
        lay("pyproject.toml", "train.py", "utils.py")
        assert find("train.py", "utils") == "utils.py"
        assert find("train.py", "missing") is None
        assert find("train.py", "utils.inner") is None

    def test_package_and_submodule(self) -> None:
        lay(
            ".git/", "train.py", "models/__init__.py", "models/net.py", "models/deep/__init__.py", "models/deep/unet.py"
        )
        assert find("train.py", "models") == "models/__init__.py"
        assert find("train.py", "models.net") == "models/net.py"
        assert find("train.py", "models.deep.unet") == "models/deep/unet.py"
        assert find("train.py", "models.deep") == "models/deep/__init__.py"
        assert find("train.py", "models.net.Net") is None

    def test_folders_without_init(self) -> None:
        lay("pyproject.toml", "train.py", "data/loaders.py", "images/1.png", "deep/er/net.py")
        assert find("train.py", "data") == "data/"
        assert find("train.py", "data.loaders") == "data/loaders.py"
        assert find("train.py", "deep.er.net") == "deep/er/net.py"
        assert find("train.py", "deep") == "deep/"
        assert find("train.py", "images") is None, "a folder of pictures is no package"

    def test_package_before_module_before_folder(self) -> None:
        lay("pyproject.toml", "train.py", "a.py", "a/__init__.py", "a/x.py", "b.py", "b/x.py")
        assert find("train.py", "a") == "a/__init__.py"
        assert find("train.py", "a.x") == "a/x.py"
        assert find("train.py", "b") == "b.py"
        assert find("train.py", "b.x") is None

    def test_one_package_in_several_folders(self) -> None:
        lay("pyproject.toml", "tools/train.py", "tools/kit/one.py", "kit/two.py", "src/kit/three.py")
        project, train = opened("tools/train.py")
        kit = project.find(train, "kit", 0)
        assert seen(kit) == "tools/kit/ + kit/ + src/kit/"
        assert kit is project.find(train, "kit", 0)
        assert isinstance(kit, Package)
        assert seen(project.submodule(kit, "three")) == "src/kit/three.py"
        assert find("tools/train.py", "kit.two") == "kit/two.py"

    def test_a_real_package_anywhere_wins_over_a_folder(self) -> None:
        lay("pyproject.toml", "tools/train.py", "tools/kit/one.py", "kit/__init__.py")
        assert find("tools/train.py", "kit") == "kit/__init__.py"

    @pytest.mark.parametrize("place", ["", "src/", "lib/", "tools/", "tools/src/"])
    def test_roots(self, place: str) -> None:
        lay("pyproject.toml", "tools/deep/train.py", f"{place}kit/__init__.py", f"{place}kit/net.py")
        assert find("tools/deep/train.py", "kit.net") == f"{place}kit/net.py"

    def test_the_entry_folder_comes_first(self) -> None:
        lay(
            "pyproject.toml",
            "utils.py",
            "src/utils.py",
            "scripts/train.py",
            "scripts/utils.py",
            "pkg/__init__.py",
            "pkg/a.py",
            "pkg/utils.py",
        )
        assert find("scripts/train.py", "utils") == "scripts/utils.py"
        assert find("scripts/train.py", "utils", importer="pkg/a.py") == "scripts/utils.py", "as sys.path[0] does"
        assert find("scripts/train.py", "utils", level=1, importer="pkg/a.py") == "pkg/utils.py"

    def test_neighbour_of_a_helper(self) -> None:
        lay("pyproject.toml", "train.py", "other/helper.py", "other/near.py")
        assert find("train.py", "near", importer="other/helper.py") == "other/near.py"
        assert find("train.py", "near") == "other/near.py", "the only one in a folder below the root"

    def test_installed_in_place(self) -> None:
        lay("pyproject.toml", "train.py", "first/setup.py", "first/kit/__init__.py", "second/two.py", "third/two.py")
        assert find("train.py", "kit") == "first/kit/__init__.py"
        assert find("train.py", "two") is None, "two folders could be meant"

    def test_installed_in_place_beside_the_root(self) -> None:
        lay("pyproject.toml", "train/setup.py", "train/train.py", "core/setup.py", "core/kit/__init__.py", "old/two.py")
        Path("train/setup.py").write_text("import setuptools")
        Path("core/setup.py").write_text("import setuptools")
        assert find("train/train.py", "kit") == "core/kit/__init__.py"
        assert find("train/train.py", "two") is None, "nobody installs that folder"

    def test_root_that_is_a_package_by_another_name(self) -> None:
        lay("kit-main/pyproject.toml", "kit-main/__init__.py", "kit-main/train.py", "kit-main/loader/data.py")
        lay("kit-main/loader/__init__.py", "kit-main/numpy.py")
        assert find("kit-main/train.py", "kit.loader.data") == "kit-main/loader/data.py"
        assert find("kit-main/train.py", "kit.train") == "kit-main/train.py", "the folder around it is meant"
        assert find("kit-main/train.py", "kit") is None, "any library could be meant"
        assert find("kit-main/train.py", "scipy.train") is None, "a library that is known"

    def test_root_that_is_called_like_its_package(self) -> None:
        lay("my-kit/pyproject.toml", "my-kit/train.py", "my-kit/loader/data.py")
        lay("my-kit-main/.git/", "my-kit-main/net.py")
        assert find("my-kit/train.py", "my_kit.loader.data") == "my-kit/loader/data.py"
        assert find("my-kit/train.py", "my_kit") == "my-kit/"
        assert find("my-kit-main/net.py", "my_kit.net") == "my-kit-main/net.py"
        assert find("my-kit-main/net.py", "other.net") is None, "a library"

    def test_long_name_of_a_larger_tree(self) -> None:
        lay("pyproject.toml", "kit/__init__.py", "tools/run.py", "tools/train.py")
        assert find("tools/run.py", "vision.teams.kit.tools.train") == "tools/train.py"
        assert find("tools/run.py", "kit2.tools.train") is None, "another package may have such a module, too"
        assert find("tools/run.py", "vision.teams.train") is None, "one name is no evidence"
        assert find("tools/run.py", "scipy.teams.tools.train") is None, "a library that is known"

    def test_nothing_is_looked_for_beside_an_unmarked_folder(self) -> None:
        lay("here/train.py", "here/other/kit.py")
        assert Project("here/train.py").root == str(Path.cwd() / "here")
        assert find("here/train.py", "kit") is None

    def test_search_path_of_the_program(self) -> None:
        lay("a/pyproject.toml", "a/train.py", "a/third_party/deep/kit.py", "outside.py")
        project, train = opened("a/train.py")
        assert project.find(train, "kit", 0) is None
        project.add_search_path(Path("a/third_party/deep"))
        assert seen(project.find(train, "kit", 0)) == "a/third_party/deep/kit.py"
        project.add_search_path(Path.cwd())
        assert project.find(train, "outside", 0) is None, "outside the project"

    def test_entry_inside_its_package(self) -> None:
        lay(
            "src/pkg/__init__.py", "src/pkg/cli/__init__.py", "src/pkg/cli/train.py", "src/pkg/net.py", "pyproject.toml"
        )
        assert find("src/pkg/cli/train.py", "pkg.net") == "src/pkg/net.py"
        assert find("src/pkg/cli/train.py", "net", 2) == "src/pkg/net.py"

    def test_entry_that_is_started_in_its_package(self) -> None:
        lay("pyproject.toml", "src/pkg/__init__.py", "src/pkg/nets/__init__.py", "src/pkg/train/data.py")
        Path("src/pkg/train/main.py").write_text("from nets import Net\nfrom train.data import loader\n")
        Path("src/pkg/train/other.py").write_text("from nets import Net\n")
        Path("src/pkg/train/__init__.py").touch()
        assert find("src/pkg/train/main.py", "nets") == "src/pkg/nets/__init__.py"
        assert find("src/pkg/train/other.py", "nets") is None, "nothing says that it is started there"

    def test_the_project_folder_is_a_package_itself(self) -> None:
        lay("repo/.git/", "repo/__init__.py", "repo/train.py", "repo/net.py", "stranger.py")
        assert find("repo/train.py", "repo.net") == "repo/net.py"
        assert find("repo/train.py", "net", 1) == "repo/net.py"
        assert find("repo/train.py", "stranger") is None
        assert find("repo/train.py", "stranger", 2) is None


class TestRelative:
    def test_levels(self) -> None:
        lay(
            "pyproject.toml",
            "pkg/__init__.py",
            "pkg/a/__init__.py",
            "pkg/a/one.py",
            "pkg/b/__init__.py",
            "pkg/b/two.py",
        )
        assert find("pkg/a/one.py", "", 1) == "pkg/a/__init__.py"
        assert find("pkg/a/one.py", "", 2) == "pkg/__init__.py"
        assert find("pkg/a/one.py", "b.two", 2) == "pkg/b/two.py"
        assert find("pkg/a/one.py", "b", 1) is None

    def test_from_an_init(self) -> None:
        lay("pyproject.toml", "pkg/__init__.py", "pkg/net.py", "other.py")
        assert find("pkg/__init__.py", "net", 1) == "pkg/net.py"
        assert find("pkg/__init__.py", "", 1) == "pkg/__init__.py"
        assert find("pkg/__init__.py", "other", 2) == "other.py"

    def test_in_folders_without_init(self) -> None:
        lay("pyproject.toml", "train.py", "kit/one.py", "kit/two.py")
        assert find("train.py", "two", 1, importer="kit/one.py") == "kit/two.py"
        assert find("train.py", "", 1, importer="kit/one.py") == "kit/"

    def test_beyond_the_top(self) -> None:
        lay("a/pyproject.toml", "a/train.py", "b/secret.py", "secret.py")
        assert find("a/train.py", "secret", 2) is None
        assert find("a/train.py", "b.secret", 2) is None
        assert find("a/train.py", "secret", 40) is None


class TestLibraries:
    @pytest.mark.parametrize("form", ["torch.py", "torch/__init__.py", "torch/nn.py"])
    def test_a_project_does_not_shadow_torch(self, form: str) -> None:
        lay("pyproject.toml", "train.py", form)
        assert find("train.py", "torch") is None
        assert find("train.py", "torch.nn") is None

    def test_unless_the_importer_is_a_part_of_it(self) -> None:
        lay(".git/", "torch/__init__.py", "torch/nn.py", "torch/optim.py", "examples/train.py")
        assert find("torch/nn.py", "torch.optim") == "torch/optim.py"
        assert find("examples/train.py", "torch.optim") is None

    def test_what_is_known_of_pytorch_says_more_than_its_own_source(self) -> None:
        lay("torch/__init__.py", *(f"torch/{name}/__init__.py" for name in ("nn", "optim", "utils", "autograd")))
        lay("torch/nn/functional.py", "torch/optim/sgd.py", "torch/optim/_kit.py", "torch/_inner/__init__.py")
        assert find("torch/optim/sgd.py", "torch") is None
        assert find("torch/optim/sgd.py", "torch.nn.functional") is None
        assert find("torch/nn/__init__.py", "functional", 1) is None
        assert find("torch/_inner/__init__.py", "", 2) is None
        project, module = opened("torch/optim/sgd.py")
        assert project.library_name(module, "nn.functional", 2) == "torch.nn.functional"
        assert find("torch/optim/sgd.py", "_kit", 1) == "torch/optim/_kit.py", "which is known to nobody else"

    def test_examples_in_the_checkout_of_a_library_ask_what_is_known_of_it(self) -> None:
        inside = (f"torch_geometric/{name}/__init__.py" for name in ("data", "loader", "nn", "utils"))
        lay(".git/", "torch_geometric/__init__.py", "torch_geometric/inspector.py", *inside, "examples/train.py")
        assert find("examples/train.py", "torch_geometric.loader") is None
        assert find("torch_geometric/loader/__init__.py", "inspector", 2) is None

    def test_so_do_the_scripts_that_accelerate_tests_itself_with(self) -> None:
        inside = (f"src/accelerate/{name}/__init__.py" for name in ("commands", "test_utils", "utils"))
        lay(".git/", "src/accelerate/__init__.py", "src/accelerate/state.py", *inside, "examples/train.py")
        lay("src/accelerate/test_utils/scripts/__init__.py", script := "src/accelerate/test_utils/scripts/test_sync.py")
        assert find("examples/train.py", "accelerate.state") is None
        assert find(script, "accelerate.state") is None

    def test_datasets_are_the_projects_where_it_has_such_a_package(self) -> None:
        lay("a/pyproject.toml", "a/train.py", "a/datasets/__init__.py", "a/datasets/coco.py")
        lay("b/pyproject.toml", "b/train.py", "b/datasets/coco.py", "b/other/timm/__init__.py")
        assert find("a/train.py", "datasets") == "a/datasets/__init__.py"
        assert find("b/train.py", "datasets") is None, "the installed one comes before a folder without __init__.py"
        assert find("b/train.py", "datasets.coco") == "b/datasets/coco.py", "which only the project has"
        assert find("b/train.py", "timm") is None

    def test_standard_library(self) -> None:
        lay(
            "pyproject.toml",
            "train.py",
            "test.py",
            "os.py",
            "utils/logging.py",
            "utils/a.py",
            "utils/__init__.py",
            "src/json.py",
        )
        assert find("train.py", "test") == "test.py", "a file beside the entry wins"
        assert find("train.py", "os") is None, "which is loaded before the program begins"
        assert find("train.py", "logging", importer="utils/a.py") is None
        assert find("train.py", "logging", 1, importer="utils/a.py") == "utils/logging.py"
        assert find("train.py", "json") is None

    def test_standard_library_from_inside_a_package(self) -> None:
        lay("pyproject.toml", "pkg/__init__.py", "pkg/train.py", "pkg/logging/__init__.py")
        assert find("pkg/train.py", "logging") is None

    def test_a_plugin_for_a_library_is_not_that_library(self) -> None:
        """As in YOLOv5, where `utils/loggers/clearml` wraps the library of that name."""
        lay("pyproject.toml", "train.py", "utils/__init__.py", "utils/loggers/__init__.py")
        lay("utils/loggers/clearml/__init__.py", "utils/loggers/clearml/hooks.py")
        for importer in ("utils/loggers/__init__.py", "utils/loggers/clearml/hooks.py"):
            assert find("train.py", "clearml", importer=importer) is None
        assert find("utils/loggers/clearml/hooks.py", "clearml") is None

    def test_python_agrees(self) -> None:
        """The real interpreter, on the same files."""
        lay(
            "pyproject.toml",
            "train.py",
            "test.py",
            "kit/__init__.py",
            "b.py",
            "b/x.py",
            "data/one.py",
            "tools/near.py",
            "tools/go.py",
        )
        code = "import sys; from importlib.util import find_spec; s = find_spec(sys.argv[1])\n"
        code += "print(s.origin or s.submodule_search_locations)"
        for name in ("test", "kit", "b", "data"):
            out = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True).stdout
            assert (find("train.py", name) or "?").rstrip("/") in out


class TestRoot:
    @pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", "setup.cfg", ".git/"])
    def test_nearest_marker(self, marker: str) -> None:
        lay(
            "setup.cfg", f"a/{marker}", "a/b/c/train.py", "a/b/requirements.txt", setup="from setuptools import setup\n"
        )
        assert Project("a/b/c/train.py").root == str(Path.cwd() / "a")

    def test_a_helper_called_setup_marks_nothing(self) -> None:
        lay("pyproject.toml", "a/setup.py", "a/train.py", "net.py", setup="def setup(rank): ...\n")
        assert Project("a/train.py").root == str(Path.cwd())
        assert find("a/train.py", "setup") == "a/setup.py"

    def test_the_folder_above_where_nothing_marks_the_project(self) -> None:
        lay("repo/tools/dist/train.py", "repo/tools/common.py", "repo/lib/__init__.py", "repo/net.py")
        assert Project("repo/tools/dist/train.py").root == str(Path.cwd() / "repo")
        assert find("repo/tools/dist/train.py", "net") == "repo/net.py"
        lay("told/README.md", "told/tools/train.py", "told/models/net.py")
        assert find("told/tools/train.py", "models.net") == "told/models/net.py"
        lay("many/one/train.py", "many/two/train.py")
        assert Project("many/one/train.py").root == str(Path.cwd() / "many/one")

    @pytest.mark.parametrize("marker", ["requirements.txt", "environment.yml", "LICENSE"])
    def test_a_download_without_history(self, marker: str) -> None:
        lay(f"a/{marker}", "a/tools/train.py", "a/net.py")
        assert find("a/tools/train.py", "net") == "a/net.py"

    def test_top_of_the_package(self) -> None:
        lay("a/pkg/__init__.py", "a/pkg/sub/__init__.py", "a/pkg/sub/train.py")
        assert Project("a/pkg/sub/train.py").root == str(Path.cwd() / "a")

    def test_folder(self) -> None:
        lay("a/b/train.py")
        assert Project("a/b/train.py").root == str(Path.cwd() / "a/b")
        assert Project("a/b").root == str(Path.cwd() / "a/b")
        assert Project("a/b/not_saved_yet.py").root == str(Path.cwd() / "a/b")

    def test_the_home_folder_is_no_project(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lay("home/.git/", "home/requirements.txt", "home/work/train.py", "home/train.py")
        monkeypatch.setenv("HOME", str(Path("home").absolute()))
        assert Project("home/work/train.py").root == str(Path.cwd() / "home/work")
        assert Project("home/train.py").root == str(Path.cwd() / "home")


class TestModules:
    @pytest.mark.parametrize(
        ("path", "name", "package"),
        [
            ("train.py", "train", ""),
            ("pkg/__init__.py", "pkg", "pkg"),
            ("pkg/net.py", "pkg.net", "pkg"),
            ("src/lib2/__init__.py", "lib2", "lib2"),
            ("src/lib2/net.py", "lib2.net", "lib2"),
            ("loose/deep/net.py", "loose.deep.net", "loose.deep"),
            ("not-a-name/net.py", "net", ""),
        ],
    )
    def test_names(self, path: str, name: str, package: str) -> None:
        lay(
            "pyproject.toml",
            "train.py",
            "pkg/__init__.py",
            "pkg/net.py",
            "src/lib2/__init__.py",
            "src/lib2/net.py",
            "loose/deep/net.py",
            "not-a-name/net.py",
        )
        module = opened("train.py")[0].module_of(path)
        assert (module.name, module.package, module.is_package) == (name, package, path.endswith("__init__.py"))

    def test_a_file_is_one_module_however_it_is_reached(self) -> None:
        lay("pyproject.toml", "train.py", "pkg/__init__.py", "pkg/net.py")
        Path("alias.py").symlink_to("pkg/net.py")
        project, train = opened("train.py")
        net = project.module_of("pkg/net.py")
        assert isinstance(net, ModuleFile)
        assert net is project.find(train, "pkg.net", 0) is project.find(train, "alias", 0)
        package = project.find(train, "pkg", 0)
        assert isinstance(package, ModuleFile)
        assert project.submodule(package, "net") is net
        assert project.submodule(package, "nothing") is None
        assert project.submodule(net, "anything") is None

    def test_cycles(self) -> None:
        lay("pyproject.toml", "a.py", "b.py", a="import b\n", b="import a\n")
        project, a = opened("a.py")
        b = project.find(a, "b", 0)
        assert isinstance(b, ModuleFile)
        assert project.find(b, "a", 0) is a

    def test_links_that_lead_out(self) -> None:
        lay("a/pyproject.toml", "a/train.py", "b/secret.py")
        Path("a/secret.py").symlink_to("../b/secret.py")
        Path("a/linked").symlink_to("../b")
        assert find("a/train.py", "secret") is None
        assert find("a/train.py", "linked.secret") is None
        assert find("a/train.py", "linked") is None
        lay("b/__init__.py")
        assert find("a/train.py", "linked") is None

    def test_links_in_a_circle(self) -> None:
        lay("pyproject.toml", "train.py", "pkg/__init__.py")
        Path("pkg/again").symlink_to(".")
        assert find("train.py", "pkg.again.again") == "pkg/__init__.py"

    def test_a_package_whose_init_is_broken(self) -> None:
        lay(
            "pyproject.toml",
            "train.py",
            "pkg/__init__.py",
            "pkg/net.py",
            "broken.py",
            __init__="x = (\n",
            broken="def\n",
        )
        project, train = opened("train.py")
        assert seen(project.find(train, "pkg", 0)) == "pkg/"
        assert seen(project.find(train, "pkg.net", 0)) == "pkg/net.py"
        assert project.find(train, "broken", 0) is None
        assert [each.shown for each in project.unreadable] == ["pkg/__init__.py", "broken.py"]
        project.find(train, "broken", 0)
        assert len(project.unreadable) == 2

    def test_outside(self, tmp_path: Path) -> None:
        lay("a/pyproject.toml", "a/train.py", "b.py")
        project, _ = opened("a/train.py")
        assert project.module_of("b.py") is None
        assert project.module_of(str(tmp_path / "a" / "nothing.py")) is None

    def test_pipes_and_folders_called_like_files(self) -> None:
        lay("pyproject.toml", "train.py", "odd.py/", "other/__init__.py/")
        os.mkfifo("pipe.py")
        assert [find("train.py", name) for name in ("odd", "pipe", "other")] == [None, None, None]


class TestSharing:
    def test_files_are_read_once(self) -> None:
        lay("pyproject.toml", "a.py", "b.py", "shared.py")
        sources = Sources()
        found = []
        for entry in ("a.py", "b.py"):
            project = Project(entry, sources)
            module = project.module_of(entry)
            assert module is not None
            found.append(project.find(module, "shared", 0))
        one, two = found
        assert isinstance(one, ModuleFile)
        assert isinstance(two, ModuleFile)
        assert one.source is two.source

    def test_standard_input_stands_for_a_file(self) -> None:
        lay("pyproject.toml", "train.py", "utils.py", train="old\n")
        path = os.path.realpath("train.py")
        project = Project(path, Sources({path: b"new = 1\n"}))
        module = project.module_of(path)
        assert module.source.text == "new = 1\n"
        assert seen(project.find(module, "utils", 0)) == "utils.py"
        assert Project(path, Sources({path: b"new = (\n"})).module_of(path) is None


class TestLimits:
    def test_number_of_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(project_module, "MAX_PROJECT_FILES", 3)
        lay("pyproject.toml", "train.py", "a.py", "b.py", "c.py", "d.py")
        project, train = opened("train.py")
        assert [seen(project.find(train, name, 0)) for name in "abcd"] == ["a.py", "b.py", None, None]
        assert project.limits == ["more than 3 files of the project are imported; the rest was not read"]
        assert project.module_of("a.py") is not None, "what was read stays"

    def test_amount_of_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(project_module, "MAX_PROJECT_BYTES", 3 * 1024**2)
        lay("pyproject.toml", "train.py", "a.py", "b.py", a="#" + "x" * 4 * 1024**2)
        project, train = opened("train.py")
        assert [seen(project.find(train, name, 0)) for name in "ab"] == ["a.py", None]
        assert "3 MiB" in project.limits[0]

    def test_folders_with_very_many_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(layout, "MAX_FOLDER_SCAN", 5)
        lay("pyproject.toml", "train.py", *(f"data/{n}.png" for n in range(20)), *(f"code/{n}.py" for n in "abc"))
        assert find("train.py", "data") is None
        assert find("train.py", "code.a") == "code/a.py"
