"""Epilogues of the fragments that tensor cores leave: which rows and columns a thread has."""
