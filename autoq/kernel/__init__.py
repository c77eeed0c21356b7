"""autoq.kernel"""
