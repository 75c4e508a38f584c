"""What the kind `sklearn` is made of."""
