"""What we need from outside. Ports speak core's types only, and never decide: they store, perform and report."""
