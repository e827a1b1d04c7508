"""Does one rank write, and can all read?"""
