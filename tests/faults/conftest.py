"""Tests that take minutes run only when asked for, here as in tests/engine."""

from tests.engine.conftest import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]
