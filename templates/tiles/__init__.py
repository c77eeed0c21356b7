"""autoq.templates.tiles"""
