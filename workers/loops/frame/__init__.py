"""What does one frame say? A pure function of past snapshots and of what the database knew last."""
