"""Nodes that become one: with what stands in front of them, behind them, or beside them."""
