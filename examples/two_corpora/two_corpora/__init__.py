"""A Dagster project of somebody's own that holds two corpora."""
