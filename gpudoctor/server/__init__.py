"""The language server: what lint finds, in an editor and while one types.

The server (`language_server.py`) speaks with the editor and computes nothing. Texts are judged in a process of its
own (`analysis_process.py` starts it, `analysis_worker.py` is what it runs), so that the editor is answered meanwhile,
and an analysis whose text has changed can be ended: a signal ends it between two steps of Python, and where that does
not help, the process is. Nothing is kept at module level: each server has its own texts, process and findings.

Of all of gpudoctor this part alone needs pygls: `pip install 'gpudoctor[lsp]'`.
"""
