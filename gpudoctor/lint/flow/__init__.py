"""Conditions, value sets and the layered store: what holds where. Knows neither torch nor syntax."""
