"""What models are made of: an operator a module, which owns all that the operator means.

Every module is imported when a workload is read by its key, so that an operator joins by being in
this folder.
"""
