"""autoq.templates.cpu"""
