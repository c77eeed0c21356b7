"""autoq.cli"""
