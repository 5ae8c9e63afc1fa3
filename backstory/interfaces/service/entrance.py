"""What an endpoint needs to know of who was let in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from backstory.interfaces.service.names import Role


class Visitor(Protocol):
    """Whose token a request bears."""

    @property
    def user_id(self) -> str:
        """Id of the user."""


class Entrance(Protocol):
    """A request that was let into a tenant."""

    @property
    def caller(self) -> Visitor:
        """Whose token it bears."""

    @property
    def tenant(self) -> str:
        """The tenant that it is for."""


Admit: TypeAlias = Callable[[Role], Callable[..., Any]]
"""Gives the dependency of FastAPI that lets in requests of a role, or of a higher one, as an :class:`Entrance`."""
