"""autoq.runtime"""
