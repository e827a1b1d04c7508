"""Are the GPUs kept busy?"""
