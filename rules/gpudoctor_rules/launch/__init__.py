"""Do the processes start, and do they find each other?"""
