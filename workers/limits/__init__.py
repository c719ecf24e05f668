"""How much may be tried, and how much may pass at a time? The deciding parts of limits, without I/O."""
