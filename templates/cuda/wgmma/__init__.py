"""Products and convolutions over one pipeline of TMA loads, wgmma and an epilogue."""
