"""Is the model parallel at all?"""
