"""Which pages are there? Each renders a template; its figures come from the API."""
