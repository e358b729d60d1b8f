"""What a proof returns; it may leave the store: counts, and up to ten document references (SPEC 6.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_EXAMPLES = 10


@dataclass
class AuditResult:
    """The outcome of one audit.

    Attributes:
        message: one sentence for a person: what was found, where, and what to do.
        checked: how many things were looked at.
        violations: how many broke the invariant.
        examples: references of up to ten of them.
        warnings: things that break nothing but that somebody should look at.
        counts: further figures, by name.
    """

    message: str = ""
    checked: int = 0
    violations: int = 0
    examples: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the invariant holds."""
        return self.violations == 0

    def violate(self, example: str, times: int = 1) -> None:
        """Count a violation and keep it as an example while there is room."""
        self.violations += times
        if len(self.examples) < MAX_EXAMPLES and example not in self.examples:
            self.examples.append(example)

    def conclude(self, holds: str, broken: str) -> AuditResult:
        """Set the message: ``holds`` where nothing was found, else ``broken`` with figures and examples."""
        if self.passed:
            self.message = holds
        else:
            self.message = f"{self.violations} of {self.checked}: {broken} First: {', '.join(self.examples)}."
        return self
