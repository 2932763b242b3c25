"""What a person is shown in the terminal."""
