"""Matrix products, from the plain triple loop to the speed of the processor."""
