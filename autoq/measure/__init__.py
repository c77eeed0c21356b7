"""autoq.measure"""
