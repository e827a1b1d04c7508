"""Files and folders that are copied, and folders that are removed."""

from gpudoctor.manifest.effects import changes_folder, saves

@saves(path="dst")
def copyfile(src, dst, **more): ...
@saves(path="dst")
def copy(src, dst, **more): ...
@changes_folder(path="dst", tolerates="dirs_exist_ok")
def copytree(
    src, dst, symlinks=False, ignore=None, copy_function=copy, ignore_dangling_symlinks=False, dirs_exist_ok=False
): ...
@changes_folder(path="path", tolerates="ignore_errors", removes=True)
def rmtree(path, ignore_errors=False, **more): ...
