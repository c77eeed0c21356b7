"""autoq.graph"""
