"""The mixed-input product on Hopper's wgmma: weights widened in registers, tiles by TMA."""
