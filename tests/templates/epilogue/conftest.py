"""Its place lets the tests below import `host_rows`."""
