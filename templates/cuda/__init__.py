"""autoq.templates.cuda"""
