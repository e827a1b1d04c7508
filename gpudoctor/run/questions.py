"""The names under which a process is asked where it is, and answers."""

QUESTION = "ask-{pid}"
"""The pipe through which the question comes, in the folder of the recording."""
ANSWER = "answer-{pid}.json"
STARTS = "starts"
"""A file in the folder of the recording: where it is, instruments write down when the parts of a step began."""
