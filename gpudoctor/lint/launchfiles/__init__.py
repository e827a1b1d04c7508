"""Launch files: the scripts, batch files, container files and settings that start training programs.

A file is read into commands (`shell.py` and the readers of the formats that hold commands), a command into a
`ProgramStart` (`start.py`, `launchers.py`), and all of a request are what the rules about launching ask
(`launched.py`). Nothing here is loaded where only programs are linted.
"""
