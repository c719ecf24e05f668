"""What failed for good, why, how much of it is kept, and how is it run again?"""
