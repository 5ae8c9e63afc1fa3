"""The names of tenants and users, and the roles that a user has in a tenant.

Both kinds of names are a few ASCII characters. So no name looks like another one, and that of a tenant is a folder.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, get_args

from backstory.base.errors import InputError

Role: TypeAlias = Literal["reader", "editor", "owner"]
"""A reader asks, an editor also adds and removes documents, and an owner may do everything."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""The roles, of which each may do what the earlier ones may."""

_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_USER: Final = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")


def is_tenant_name(text: str) -> bool:
    """Return whether a text can be the name of a tenant. No other text ever becomes part of a path."""
    return _TENANT.fullmatch(text) is not None


def require_tenant_name(text: str) -> str:
    """Return the name of a tenant as it was given."""
    if not is_tenant_name(text):
        raise InputError(
            f"{text!r} cannot be the name of a tenant; use 1 to 63 small letters a-z, digits and hyphens, "
            "and begin with a letter or a digit",
            code="bad_tenant_name",
        )
    return text


def require_user_name(text: str) -> str:
    """Return the name of a user as it was given."""
    if _USER.fullmatch(text) is None:
        raise InputError(
            f"{text!r} cannot be the name of a user; use 1 to 100 small letters a-z, digits and . _ @ + -, "
            "and begin with a letter or a digit",
            code="bad_user_name",
        )
    return text


def require_role(text: str) -> Role:
    """Return a role by its name."""
    for role in ROLES:
        if role == text:
            return role
    raise InputError(f"{text!r} is no role; choose one of {', '.join(ROLES)}", code="unknown_role")


def includes(held: Role | None, wanted: Role) -> bool:
    """Return whether a role may do what another one may; None is no role at all."""
    return held is not None and ROLES.index(held) >= ROLES.index(wanted)
