"""Values of which no plan can be made."""

from penstock.model.error import PenstockError


class PlanError(PenstockError):
    """One sentence: which value, and what would be right."""
