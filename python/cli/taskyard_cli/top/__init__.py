"""`taskyard top`: a live screen of one scheduler. Reading, figures and rows are pure of it; the screen shows them."""
