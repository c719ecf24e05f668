"""How much may pass at a time? The settings of limits; what applies them is a script."""
