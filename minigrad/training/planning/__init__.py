"""What a run will do and cost, before it begins: its plan, the choices left open, and what a budget buys."""
