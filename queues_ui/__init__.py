"""What does the control room show? Pages, API and live stream; it owns no table and no key."""
