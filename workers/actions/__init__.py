"""What can an operator do? One verb a file: permission, execute, journal.

The only write path for the page, the API and the command line. Each verb raises `NotPermitted` (and
journals that), `NotPossible` where the request cannot be met, or `StoreUnavailable`.
"""
