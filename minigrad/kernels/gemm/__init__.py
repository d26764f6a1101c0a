"""Matrix products: the ladder that leads to them, packing, blocks in registers, and the choice of the backend."""
