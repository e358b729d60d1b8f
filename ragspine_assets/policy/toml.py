"""TOML that may hold names nobody outside should read: a fault is told by its place (SPEC 6.1)."""

from __future__ import annotations

import re
import tomllib

from ragspine_assets.errors import SettingError

_PLACE = re.compile(r"\(at (line \d+, column \d+|end of document)\)\Z")


def read_toml(text: str) -> dict[str, object]:
    """Return what a TOML text says.

    Raises:
        SettingError: it is no TOML. The message begins with ``no valid TOML`` and gives the line and the column; the
            parser's own words may quote keys and values.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        place = "its values are nested too deeply"
    except ValueError as error:
        found = _PLACE.search(str(error))
        place = found.group(1) if found else "a number in it is too long"
    # Raised out here, so that the parser's exception is not this one's context.
    raise SettingError(f"no valid TOML ({place})")
