"""Virtual time: scenario files in, the very scheduler and controllers of the product, a report out."""
