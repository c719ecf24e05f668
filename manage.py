#!/usr/bin/env python3
"""Which command should run? Django's own entry, with this project's settings."""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        print(
            "Django is not installed in this Python; run `make up`, or .venv/bin/python manage.py",
            file=sys.stderr,
        )
        return 1
    from config.env import WrongSetting
    from workers.management.usage import find_unreadable, speak_in_one_line

    if fault := find_unreadable(sys.argv):
        print(f"manage.py: {fault}", file=sys.stderr)
        return 2
    speak_in_one_line()
    try:
        execute_from_command_line(sys.argv)
    except WrongSetting as fault:
        print(f"sluicegate: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
