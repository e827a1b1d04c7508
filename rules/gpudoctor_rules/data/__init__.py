"""Does each rank see its own shard of the data, and all of it?"""
