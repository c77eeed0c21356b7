"""autoq.records"""
