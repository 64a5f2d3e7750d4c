"""The catalogue: models by name, and what a repository of the hub offers."""

from app.hub.catalogue.entries import CatalogueEntry, load_catalogue, starter

__all__ = ["CatalogueEntry", "load_catalogue", "starter"]
