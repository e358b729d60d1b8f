"""Dagster assets that turn a folder of documents into a chunk store, a relation graph and a retrieval snapshot."""

__version__ = "0.1.0"
