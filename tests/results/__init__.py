"""Results of long runs, and the table of docs/measured.md that is made of them."""
