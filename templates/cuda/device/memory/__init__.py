"""How bytes come to shared memory and registers, wait there and leave."""
