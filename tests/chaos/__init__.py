"""Kills processes at random and proves that no row is lost and none doubled."""
