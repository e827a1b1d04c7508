"""What the inventory alone says is wrong with a machine: pure functions from an `Inventory` to weak points."""
