"""Its place lets the tests below import the cases and host models beside it."""
