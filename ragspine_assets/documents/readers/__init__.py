"""One module per family of formats; each has ``read(data, limits) -> Reading`` (SPEC 1.4, 1.12)."""
