"""Which services run in the background? Each is one small loop on the same skeleton."""
