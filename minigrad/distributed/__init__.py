"""Several processes that train one model together, on one machine or on many: what they say to each other."""
