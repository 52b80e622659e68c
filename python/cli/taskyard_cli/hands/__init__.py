"""What a person does by hand to what is there: stops it, has it run again, marks it, completes it, holds it back."""
