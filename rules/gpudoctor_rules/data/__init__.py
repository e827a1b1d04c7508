"""Does each rank see its own share of the data, and all of it?"""
