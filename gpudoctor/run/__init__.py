"""Watch the user's own training: start it, let instruments write down what each rank does, and judge that.

`startup`, `agent`, `recorder` and `instruments` live in the user's processes, the rest in ours.
"""
