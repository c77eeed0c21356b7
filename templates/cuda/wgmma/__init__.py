"""Products and convolutions on Hopper's tensor cores over one pipeline of TMA loads and wgmma."""
