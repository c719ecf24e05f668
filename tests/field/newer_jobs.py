"""What does the next release bring that the running one does not know?"""

from celery import shared_task


@shared_task(name="field.newer")
def newer() -> str:
    return "known by now"
