"""What do tests stand on? Real servers and real processes, started and ended here."""
