"""Is the step the step you meant?"""
