"""When will a backlog be gone, or full, and how is that put in one sentence? Pure."""
