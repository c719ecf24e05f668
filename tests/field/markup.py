"""What would run, or be worked out, if any page took it for more than text?"""

from __future__ import annotations


def markup(place: str) -> str:
    """Script, handlers, an address that is code, the end of a script, quotes and braces of templates."""
    code = f"window.ran='{place}'"
    return (
        f'{place}"\'><img src=/ran/{place} onerror="{code}"><script>{code}</script>'
        f'</script><a href="javascript:{code}">{{{{7*7}}}}${{7*7}}</a>'
    )
