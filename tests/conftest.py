"""What all tests share; its place also lets them import `models`."""
