"""Errors of data sets, samples and the batches that are made of them."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_data = partial(ErrorText, library="data")

DATA_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"\bAssertionError:?\s*(?:Number of (?:subsampled )?indices .*)?$",
        "`DistributedSampler` could not give each rank as many samples as the others: the data set's length changed "
        "after the sampler was made, or, in old versions of torch, it has fewer than half as many samples as there "
        "are ranks.",
        "Print `len(dataset)` on each rank: a wrong path, or a data set that is already cut into shards, is usual.",
        inside=r"(?m:^)distributed\.py:__iter__",
    ),
    ErrorText(
        r"stack expects each tensor to be equal size",
        "The samples of a batch have different shapes, and the loader stacks them as they are.",
        "Crop or pad in the data set, or give the loader a `collate_fn` that does; run over the data set once alone to "
        "find the samples.",
    ),
    ErrorText(
        r"should be of equal size|Trying to resize storage that is not resizable|"
        r"default_collate: batch must contain tensors",
        "The samples of a batch cannot be stacked: they differ in shape or length, or are of a type that the loader "
        "does not know.",
        "Crop, pad or convert in the data set, or give the loader a `collate_fn` that does.",
    ),
    _data(
        r"num_samples should be a positive integer value, but got num_samples=0|"
        r"returned 0 length|Found 0 (?:files|images|images in subfolders)|Couldn't find any class folder|"
        r"Found no valid file for the classes|No training data|dataset is empty|[Ee]mpty dataset|"
        r"corresponds to no data!",
        "The data set is empty: nothing was found at its path, or a filter leaves nothing.",
        "Print the path and the number of files as this rank sees them.",
    ),
    ErrorText(
        r"Dataset not found or corrupted|File not found or corrupted",
        "The data are not there, or another rank was still to download them.",
        "Download once: on one rank before the others go on, or before the job.",
        code="GPU314",
    ),
    ErrorText(
        r"background workers? (?:are|is) no longer alive|MultiThreadedAugmenter\.abort_event was set",
        "A process that prepares data for this one has ended: mostly it was killed, because the node or the job's "
        "share of it had no memory left.",
        "Lower the number of these processes, or ask for more memory; an error of its own stands further up.",
        library="batchgenerators",
    ),
    ErrorText(
        r"sampler option is mutually exclusive with shuffle",
        "A loader was given a sampler and `shuffle`.",
        "Remove `shuffle` from the loader, and give it to the sampler.",
        code="GPU303",
    ),
    ErrorText(
        r"DataLoader with IterableDataset: expected unspecified (?:sampler|shuffle|batch_sampler)",
        "An IterableDataset gives its samples in its own order: no sampler can divide it.",
        "Divide it in the data set itself, by rank and worker.",
        likely=("GPU310",),
    ),
    ErrorText(
        r"persistent_workers option needs|prefetch_factor option could only be specified|"
        r"batch_sampler option is mutually exclusive|multiprocessing_context can only be used",
        "The options of a loader do not fit each other; the text says which.",
        "Follow the text.",
    ),
    _data(
        r"cannot identify image file|UnidentifiedImageError|[Ii]mage file is truncated|broken data stream|"
        r"!_src\.empty\(\)|_src\.empty|!ssize\.empty\(\)|DecompressionBombError|moov atom not found|"
        r"Invalid data found when processing input|DECORDError|LibsndfileError",
        "An image, a sound or a video cannot be read: the file is damaged, cut off, or not there.",
        "Read all files once, alone, to find it; skip it or fetch it again.",
    ),
    _data(
        r"unable to lock file|Resource temporarily unavailable.*lock|database is locked|lmdb\.\w*LockError|"
        r"MDB_READERS_FULL|Unable to (?:synchronously )?(?:open|create) file|filelock\.\w+|lmdb\.\w*Error",
        "A file that several processes open (HDF5, LMDB, a data base) is locked, damaged or not there.",
        "Open it in each worker, for reading only (`lock=False`, `HDF5_USE_FILE_LOCKING=FALSE`).",
    ),
    ErrorText(
        r"DatasetGenerationError|DatasetGenerationCastError|NonMatching(?:SplitsSizes|Checksum)\w*|ArrowInvalid|"
        r"ArrowNotImplementedError|DataFilesNotFoundError|Unknown split |Bad split|BuilderConfig .* not found|"
        r"cached in a LocalFileSystem is not supported|Config name is missing|CastError|ArrowTypeError",
        "The library `datasets` cannot make this data set: its files differ from what is declared, or a split or a "
        "name is not there.",
        "Load it once in one process; the text says which file or column. Clear its cache after an update.",
        library="datasets",
    ),
    _data(
        r"JSONDecodeError|Expecting value: line \d+ column|Expecting property name|ParserError: Error tokenizing data|"
        r"EmptyDataError|Extra data: line",
        "A file of data or settings is not valid JSON or CSV, is empty, or was cut off while another process wrote it.",
        "Look at the file as this rank sees it.",
        likely=("GPU604",),
    ),
    ErrorText(
        r"UnicodeDecodeError|UnicodeEncodeError|codec can't (?:de|en)code",
        "Text is in another encoding than the one it is read or written in.",
        "Open with `encoding='utf-8'`, and set `PYTHONUTF8=1` where the node's locale is `C`.",
        library="python",
    ),
    ErrorText(
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch, m1: |must match the size of tensor b|"
        r"shape '\[[^\]]*\]' is invalid for input of size|Sizes of tensors must match except in dimension|"
        r"Given groups=\d+, (?:weight of size|expected weight)|expected input\[[^\]]*\] to have \d+ channels|"
        r"must match the existing size|Given input size: |Kernel size can't be greater than|"
        r"The shape of the (?:mask|2D attn_mask)|Expected (?:input|target) (?:batch_size|size)|"
        r"output with shape \[[^\]]*\] doesn't match|could not be broadcast together|shapes? \S+ .*not aligned|"
        r"normalized_shape=|Dimension out of range|"
        r"cannot reshape (?:array|tensor)",
        "Tensors have shapes that do not fit the operation: the data, the settings of the model or a layer is not as "
        "the code expects.",
        "Print the shapes at this line; where only the last batch fails, `drop_last=True`.",
    ),
    ErrorText(
        r"index out of range in self|[Tt]arget -?\d+ is out of bounds|out of bounds for dimension|"
        r"index -?\d+ is out of bounds for axis|Class values must be (?:smaller|non-negative)|"
        r"(?:list|string|tuple) index out of range|index \d+ is out of range|"
        r"index \d+ out of range",
        "An index is outside of its range: a label, a token or a position that is not below the size.",
        "Compare the largest with the number of classes, the vocabulary or the longest sequence.",
    ),
)
