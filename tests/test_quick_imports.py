"""Garbage is collected again after an import, whatever has become of it."""

import gc

import pytest

from tasks.quick_imports import quick_imports


def test_garbage_is_left_alone_only_meanwhile() -> None:
    with quick_imports():
        assert not gc.isenabled()
        with quick_imports():
            assert not gc.isenabled()
        assert not gc.isenabled(), "an import within another"
    assert gc.isenabled()
    with pytest.raises(ImportError), quick_imports():
        raise ImportError
    assert gc.isenabled()


def test_who_collects_none_is_left_alone() -> None:
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
