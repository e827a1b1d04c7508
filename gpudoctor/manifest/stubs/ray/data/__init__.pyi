"""Ray Data: who goes over a dataset of its own reads all of it; shares come from `ray.train.get_dataset_shard`."""

from datasets import load_dataset  # type: ignore[import-not-found]
from torch.utils.data import DataLoader

from gpudoctor.manifest.effects import followed

@followed()
class Dataset:
    def map(self, *told, **more):
        return self
    map_batches = flat_map = filter = limit = random_shuffle = repartition = sort = add_column = drop_columns = map
    select_columns = rename_columns = materialize = union = map
    # What a stream of Hugging Face is: each process that reads it gets all.
    def iter_torch_batches(self, *, batch_size=256, **more):
        return DataLoader(load_dataset(self, streaming=True), batch_size)

@followed()
def read_csv(*told, **more):
    return Dataset()

read_parquet = read_json = read_text = read_images = read_numpy = read_tfrecords = read_webdataset = read_csv
from_items = from_pandas = from_numpy = from_huggingface = from_torch = from_arrow = read_datasource = read_csv
