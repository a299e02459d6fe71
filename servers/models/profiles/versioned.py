"""Versioned rows: what profiles and environment groups share, and saves that overwrite nobody’s."""

from typing import Any, ClassVar

from django.db import models


class Stale(Exception):
    """Somebody else has saved since."""


class Versioned(models.Model):
    # What people write about it; it may change without a new version.
    ABOUT: ClassVar[tuple[str, ...]]

    saves = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True

    @property
    def about(self) -> dict[str, Any]:
        """What it says of itself, apart from its versions."""
        return {name: getattr(self, name) for name in self.ABOUT}

    def claim(self, *, saves: int) -> None:
        """Begin a save on top of what somebody has seen, inside the save's transaction.

        Raises Stale when somebody else has saved since.
        """
        mine = type(self)._default_manager.filter(pk=self.pk, saves=saves)
        if not mine.update(saves=saves + 1):
            raise Stale
        self.saves = saves + 1

    def save_about(self, about: dict[str, Any], *, saves: int) -> dict[str, Any]:
        """As claim(), with what it says of itself from now on; return what it said before."""
        self.claim(saves=saves)
        before = self.about
        for name, value in about.items():
            setattr(self, name, value)
        self.save(update_fields=self.ABOUT)
        return before
