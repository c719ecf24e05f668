"""Which rules are broken, for how long, and who is told?"""
