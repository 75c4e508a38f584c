"""What the kind `sql` is made of."""
