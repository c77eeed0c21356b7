"""autoq.frontend"""
