"""When does the gate change its mode by itself? Pure."""
