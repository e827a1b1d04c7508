"""The names under which a process is asked where it is, and answers."""

QUESTION = "ask-{pid}"
"""The pipe through which the question comes, in the folder of the recording."""
ANSWER = "answer-{pid}.json"
