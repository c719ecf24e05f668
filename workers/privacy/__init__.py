"""Who may see what a job carries, and how is it kept? Pure: no store, no framework."""
