"""Results of long runs, and the table of the README that is made of them."""
