"""Data sets of graphs, which fetch and compute what is not there yet, and functions that fetch files."""

from os.path import exists

from torch_geometric.loader import DataLoader as DataLoader  # where it was before version 2

from gpudoctor.manifest.effects import downloads, followed, tell

@followed()
class Dataset:
    def __init__(self, root=None, transform=None, pre_transform=None, pre_filter=None, log=True, force_reload=False):
        self.root = root
        self.transform = transform
        self.pre_transform = pre_transform
        self.pre_filter = pre_filter
        if not exists(root):
            tell(self, "download")
        if not exists(root):
            tell(self, "process")

@followed()
class InMemoryDataset(Dataset): ...

@downloads(to="folder")
def download_url(url, folder, log=True, filename=None): ...
