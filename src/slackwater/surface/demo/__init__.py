"""The demonstration: packets of two routers, out of order, and who talks most."""
