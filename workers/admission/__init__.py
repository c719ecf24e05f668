"""How does a message become an offer, and what may a queue hold?"""
