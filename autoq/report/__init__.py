"""autoq.report"""
