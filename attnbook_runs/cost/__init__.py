"""What attention costs, measured; and the landscape of a loss."""
