"""How does the gate compare with stock Celery on the same server, in the same minutes?"""
