"""Is everything on the device where it should be?"""
