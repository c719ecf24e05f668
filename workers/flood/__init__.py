"""How does load arrive at a gate, and how did the gate answer it?"""
