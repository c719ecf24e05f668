"""Make a user with a role, or give one another role or password."""

from __future__ import annotations

from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from .actor import ROLES, Actor, NotPossible, Result
from .journal import require_role, write_entry

VERB: Final = "create_user"


def execute(
    actor: Actor,
    *,
    name: str,
    role: str,
    password: str | None,
    change: bool = False,
    check_password: bool = True,
) -> Result:
    """`password` None keeps the one there is, or makes a user who cannot log in yet."""
    require_role(actor, "admin", VERB, target=name)
    if role not in ROLES:
        raise NotPossible("invalid", f"role must be one of {', '.join(ROLES)}.", field="role")
    users = get_user_model().objects
    with transaction.atomic():
        user = users.filter(username=name).first()
        if user is not None and not change:
            raise NotPossible("duplicate", f"There is a user {name!r} already.", field="name", status=409)
        user = user or get_user_model()(username=name)
        try:
            user.clean_fields(exclude=["password"])
            if password is not None and check_password:
                validate_password(password, user)
        except ValidationError as fault:
            raise NotPossible("invalid", " ".join(fault.messages), field="password") from fault
        if password is not None:
            user.set_password(password)
        elif user.pk is None:
            user.set_unusable_password()
        user.save()
        user.groups.set([group_of(role), *user.groups.exclude(name__in=ROLES)])
        write_entry(actor, VERB, target=name, after={"role": role, "password": password is not None})
    return Result(VERB, name, {"name": name, "role": role})


def group_of(role: str) -> Group:
    return Group.objects.get_or_create(name=role)[0]


def make_group(role: str) -> bool:
    """Whether it had to be made."""
    return bool(Group.objects.get_or_create(name=role)[1])
