"""Tables that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

class DataFrame:
    @saves(path="path_or_buf", mode="mode", whole=True)
    def to_csv(self, path_or_buf=None, *, mode="w", **more): ...
    @saves(path="path", whole=True)
    def to_pickle(self, path, **more): ...
    def copy(self, **more) -> DataFrame: ...

    to_json = to_csv
    to_feather = to_parquet = to_pickle
    append = assign = drop = dropna = fillna = merge = query = rename = reset_index = set_index = sort_values = copy

Series = DataFrame

@reads_file()
def read_csv(filepath_or_buffer, **more) -> DataFrame: ...

read_feather = read_json = read_parquet = read_pickle = read_csv

def concat(**more) -> DataFrame: ...

merge = concat
